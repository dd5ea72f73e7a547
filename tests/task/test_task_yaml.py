"""What a task's YAML may set: it is used, or refused before a model is loaded; no template reaches into Python."""

import pytest
from lm_eval.utils import env

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import build_set
from nnd_tasks.store import tasks_dir
from nnd_tasks.task.sandbox import fill_template
from tests.sets.small_files import small_text, write_files
from tests.task.tasks import CASES, load_task, small_set, write_yaml

TESTS = [("c", "good", "ok"), ("c", "bad", "wrong"), ("d", "g", "ok"), ("d", "b", "wrong")]


def task_with(folder, key, value):
    """Return the task of a small set with one key of its YAML set, such as ``fewshot_config.gen_prefix``."""
    first, _, second = key.partition(".")
    settings = {"doc_to_text": "{{context}}", first: {second: value} if second else value}
    return load_task("small", include=[small_set(folder, TESTS, **settings)])


@pytest.mark.parametrize(
    "key", ["doc_to_text", "description", "gen_prefix", "fewshot_config.doc_to_text", "fewshot_config.gen_prefix"]
)
def test_no_template_reaches_into_python(key, tmp_path):
    trap = tmp_path / "trap"
    with pytest.raises(NNDError, match=f"task small: {key} is unsafe"):
        task_with(tmp_path, key, "{{ cycler.__init__.__globals__.os.system('touch " + str(trap) + "') }}")
    assert not trap.exists()


FIELDS = {"c": "The cat sat. " * 9, "e": "", "l": ["a", "b"], "m": {"k": 1}}


@pytest.mark.parametrize("template", CASES["what no prompt of ours may have"])
def test_a_prompt_has_fields_and_little_else(template):
    with pytest.raises(NNDError, match=r"^t is unsafe: "):
        fill_template(template, FIELDS, "t")


@pytest.mark.parametrize("template", CASES["prompts that are rendered as by lm-eval"])
def test_a_prompt_is_rendered_as_by_lm_eval(template):
    assert fill_template(template, FIELDS, "t") == env.from_string(template).render(**FIELDS)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    CASES["keys of a YAML that are refused"],
)
def test_what_a_yaml_sets_is_used_or_refused(key, value, message, tmp_path):
    with pytest.raises(NNDError, match=f"task small.*{message}|{message}.*task small"):
        task_with(tmp_path, key, value)


def test_prompts_descriptions_and_prefixes_are_rendered_as_lm_eval_does(tmp_path):
    settings = {"description": "CardFacts {{context}}:\n", "gen_prefix": "So {{context}}", "doc_to_text": "{{context}}"}
    task = load_task(
        "small", include=[small_set(tmp_path, TESTS, **settings, fewshot_config={"gen_prefix": "context"})]
    )
    task.set_fewshot_seed(1)
    [first, _] = task.eval_docs
    assert task.fewshot_context(first, 1, gen_prefix=task.doc_to_prefix(first)) == "CardFacts c:\nd d g\n\nc So c"


def test_a_prompt_of_digits_stays_text(tmp_path):
    include = small_set(tmp_path, [("17", "Seventeen.", "ok"), ("17", "Eighteen.", "wrong")], doc_to_text="{{context}}")
    task = load_task("small", include=[include])
    assert task.fewshot_context(task.eval_docs[0], 0) == "17"


def test_a_prompt_is_not_used_for_other_languages_than_its_own(tmp_path, nnd_home):
    for name in ("mqm_ted_ende.tsv", "mqm_ted_zhen.tsv", "mqm_mine.tsv"):
        build_set("mqm", write_files(tmp_path / name, {name: small_text("mqm")}))

    def load(config):
        settings = {"metadata": {"version": "1-A"}, "dataset_name": config}
        folder = write_yaml(tmp_path / "yaml", "mine", tasks_dir() / "mqm" / "nnd_mqm_ende.yaml", **settings)
        return load_task("mine", include=[folder])

    for config in ("ted_ende", "ted_ende_clean", "mine"):  # of a config that names no languages nothing is known
        task = load(config)
        assert task.doc_to_text(task.eval_docs[0]) == "English: The mill stands still.\nGerman:"
    for config in ("ted_zhen", "ted_zhen_clean"):
        with pytest.raises(NNDError, match=f"task mine: its prompt is for en-de, .*{config} is zh-en; .*Chinese: "):
            load(config)
