"""CPU seconds and memory of everything in `nnd run` but the forward pass, per request, and of what reads its results.

    python benchmarks/overhead.py                      # mqm, summeval, quiz_design: three rounds, beside stock lm-eval
    python benchmarks/overhead.py --beside FOLDER      # and beside another checkout, in turn
    python benchmarks/overhead.py --sets quiz_design --rounds 1

Each command runs in a process of its own, with one thread. ``hf-shared-prefix`` tokenizes, packs and collects; its forward pass
returns at once, and so does its check of the model. Stock lm-eval gets the same requests, a document per prompt, and its
``dummy`` model, which does not tokenize. CPU seconds are user and system time of the process and of those that it starts. A
stage has the time of the functions under its name without that of other stages that these call; its memory is the most that the
process had used by its end. What imports cost is a process that imports the same modules and does nothing else.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import GeneratorType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

#: Set -> its task.
TASKS = {"mqm": "nnd_mqm_ende", "summeval": "nnd_summeval", "quiz_design": "nnd_quiz_design"}
#: Where the engine lies in this checkout, and where it lay in earlier ones.
ENGINES = (
    ("shared_prefix.hf_shared_prefix", "shared_prefix.prefix_scoring", "shared_prefix.encodings"),
    ("nnd_tasks.models.shared_prefix", "nnd_tasks.models.prefix_scoring", "nnd_tasks.models.encodings"),
)
#: Stage -> the functions that it consists of; those that a checkout or lm-eval alone lacks are left out.
STAGES = {
    "index of tasks": ("lm_eval.tasks.manager:TaskManager.__init__", "nnd_tasks.task.task_files:write_task_folder"),
    "documents": ("nnd_tasks.task.task:NNDTask.download", "lm_eval.api.task:ConfigurableTask.download"),
    "checks": ("nnd_tasks.task.task:NNDTask.prepare",),
    "loading the model": ("lm_eval.models.huggingface:HFLM._create_model",),
    "tokens": (
        "lm_eval.models.huggingface:HFLM.tok_encode",
        "{encodings}:TokenizingOnce.encode_texts",
    ),
    "requests": ("lm_eval.api.task:Task.build_all_requests", "nnd_tasks.task.task:NNDTask.build_all_requests"),
    "packs": ("{scoring}:make_packs",),
    "stub engine": ("lm_eval.models.huggingface:HFLM.loglikelihood", "lm_eval.models.dummy:DummyLM.loglikelihood"),
    "scores": ("lm_eval.api.task:Task.apply_filters", "nnd_tasks.task.task:NNDTask.apply_filters"),
    "metrics": (
        "nnd_tasks.task.task:NNDTask.process_results",
        "lm_eval.api.task:ConfigurableTask.process_results",
        "lm_eval.evaluator:_process_results",
    ),
    "records of samples": ("lm_eval.evaluator:evaluate",),
    "look-up of the machine": ("lm_eval.evaluator:add_env_info", "lm_eval.evaluator:get_git_commit_hash"),
    "files written": (
        "lm_eval.loggers.evaluation_tracker:EvaluationTracker.save_results_aggregated",
        "lm_eval.loggers.evaluation_tracker:EvaluationTracker.save_results_samples",
    ),
}
#: What both commands import.
IMPORTS = "lm_eval.evaluator", "lm_eval.models.huggingface", "lm_eval.tasks", "lm_eval.loggers", "lm_eval._cli"
STOCK = """
task: stock
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: {prompt}
doc_to_choice: candidates
doc_to_target: 0
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""


# ---------------------------------------------------------------- within a process


def cpu() -> float:
    """Return the CPU seconds of this process and of those that it has started."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Stages:
    """CPU seconds of each stage without those of others that it calls, and the memory of the process at its end, in MB."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.memory: dict[str, float] = {}
        self._inner = [0.0]  # seconds of other stages within each of those that are going on

    def timed(self, stage: str, call: Callable[[], Any]) -> Any:
        """Add the CPU seconds of a call to a stage, and return its result."""
        start = cpu()
        self._inner.append(0.0)
        try:
            return call()
        finally:
            whole = cpu() - start
            self.seconds[stage] += whole - self._inner.pop()
            self._inner[-1] += whole
            self.memory[stage] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    def watch(self, stage: str, name: str) -> None:
        """Replace the function ``module:name`` by one that is timed, if there is such a function."""
        module, _, path = name.partition(":")
        try:
            owner = import_module(module)
        except ImportError:
            return
        *parents, attribute = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent)
        if attribute not in vars(owner):
            return
        function = vars(owner)[attribute]

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = self.timed(stage, lambda: function(*args, **kwargs))
            return self._each(stage, result) if isinstance(result, GeneratorType) else result

        setattr(owner, attribute, call)

    def _each(self, stage: str, items: Iterator[Any]) -> Iterator[Any]:
        end = object()
        while (item := self.timed(stage, lambda: next(items, end))) is not end:
            yield item


def engine_modules() -> tuple[str, str, str]:
    """Return the names of the engine's modules in the checkout that this process runs."""
    import nnd_tasks

    inside = Path(nnd_tasks.__file__).with_name("models").is_dir()
    if inside:  # an installed engine of today would register the same names
        look_up = importlib.metadata.entry_points
        importlib.metadata.entry_points = lambda **given: look_up(  # type: ignore[assignment]
            **({"group": ""} if given.get("group") == "lm_eval.models" else given)
        )
    return ENGINES[inside]


def stub_forward_pass() -> dict[str, str]:
    """Let the engine's forward pass return at once, numbers that depend on the scored tokens; return its modules."""
    import torch

    torch.set_num_threads(1)
    engine, scoring, encodings = engine_modules()

    def read(self: Any, tokens: Any, *_: Any) -> Any:
        return torch.zeros(1, 1).expand(len(tokens), 1)

    def score(self: Any, hidden: Any, rows: Any, targets: Any) -> Any:
        return -1 - (targets % 97) / 97, targets % 2 == 0, torch.empty(len(targets), 0)

    import_module(engine).SharedPrefixLM._self_check = lambda self: None
    import_module(scoring).PrefixScoring._read = read
    import_module(scoring).VocabularyHead.__call__ = score
    return {"engine": engine, "scoring": scoring, "encodings": encodings}


def run_here(kind: str, arguments: list[str]) -> None:
    """Run a command in this process, and print its CPU seconds, memory and stages as JSON, last."""
    gc.set_threshold(100_000, 50, 100)  # as `nnd` does
    stages = Stages()
    if kind in ("run", "imports"):
        modules = stub_forward_pass()
        for module in (*IMPORTS, "nnd_tasks.task.task", "nnd_tasks.run.run"):
            import_module(module)
        import_module("transformers.models.llama.modeling_llama")
    elif kind in ("stock", "stock imports"):
        modules = {}
        for module in (*IMPORTS, "lm_eval.models.dummy", "lm_eval.__main__"):
            import_module(module)
    if kind in ("run", "stock"):
        for stage, functions in STAGES.items():
            for function in functions:
                if kind == "run" or not function.startswith(("nnd_tasks", "{")):
                    stages.watch(stage, function.format(**modules))
    start, loaded = cpu(), kind in ("run", "stock")
    if kind == "stock":
        from lm_eval.__main__ import cli_evaluate as main

        sys.argv = ["lm_eval", "run", *arguments]
    elif kind in ("run", "nnd"):
        from nnd_tasks.cli import main

        sys.argv = ["nnd", *arguments]
    else:

        def main() -> None:
            """Do nothing."""

    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"cpu": cpu(), "memory": memory, "imports": start if loaded else 0.0}
    if loaded:
        rest = found["cpu"] - found["imports"] - sum(stages.seconds.values())
        found |= {"stages": {**stages.seconds, "the rest": rest}, "peaks": {**stages.memory, "the rest": memory}}
    print(f"\n{json.dumps(found)}", flush=True)


# ---------------------------------------------------------------- all commands, in turn


class Checkout:
    """A checkout of nnd-tasks with a home of its own, in which its sets are built."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        paths = os.pathsep.join(map(str, (folder, folder / "engine")))
        self.environment = {
            **os.environ,
            "PYTHONPATH": paths,
            "NND_HOME": str(home),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(home.with_name("pycache")),
        }

    def python(self, *arguments: str) -> str:
        """Run Python in this checkout and return what it prints."""
        done = subprocess.run(
            [sys.executable, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            cwd=tempfile.gettempdir(),
        )
        if done.returncode:
            sys.exit(f"{arguments}:\n{done.stdout[-500:]}{done.stderr[-3000:]}")
        return done.stdout

    def measure(self, kind: str, *arguments: str) -> dict[str, Any]:
        """Run a command, see `run_here`."""
        found: dict[str, Any] = json.loads(
            self.python(str(Path(__file__).resolve()), "--one", kind, *arguments).splitlines()[-1]
        )
        return found

    def build(self, name: str, source: Path) -> None:
        """Build a set from the publisher's files."""
        code = f"import nnd_tasks; nnd_tasks.build_set({name!r}, {str(source)!r}, progress=False)"
        self.python("-c", code)


def write_stock_task(task: str, folder: Path) -> int:
    """Write lm-eval's own task of the same requests into a folder; return the number of requests."""
    from nnd_tasks.store import find_dataset, read_table, task_yamls, tasks_dir
    from nnd_tasks.task.documents import cluster_documents
    from nnd_tasks.task.task_files import read_task_yaml

    settings = next(found for path in task_yamls(tasks_dir()) if (found := read_task_yaml(path)[0])["task"] == task)
    dataset = find_dataset(settings["dataset_path"])
    assert dataset is not None
    documents = cluster_documents(read_table(dataset, settings.get("dataset_name")), task)
    rows = [
        {key: value for key, value in document.items() if key not in ("tests", "error_spans")} for document in documents
    ]
    file = folder / "documents.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    (folder / "stock.yaml").write_text(
        STOCK.format(file=file, prompt=json.dumps(settings["doc_to_text"])), encoding="utf-8"
    )
    return sum(len(row["candidates"]) for row in rows)


def median(found: list[dict[str, Any]], *keys: str) -> float:
    values = []
    for one in found:
        for key in keys:
            one = one[key]
        values.append(float(one))  # type: ignore[arg-type]
    return statistics.median(values)


def print_set(name: str, requests: int, found: dict[str, list[dict[str, Any]]]) -> None:
    """Print what was measured on a set: the stages of the runs, then what all commands cost."""
    runs = [kind for kind in found if "stages" in found[kind][0]]
    print(
        f"\n### {name}: {requests:,} requests\n\nMilliseconds of CPU per request; in brackets MB at the stage's end.\n"
    )
    print(f"| stage | {' | '.join(runs)} |\n|---|{'---|' * len(runs)}")
    for stage in (*STAGES, "the rest"):
        cells = []
        for kind in runs:
            milliseconds = 1000 * median(found[kind], "stages", stage) / requests
            known = stage in found[kind][0]["peaks"]
            cells.append(f"{milliseconds:.3f} ({median(found[kind], 'peaks', stage):.0f})" if known else "")
        print(f"| {stage} | {' | '.join(cells)} |")
    for label, key in (("all but imports", "beyond"), ("imports", "imports"), ("CPU seconds, whole", "cpu")):
        cells = []
        for kind in runs:
            values = [one["cpu"] - one["imports"] if key == "beyond" else one[key] for one in found[kind]]
            per = 1000 / requests if key == "beyond" else 1
            low, middle, high = (number * per for number in (min(values), statistics.median(values), max(values)))
            cells.append(f"{middle:.3f} [{low:.3f} to {high:.3f}]" if key == "beyond" else f"{middle:.2f} s")
        print(f"| **{label}** | {' | '.join(cells)} |")
    for kind in found:
        if kind not in runs:
            print(f"\n{kind}: {median(found[kind], 'cpu'):.1f} CPU seconds, {median(found[kind], 'memory'):.0f} MB")


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        run_here(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(TASKS), help="of mqm, summeval, quiz_design")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument("--model", help="folder of a Llama with its tokenizer; default: tiny-lm-xs in NND_TEST_MODELS")
    given = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "engine")]
    from benchmarks import workloads

    model = given.model or Path(os.environ.get("NND_TEST_MODELS", ROOT.parent / "shared" / "models")) / "tiny-lm-xs"
    print(f"Machine: {workloads.machine()}; load of the last minute at the start {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as place:
        other = shutil.copytree(model, Path(place, "other"))  # the first round, which fills caches, is by another model
        checkouts = {"nnd run": Checkout(ROOT, Path(place, "home"))}
        if given.beside:
            checkouts[f"nnd run, {given.beside.name}"] = Checkout(given.beside.resolve(), Path(place, "beside"))
        os.environ["NND_HOME"] = str(checkouts["nnd run"].home)
        for name in given.sets.split(","):
            for checkout in checkouts.values():
                checkout.build(name, workloads.DATA / name)
            stock = Path(place, f"stock_{name}")
            stock.mkdir()
            requests = write_stock_task(TASKS[name], stock)
            found: dict[str, list[dict[str, Any]]] = {}
            for round_ in range(given.rounds + 1):
                results, first = (Path(place, f"results_{name}_{number}") for number in (round_, 0))
                done = {}
                for number, (label, checkout) in enumerate(checkouts.items()):
                    arguments = [f"pretrained={model if round_ else other},dtype=float32", "--tasks", TASKS[name]]
                    ours = ["run", "--model", "hf", "--device", "cpu", "--log_samples", "--model_args", *arguments]
                    done[label] = checkout.measure("run", *ours, "--output_path", str(results / str(number)))
                stock_arguments = [
                    "--model",
                    "dummy",
                    "--tasks",
                    "stock",
                    "--include_path",
                    str(stock),
                    "--log_samples",
                ]
                done["lm_eval, dummy"] = checkouts["nnd run"].measure(
                    "stock", *stock_arguments, "--output_path", str(results / "stock")
                )
                for number, (label, checkout) in enumerate(checkouts.items() if round_ else ()):
                    for verb in ("compare", "report"):  # of this run and of the one by the other model
                        both = [str(folder / str(number)) for folder in (first, results)]
                        done[label.replace("run", verb, 1)] = checkout.measure("nnd", verb, *both)
                if round_:
                    for label, one in done.items():
                        found.setdefault(label, []).append(one)
            print_set(name, requests, found)
    print(f"\nLoad of the last minute at the end {os.getloadavg()[0]:.1f}.")


if __name__ == "__main__":
    main()
