"""Tasks and small sets of the tests of this folder."""

import json
from collections import namedtuple
from pathlib import Path

import lm_eval
import yaml
from lm_eval.tasks import TaskManager

from nnd_tasks.store import tasks_dir
from nnd_tasks.task.task_files import write_task_folder
from tests.random_models import evaluate
from tests.sets.folders import write
from tests.sets.tables import LABELS, make_rows


def read_cases(test_file):
    """Read the tables of the tests in a folder, ``cases.yaml``."""
    return dict(yaml.safe_load(Path(test_file).with_name("cases.yaml").read_text("utf-8")))


#: Tables of tests.
CASES = read_cases(__file__)
DEMO = tasks_dir() / "demo" / "nnd_demo.yaml"


def folders_of(name):
    """List the folder of a set of ours that has a YAML of this task; none for a variant."""
    return [path.parent for path in tasks_dir().glob(f"*/{name}.yaml")]


def load_task(name, metadata=None, include=()):
    """Load a task; lm-eval reads no other YAMLs than those in its folder, which takes half a second for all."""
    folders = [*include] or folders_of(name) or [write_task_folder()]
    manager = TaskManager(include_path=folders, include_defaults=False, metadata=metadata or {})
    return manager.load([name])["tasks"][name]


def build_task(name, metadata, include=(), **options):
    """Return a task with the requests of all its documents, or of those that the options choose."""
    task = load_task(name, metadata, include)
    task.set_config("num_fewshot", 0)
    task.build_all_requests(**options)
    return task


def write_yaml(folder, name, include=DEMO, **settings):
    """Write a task that includes another one; return its folder."""
    folder.mkdir(exist_ok=True)
    lines = [f"{key}: {json.dumps(value)}" for key, value in {"task": name, **settings}.items()]
    (folder / f"{name}.yaml").write_text("\n".join([f"include: {include}", *lines, ""]), encoding="utf-8")
    return folder


def small_set(folder, rows, **settings):
    """Write a set of (context, candidate, ok or wrong) with a task ``small``; return the folder of the task."""
    table = [{"c": context, "t": text, "l": label} for context, text, label in rows]
    made = make_rows(folder, table, **{**LABELS, "better": "ok"}, candidates="rows", config="authors")
    place = folder / "nnd" / "small"
    write(place, {"authors": made.tables["authors"]})
    settings = {"dataset_path": str(place), "doc_to_text": "{{context}}\nQuestion:", **settings}
    return write_yaml(folder / "yaml", "small", tasks_dir() / "_base", **settings)


#: What a run says of one task: metric -> value, without the name of the filter; the samples of each document; and what the
#: results file has of us.
TaskRun = namedtuple("TaskRun", ["rates", "samples", "facts"])


def read_task(results, task="nnd_demo"):
    """Take one task out of lm-eval's results."""
    rates = {name.partition(",")[0]: value for name, value in results["results"][task].items()}
    return TaskRun(rates, results["samples"][task], results["configs"][task]["metadata"]["nnd"])


def run_task(model, task="nnd_demo", **options):
    """Evaluate one task, see `evaluate`."""
    return read_task(evaluate(model, [task], **options), task)


def run_stock(arguments, **options):
    """Evaluate the demo as stock ``lm_eval`` does, which tells a task the model's arguments and nothing else."""
    metadata = {**arguments, **options.pop("metadata", {})}
    manager = TaskManager(include_path=str(tasks_dir()), include_defaults=False, metadata=metadata)
    options = {"model": "hf", "model_args": arguments, "device": "cpu", "bootstrap_iters": 0, **options}
    return read_task(lm_eval.simple_evaluate(tasks=["nnd_demo"], task_manager=manager, **options))
