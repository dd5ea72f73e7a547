"""What lm-eval's CI does with a contributed task (its tests/test_tasks.py, 0.4.13), with each that comes with us.

It names no model and no tokenizer, and calls `construct_requests` with a document and its prompt only.
"""

import functools
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lm_eval.tasks import TaskManager

from nnd_tasks.store import task_yamls, tasks_dir
from nnd_tasks.task import documents
from nnd_tasks.task.task_files import list_variants, read_task_yaml, write_task_folder
from shared_prefix.model_error import ModelError
from tests.task.tasks import load_task

LIMIT = 5
#: Set -> its tasks: all that somebody wrote, and one of each variant.
SHIPPED = {}
for path in task_yamls(tasks_dir()):
    settings = read_task_yaml(path)[0]
    if "group" not in settings:
        own = SHIPPED.setdefault(path.parent.name, {})
        own[settings["task"]] = settings["task"]
        for variant in list_variants(settings):
            own.setdefault(variant.removeprefix(settings["task"]), variant)
#: Tasks of which one of the first prompts ends in a space of the publisher's, which lm-eval's CI would not take before the
#: delimiter: texts stay as they were published.
SPACED = ("nnd_llmbar", "nnd_llmbar_clean")


def first_prompts(tests, count):
    """Return the tests of the first prompts: all of a large set take seconds to divide and to group."""
    clusters = list(dict.fromkeys(tests["cluster_id"].to_pylist()))[:count]
    return tests.filter(pc.is_in(tests["cluster_id"], pa.array(clusters)))


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    """lm-eval, which has read the YAMLs of all tasks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NND_HOME", str(tmp_path_factory.mktemp("home")))
        return TaskManager(include_path=[write_task_folder()], include_defaults=False)


def assert_as_lm_eval(task):
    task.download(task.config.dataset_kwargs)
    docs = list(islice(task.test_docs(), LIMIT))
    assert len(docs) == min(LIMIT, len(task.eval_docs))
    for document in docs:
        prompt = task.doc_to_text(document)
        spaced = task.config.target_delimiter.isspace() and prompt[-1:].isspace()
        assert not spaced or task.config.task in SPACED, "two spaces in a row"
        requests = task.construct_requests(doc=document, ctx=prompt)
        assert len(requests) >= len(task.doc_to_choice(document))
    task.build_all_requests(rank=1, limit=LIMIT, world_size=1)
    assert {request.doc_id for request in task.instances} == set(range(1, len(docs)))


def assert_rendered(task):
    document = task.eval_docs[0]
    prompt = task.doc_to_text(document)
    assert document["context"] in prompt
    assert "{{" not in prompt
    if task.config.task.endswith("_authors") and "quiz" not in task.config.task:
        assert prompt == document["context"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_tasks_of_a_set_pass_the_tests_of_lm_evals_ci_and_render_their_prompts(
    name, manager, real_sets, request, monkeypatch
):
    home = request.getfixturevalue("stress_home") if name == "blindspot" else real_sets(name).parents[1]
    monkeypatch.setenv("NND_HOME", str(home))
    read, take = documents.load_tests, documents.take_split
    load = functools.cache(lambda *names: read(*names, {}))
    kept = {}

    def take_few(tests, split, where):
        if (id(tests), split) not in kept:  # each is loaded once
            kept[id(tests), split] = first_prompts(take(first_prompts(tests, 300), split, where), LIMIT + 2)
        return kept[id(tests), split]

    monkeypatch.setattr(documents, "load_tests", lambda *arguments: load(*arguments[:3]))
    monkeypatch.setattr(documents, "take_split", take_few)
    for task_name in SHIPPED[name].values():
        task = manager.load([task_name])["tasks"][task_name]
        assert_as_lm_eval(task)
        assert_rendered(task)


def test_requests_without_a_tokenizer_are_never_scored(home):
    task = load_task("nnd_demo")
    task.build_all_requests(limit=2)
    for request in task.instances:
        request.resps = [(-1.0, False)]
    with pytest.raises(ModelError, match="names no tokenizer for this model"):
        task.apply_filters()
    with pytest.raises(ModelError, match="names no tokenizer for this model"):  # as lm-eval's evaluator calls it
        load_task("nnd_demo").build_all_requests(limit=2, cache_requests=False)
