"""Which tasks belong to a set, what they are checked for, and a run of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from nnd_tasks.check.findings import Severity
from nnd_tasks.check.loading import load
from nnd_tasks.check.yamls import Yaml, alone, find_yamls, read_task_yaml

from nnd_tasks.check import apart, trial
from nnd_tasks.check.checking import check_set
from nnd_tasks.datasets import tasks_dir
from nnd_tasks.errors import NNDError
from tests.check.made import Made, text


@pytest.fixture
def made(nnd_home: Path) -> Made:
    return Made(nnd_home)


def names(made: Made, *folders: Path) -> list[str]:
    return [one.name for one in find_yamls(load(made.folder), [made.home / "task_yamls", *folders])[0]]


# ---------------------------------------------------------------- finding


@pytest.mark.parametrize("path", sorted(tasks_dir().rglob("nnd_*.yaml")), ids=lambda path: path.stem)
def test_yamls_are_merged_as_lm_eval_does_it(path: Path) -> None:
    from lm_eval.tasks._yaml_loader import load_yaml

    ours, foreign = read_task_yaml(path)
    theirs = load_yaml(path, resolve_func=False)
    functions = {"class", "fewshot_config"}
    assert {k: v for k, v in ours.items() if k not in functions} == {
        k: v for k, v in theirs.items() if k not in functions
    }
    assert ours.get("class") in (None, "nnd_tasks.harness.task.NNDTask")
    assert foreign == ()


def test_a_task_may_name_the_set_by_its_folder(made: Made) -> None:
    assert made.task is not None
    made.task["dataset_path"] = str(made.folder)
    assert made.found() == {}


def test_tasks_of_other_sets_are_left_alone(made: Made) -> None:
    made.files["task_yamls/other/nnd_other.yaml"] = "task: nnd_other\ndataset_path: nnd/other\n"
    made.files["task_yamls/other/broken.yaml"] = "task: ["
    made.files["task_yamls/made/group.yaml"] = "group: all\ntask: [nnd_made]\n"
    assert made.found() == {}
    assert names(made) == ["nnd_made"]


def test_further_folders_count_and_override(made: Made, tmp_path: Path) -> None:
    more = tmp_path / "checkout" / "task_yamls"
    more.mkdir(parents=True)
    made.write()
    own = yaml.safe_dump({**(made.task or {}), "doc_to_text": "{{nothing}}"})
    (more / "nnd_made.yaml").write_text(own)
    (more / "second.yaml").write_text("include: nnd_made.yaml\ntask: second\ndoc_to_text: '{{context}}'\n")
    assert names(made, more) == ["nnd_made", "second"]
    assert "prompt_invalid" not in made.found()
    one = made.found(tasks=[more])["prompt_invalid"]
    assert "'nothing' is undefined (fields of this set: cluster_id, context)" in one.message


def test_a_folder_that_is_elsewhere_is_what_is_checked(made: Made, tmp_path: Path) -> None:
    """Tasks name ``nnd/made``, and another set of that name is built."""
    made.write()
    elsewhere = made.folder.rename(tmp_path / "elsewhere")
    again = Made(made.home)
    text(again, "<b>bold</b>")
    again.write()
    assert check_set(str(elsewhere), run=True).findings == []
    assert {one.code for one in check_set("made", run=False).findings} == {"html"}


def test_two_tasks_of_one_name(made: Made) -> None:
    made.files["task_yamls/made/twin.yaml"] = "include: nnd_made.yaml\n"
    one = made.found()["task_invalid"]
    assert "nnd_made.yaml and twin.yaml" in one.message or "twin.yaml and nnd_made.yaml" in one.message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("task: [nnd_made_more", "is not YAML that can be read here (did not find expected ',' or ']' in line 2)"),
        ("include: nnd_made_more.yaml\ntask: x\n", "includes itself"),
        ("include: nowhere\ntask: x\n", "No such file"),
        ("include: ~nobody_of_that_name/x\ntask: x\n", "home directory"),
        ("include: /dev/zero\ntask: x\n", "/dev/zero: is not a regular file"),
        ("include: fifo\ntask: x\n", "fifo: is not a regular file"),
        ("a: &a [x]\nb: *a\ntask: x\n", "the alias *a is not allowed here"),
        ("a: &a {x: 1}\n<<: *a\ntask: x\n", "the alias *a is not allowed here"),
        ("include: [i0, i0]\n", "includes more than 100 files"),
        ("- a\n", "holds no mapping"),
        ("dataset_path: nnd/made\n", "names no task"),
        ("include: nnd_made.yaml\ntask: more\ndataset_name: lost\n", "reads the config lost, which is not there"),
        ("include: nnd_made.yaml\ntask: more\nunknown_key: 1\n", "unknown_key"),
        ("include: nnd_made.yaml\ntask: more\nmetric_list: [acc]\n", "sets metric_list"),
        ("include: nnd_made.yaml\ntask: more\nmetadata: {categories: fluency}\n", "expected a list of names"),
        ("include: nnd_made.yaml\ntask: more\nmetadata: {categories: [[a]]}\n", "expected a list of names"),
        ("include: nnd_made.yaml\ntask: more\nmetadata: {append_eoss: true}\n", "did you mean 'append_eos'"),
    ],
)
def test_what_is_wrong_with_a_yaml_is_said(content: str, message: str, made: Made) -> None:
    made.files["task_yamls/made/nnd_made_more.yaml"] = content
    made.files |= {f"task_yamls/made/i{i}": f"include: [i{i + 1}, i{i + 1}]\n" for i in range(30)}
    made.files["task_yamls/made/i30"] = "x: 1\n"
    made.yaml.parent.mkdir(parents=True)
    os.mkfifo(made.yaml.parent / "fifo")
    report = made.check()
    [one] = [one for one in report.findings if one.severity is Severity.ERROR]
    assert one.code == "task_invalid"
    assert message in one.message
    assert "\n" not in one.message


@pytest.mark.parametrize("template", ["{{context", "{% if %}", "{{context|nofilter}}", "{{context.nothing.at.all}}"])
def test_templates_that_are_wrong(template: str, made: Made) -> None:
    assert made.task is not None
    made.task["doc_to_text"] = template
    report = made.check(run=True)
    assert [one.code for one in report.findings] == ["prompt_invalid"]
    assert report.ran == []


def test_a_prompt_that_fails_late_names_the_test(made: Made) -> None:
    """lm-eval renders the first prompt while it loads a task; the others only in a run."""
    assert made.task is not None
    made.task["doc_to_text"] = "{{context}} {{hint + '.'}}"
    for i, row in enumerate(made.rows):
        row["hint"] = None if i in (40, 41) else "a hint"
    one = made.found()["prompt_invalid"]
    assert [(row.index, row.test_id) for row in one.rows] == [(40, made.rows[40]["test_id"])]


def test_code_that_a_yaml_names_is_not_run(made: Made) -> None:
    made.files["task_yamls/made/evil.py"] = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
    made.files["task_yamls/made/a.yaml"] = "include: nnd_made.yaml\ntask: a\nclass: !function evil.Task\n"
    made.files["task_yamls/made/sub/nnd_tasks/harness/task.py"] = made.files["task_yamls/made/evil.py"]
    made.files["task_yamls/made/sub/b.yaml"] = (
        "include: ../nnd_made.yaml\ntask: b\nclass: !function nnd_tasks.harness.task.NNDTask\n"
    )
    report = made.check(run=True)
    assert [(one.code, one.message.split()[0]) for one in report.findings] == [("task_code", "a"), ("task_code", "b")]
    assert report.ran == ["nnd_made"]
    assert list(made.home.rglob("ran")) == []


RUNS = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"


@pytest.mark.parametrize(
    "head",
    ["task: nnd_made\n", "group: nnd_made\ntask: [other]\n", "task: other\ntag: nnd_made\n"],
    ids=["task", "group", "tag"],
)
@pytest.mark.parametrize("name", ["aa_other", "zz_other"])
def test_only_the_yaml_that_was_read_is_loaded(head: str, name: str, made: Made) -> None:
    """lm-eval takes the first YAML of a folder that has the name, and runs what it says."""
    made.files["task_yamls/made/zz.py"] = RUNS
    made.files[f"task_yamls/made/{name}.yaml"] = f"{head}dataset_path: nnd/other\ndoc_to_text: !function zz.f\n"
    report = made.check(run=True)
    assert [(one.code, one.severity) for one in report.findings] == [("task_invalid", Severity.ERROR)]
    assert f"nnd_made.yaml and {name}.yaml are both called nnd_made" in report.findings[0].message
    assert report.ran == ["nnd_made"]
    assert list(made.home.rglob("ran")) == []


def test_a_later_folder_that_has_the_name_for_other_data_hides_the_task(made: Made, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "x.yaml").write_text("task: nnd_made\ndataset_path: nnd/other\n")
    made.write()
    assert names(made, tmp_path / "more") == []


def test_copies_that_lm_eval_does_not_search_are_left_alone(made: Made) -> None:
    made.files["task_yamls/made/.ipynb_checkpoints/nnd_made-checkpoint.yaml"] = "include: ../nnd_made.yaml\n"
    assert made.found() == {}


def test_the_copy_that_is_loaded_says_what_lm_eval_reads(made: Made) -> None:
    from lm_eval.tasks._yaml_loader import load_yaml

    assert made.task is not None
    made.task |= {"doc_to_text": "{{context}}\n\u00e9\u2028 'x' \"y\": !function z\n", "num_fewshot": 2}
    made.write()
    [task], _ = find_yamls(load(made.folder), [made.home / "task_yamls"])
    with alone(task) as folder:
        [copy] = folder.iterdir()
        assert load_yaml(copy) == load_yaml(made.yaml)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("doc_to_text: !function os.system", "os.system"),
        ("doc_to_text: !function nnd_tasks.check.trial.make_model", "nnd_tasks.check.trial.make_model"),
        ("process_docs: !function nnd_tasks.harness.task.NNDTask", "nnd_tasks.harness.task.NNDTask as process_docs"),
        ("metric_list: [{metric: !function evil.f}]", "evil.f"),
        ("metadata: {x: [{y: !function evil.f}]}", "evil.f"),
        ("fewshot_config: {doc_to_text: !function evil.f}", "evil.f"),
        ("use_prompt: prompts.yaml:x", "use_prompt"),
        ("unsafe_code: true", "unsafe_code"),
        ("doc_to_image: '{{context}}'", "doc_to_image"),
        ("metadata: {tokenizer: ./evil, append_eos: true}", "metadata.tokenizer"),
        ("metadata: {trust_remote_code: true}", "metadata.trust_remote_code"),
    ],
)
def test_what_lm_eval_would_take_from_elsewhere_is_not_loaded(lines: str, named: str, made: Made) -> None:
    made.files["task_yamls/made/evil.py"] = RUNS
    made.files["task_yamls/made/a.yaml"] = f"include: nnd_made.yaml\ntask: a\n{lines}\n"
    report = made.check()
    assert [one.code for one in report.findings] == ["task_code"]
    assert named in report.findings[0].message
    assert list(made.home.rglob("ran")) == []
    [task] = [one for one in find_yamls(load(made.folder), [made.home / "task_yamls"])[0] if one.name == "a"]
    with pytest.raises(NNDError, match="not of this package"), alone(task):
        pass


def test_functions_of_included_files_outside_count(made: Made, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("doc_to_text: !function evil.f\n")
    made.files["task_yamls/made/a.yaml"] = f"include: [nnd_made.yaml, {tmp_path}/outside]\ntask: a\n"
    # lm-eval would import what it names, although the template here takes its place
    made.files["task_yamls/made/a.yaml"] += "doc_to_text: '{{context}}'\n"
    assert set(made.found()) == {"task_code"}


@pytest.mark.parametrize(
    "key", ["doc_to_text", "description", "gen_prefix", "fewshot_config.doc_to_text", "fewshot_config.gen_prefix"]
)
def test_templates_do_not_reach_python(key: str, made: Made, tmp_path: Path) -> None:
    assert made.task is not None
    file = tmp_path / "ran"
    template = f"{{{{ cycler.__init__.__globals__.os.system('touch {file}') }}}}"
    first, _, second = key.partition(".")
    made.task[first] = {second: template} if second else template
    made.task["num_fewshot"] = 1
    report = made.check(run=True)
    assert [one.code for one in report.findings] == ["prompt_invalid"]
    assert "unsafe" in report.findings[0].message
    assert report.ran == []
    assert not file.exists()


@pytest.mark.parametrize("key", ["doc_to_target", "doc_to_choice", "fewshot_config.doc_to_target"])
def test_templates_that_an_nnd_task_does_not_take_are_not_rendered(key: str, made: Made, tmp_path: Path) -> None:
    assert made.task is not None
    file = tmp_path / "ran"
    template = f"{{{{ cycler.__init__.__globals__.os.system('touch {file}') }}}}"
    first, _, second = key.partition(".")
    made.task[first] = {second: template} if second else template
    report = made.check(run=True)
    assert [one.code for one in report.findings] == ["task_invalid"]
    assert not file.exists()


def test_only_one_config(made: Made) -> None:
    made.extra["other"] = [row | {"low": "<b>bold</b>"} for row in made.rows]
    made.header["configs"].append({"config_name": "other", "data_files": "other/test-*.parquet"})
    assert made.found(configs=["authors"]) == {}
    report = made.check(configs=["other"])
    assert {"html", "config_without_task"} <= {one.code for one in report.findings}
    assert list(report.sizes) == ["other"]


def test_rows_with_a_category_that_is_not_declared(made: Made) -> None:
    made.rows[5]["category"] = "style"
    one = made.found()["categories_undeclared"]
    assert "style" in one.message
    assert [row.index for row in one.rows] == [5]


def test_tasks_of_ours_may_read_a_config_that_is_built_with_an_option_only(made: Made) -> None:
    made.header["nnd_set"] = "summeval"
    made.header["configs"].append({"config_name": "clean", "data_files": "clean/test-*.parquet"})
    made.extra["clean"] = made.rows
    found = [one for one in made.check().findings if one.code == "config_not_built"]
    assert {one.message.split()[0] for one in found} == {"nnd_summeval_all_rows", "nnd_summeval_all_rows_clean"}
    assert found[0].fix == "none, or build it: nnd build summeval --rows all"


# ---------------------------------------------------------------- the run


@pytest.mark.parametrize(
    ("clusters", "expected"), [(1, [0]), (4, [0, 1, 2, 3]), (5, [0, 1, 2, 4]), (80, [0, 26, 52, 79])]
)
def test_contexts_of_a_run_are_spread(clusters: int, expected: list[int]) -> None:
    assert trial.chosen(clusters) == expected


def test_tests_without_a_score_are_reported_unless_a_candidate_is_empty() -> None:
    def sample(high: str, passed: bool | None) -> dict[str, Any]:
        tests = [{"test_id": f"t-{high}", "high": 0, "low": 1, "passed": passed}]
        return {"doc": {"candidates": [high, "text"]}, "tests": tests}

    task = Yaml("nnd_made", Path("nnd_made.yaml"), None, {})
    assert list(trial._unscored(task, "authors", [sample("a", True), sample(" ", None)])) == []
    [one] = trial._unscored(task, "authors", [sample("a", None), sample("b", False)])
    assert (one.code, one.count, one.severity) == ("run_unscored", 1, Severity.WARNING)
    assert "t-a" in one.message


def test_a_run_leaves_nothing_behind(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    before = sorted(made.write().rglob("*"))
    assert check_set("made").ran == ["nnd_made"]
    assert sorted(made.folder.rglob("*")) == before
    assert not list(scratch.glob("nnd-check-*"))


@pytest.mark.apart
def test_a_process_of_its_own_finds_the_same(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.rows[5]["category"] = "style"
    made.files["task_yamls/made/a.yaml"] = "include: nnd_made.yaml\ntask: a\nclass: !function evil.Task\n"
    made.files["task_yamls/made/b.yaml"] = "include: nnd_made.yaml\ntask: b\nmetadata: {}\n"
    there = made.check(run=True)
    assert {"categories_undeclared", "task_code", "categories_open"} <= {one.code for one in there.findings}
    assert there.ran == ["b"]
    monkeypatch.setattr(apart, "check_apart", apart.check_here)
    assert made.check(run=True) == there


@pytest.mark.slow
@pytest.mark.apart
def test_what_hangs_or_fills_the_memory_is_stopped_and_the_rest_is_checked(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = {
        "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{{context}}",
        "regex": "{{ ('a' * 40 + 'b') | regex_replace('(a+)+$', '') }}{{context}}",
        "memory": "{{ 'a' * (5 * 10**9) }}{{context}}",
    }
    for name, template in hostile.items():
        content = yaml.safe_dump({"include": "nnd_made.yaml", "task": name, "doc_to_text": template})
        made.files[f"task_yamls/made/{name}.yaml"] = content
    made.files["task_yamls/made/zz.yaml"] = "include: nnd_made.yaml\ntask: zz\nmetadata: {}\n"
    monkeypatch.setattr("nnd_tasks.check.apart.SECONDS", 4.0)
    monkeypatch.setattr("nnd_tasks.check.apart.SECONDS_PER_PROMPT", 0.0)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    found = {one.message.split()[0]: one for one in made.check().findings}
    assert {name: one.code for name, one in found.items()} == {
        **dict.fromkeys(hostile, "prompt_invalid"),
        "zz": "categories_open",
    }
    for name in ("loops", "regex"):
        assert found[name].message == f"{name} was stopped: rendering its prompts took more than 4 seconds"
    assert found["memory"].message == "memory cannot render a prompt: it asks for too much memory"
    assert list(scratch.iterdir()) == []


def test_the_process_imports_nothing_from_the_current_folder(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NND_COLD", "1")
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")  # with -c, Python would import it
    monkeypatch.chdir(tmp_path)
    assert made.check().findings == []


def test_any_protocol_runs(made: Made) -> None:
    made.files["task_yamls/made/eos.yaml"] = (
        "include: nnd_made.yaml\ntask: nnd_made_eos\n"
        "metadata: {categories: [fluency, meaning], append_eos: true, append_bos: true, context_reliance: true}\n"
    )
    report = made.check(run=True)
    assert report.findings == []
    assert set(report.ran) == {"nnd_made", "nnd_made_eos"}


# ---------------------------------------------------------------- wrong calls


def test_wrong_calls_are_named(made: Made, tmp_path: Path) -> None:
    made.write()
    (tmp_path / "empty").mkdir()
    (tmp_path / "card").mkdir()
    (tmp_path / "card" / "README.md").write_text("# Any project\n")
    for call, message in (
        (
            lambda: check_set("unbuilt"),
            "there is no set 'unbuilt'; nnd list shows those there are",
        ),
        (lambda: check_set(str(tmp_path / "nowhere")), "there is no such folder"),
        (lambda: check_set(str(tmp_path / "empty")), "it has no README.md"),
        (lambda: check_set(str(tmp_path / "card")), "no NND dataset is there"),
        (lambda: check_set("made", configs=["lost"]), "it has no config 'lost', only authors"),
        (lambda: check_set("made", tasks=[tmp_path / "nowhere"]), "there is no such folder"),
    ):
        with pytest.raises(NNDError, match=message):
            call()
