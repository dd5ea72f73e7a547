"""What a build leaves behind: dataset folder, card and report; and what it leaves alone."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import nnd_tasks.dataset_writing
from nnd_tasks import __version__
from nnd_tasks.build import build_set
from nnd_tasks.card_sections import set_card
from nnd_tasks.datasets import list_configs, read_table
from nnd_tasks.errors import NNDError
from tests.conftest import SOURCES
from tests.recipes.small_files import (
    BAKERY,
    HARBOUR,
    MQM_COLUMNS,
    QUIZ_FILE,
    SMALL,
    SUMMEVAL_FILE,
    jsonl,
    mqm_rows,
    quiz_group,
    quiz_text,
    small_source,
    summeval_rows,
    tsv,
    write_files,
)

every_set = pytest.mark.parametrize("name", list(SMALL))


@pytest.fixture
def quiz(tmp_path: Path) -> Path:
    """Return a folder with a small Quiz Design file: five tests."""
    return small_source(tmp_path / "in", "quiz_design")


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(NNDError) as caught:
        act()
    return str(caught.value)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return path -> content of everything below ``folder``."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def beside(folder: Path) -> set[str]:
    """Return what lies beside ``folder``."""
    return {path.name for path in folder.parent.iterdir()} - {folder.name}


def card(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the card's header and its Markdown."""
    _, header, body = (folder / "README.md").read_text("utf-8").split("---\n", 2)
    return yaml.safe_load(header), body


# ---------------------------------------------------------------- the report


def test_report_counts_what_was_read_and_what_came_out_of_it(quiz: Path, tmp_path: Path) -> None:
    result = build_set("quiz_design", quiz, tmp_path / "out")
    summary, cleaned = result.built
    assert (summary.name, cleaned.name) == ("authors", "clean")
    stored = json.loads((tmp_path / "out/build_report.json").read_text("utf-8"))
    assert stored == result.report
    for config in ("authors", "clean"):
        rules = result.report[config].pop("trivial_rules")
        rows = read_table(result.folder, config).to_pylist()
        for category in ("all", "disfluent", "off_target", "wrong_context"):
            gains = [len(row["high"]) - len(row["low"]) for row in rows if category in ("all", row["category"])]
            assert rules[category]["longer"] == pytest.approx(sum(gain > 0 for gain in gains) / len(gains))
            assert rules[category]["shorter"] == pytest.approx(sum(gain < 0 for gain in gains) / len(gains))
            assert set(rules[category]) == {"longer", "overlap", "shorter", "unigram", "system"}
        assert result.report[config].pop("trivial_system") in {row["high_system"] for row in rows}
    assert result.report["clean"] == {
        "cleaned_from": "authors",
        **{key: getattr(cleaned, key) for key in ("tests", "clusters", "candidates", "categories", "fingerprint")},
        **{key: result.report["authors"][key] for key in ("source_sha256", "options", "errors", "nnd_tasks")},
    }
    cleaning = result.report["authors"].pop("cleaning")
    assert {reason: part["tests"] for reason, part in cleaning["reasons"].items()} == {
        "equal_texts": 0,
        "repeated": 0,
        "contradictory": 0,
        "empty": 0,
    }
    assert {"authors": result.report["authors"]} == {
        "authors": {
            "rows": 9,
            "judgements": 9,
            "candidates_judged": 9,
            "groups": 4,
            "groups_with_tests": 2,
            "dropped": {"no_order": 3, "no_pair": 3},
            "dropped_rows": {"no_order": [], "no_pair": [3, 4]},
            "tests": 5,
            "clusters": 1,
            "candidates": 6,
            "categories": {"disfluent": 2, "off_target": 2, "wrong_context": 1},
            "fingerprint": summary.fingerprint,
            "source_sha256": {QUIZ_FILE: hashlib.sha256(quiz_text().encode()).hexdigest()},
            "options": {},
            "errors": "judged",
            "nnd_tasks": __version__,
        }
    }


def test_report_has_the_options_with_their_defaults(tmp_path: Path) -> None:
    source = small_source(tmp_path / "in", "summeval")
    assert build_set("summeval", source, tmp_path / "out").report["authors"]["options"]["rows"] == "half"
    again = build_set("summeval", source, tmp_path / "out", {"rows": "all"})
    assert again.report["all_rows"]["options"]["rows"] == "all"
    stored = json.loads((tmp_path / "out/build_report.json").read_text("utf-8"))
    assert [stored[config]["options"]["rows"] for config in ("authors", "all_rows")] == ["half", "all"]


def test_report_counts_left_out_annotations(tmp_path: Path) -> None:
    report = build_set("frank", small_source(tmp_path / "in", "frank"), tmp_path / "out").report["authors"]
    assert (report["rows"], report["judgements"], report["tests"]) == (5, 4, 3)
    assert report["dropped"]["no_test_category"] == 1


def test_result_tells_the_folder_and_the_configs_built_and_kept(tmp_path: Path) -> None:
    source = small_source(tmp_path / "in", "summeval")
    first = build_set("summeval", source, tmp_path / "out")
    second = build_set("summeval", source, tmp_path / "out", {"rows": "all"})
    assert (first.folder, second.folder) == (tmp_path / "out", tmp_path / "out")
    assert [(s.name, s.tests) for s in first.built] == [("authors", 2), ("clean", 2)]
    assert [(s.name, s.tests) for s in second.built] == [("all_rows", 10), ("all_rows_clean", 10)]
    assert (first.kept, second.kept) == ([], ["authors", "clean"])
    assert list_configs(second.folder) == (["authors", "clean", "all_rows", "all_rows_clean"], "authors")


def test_default_folder_is_in_the_home(quiz: Path, nnd_home: Path) -> None:
    result = build_set("quiz_design", quiz)
    assert result.folder == nnd_home / "nnd" / "quiz_design"
    assert read_table(result.folder).num_rows == 5


# ---------------------------------------------------------------- notes and refusals


def test_count_other_than_the_published_one_brings_a_note(quiz: Path, tmp_path: Path) -> None:
    [note] = build_set("quiz_design", quiz, tmp_path / "out").notes
    assert note.startswith("authors: 5 tests, published are 2,686")


def test_count_that_nobody_published_brings_no_note(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"mqm_ted_ende.tsv": tsv(MQM_COLUMNS, mqm_rows())})
    assert build_set("mqm", source, tmp_path / "out").notes == []
    assert build_set("demo").notes == []


@pytest.mark.parametrize(
    ("name", "option"), [("quiz_design", "rows"), ("mqm", "articles"), ("summeval", "raters"), ("demo", "rows")]
)
def test_option_of_another_set_is_refused_before_anything_is_read(name: str, option: str, tmp_path: Path) -> None:
    message = refusal(lambda: build_set(name, tmp_path / "no such source", tmp_path / "out", {option: "all"}))
    assert message == f"set {name} has no option --{option}"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("quizdesign", "quiz_design"),
        ("nnd_frank", "frank"),
        ("FRANK", "frank"),
        ("sumeval", "summeval"),
        ("mqn", "mqm"),
    ],
)
def test_unknown_set_is_refused_with_a_near_match(name: str, near: str) -> None:
    message = refusal(lambda: build_set(name))
    assert message.startswith(f"there is no set {name!r}; did you mean ")
    assert near in message.split("did you mean ")[1]


def test_unknown_set_like_no_other_is_refused_with_all_names() -> None:
    message = refusal(lambda: build_set("xyzzy"))
    assert message == f"there is no set 'xyzzy'; known sets: {', '.join(SOURCES)}"


def test_source_without_any_test_is_refused_and_nothing_is_written(tmp_path: Path, nnd_home: Path) -> None:
    groups = [quiz_group(1, ("Good?", "No error"), ("Fine?", "No error")), quiz_group(2, ("Bad?", "disfluent"))]
    source = write_files(tmp_path / "in", {QUIZ_FILE: jsonl(groups)})
    before = tree(tmp_path)
    message = refusal(lambda: build_set("quiz_design", source, tmp_path / "new" / "out"))
    assert str(source / QUIZ_FILE) in message
    assert "no test" in message
    refusal(lambda: build_set("quiz_design", source))
    assert tree(tmp_path) == before
    assert not nnd_home.exists()


def test_categories_that_metrics_could_not_tell_apart_are_refused(tmp_path: Path) -> None:
    group = quiz_group(1, ("Good?", "No error"), ("A?", "off target"), ("B?", "Off-Target"))
    source = write_files(tmp_path / "in", {QUIZ_FILE: jsonl([group])})
    message = refusal(lambda: build_set("quiz_design", source, tmp_path / "out"))
    assert "'off target'" in message
    assert "'Off-Target'" in message
    assert not (tmp_path / "out").exists()
    assert beside(tmp_path / "out") == {"in"}


# ---------------------------------------------------------------- folders that are not ours

FOREIGN: dict[str, dict[str, str]] = {
    "files": {"thesis.tex": "years of work"},
    "readme": {"README.md": "# My project\n", "data.csv": "1,2\n"},
    "other dataset": {"README.md": "---\nlicense: mit\n---\n\n# Another dataset\n", "train.parquet": "PAR1"},
    "broken header": {"README.md": "---\nlicense: [\n---\n\n# Broken\n"},
}


@pytest.mark.parametrize("files", list(FOREIGN.values()), ids=list(FOREIGN))
def test_foreign_folder_is_refused_and_untouched(files: dict[str, str], quiz: Path, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "mine", files)
    before = tree(folder)
    assert str(folder) in refusal(lambda: build_set("quiz_design", quiz, folder))
    assert tree(folder) == before
    assert beside(folder) == {"in"}


def test_file_in_place_of_the_folder_is_refused_and_untouched(quiz: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("a file")
    assert str(tmp_path / "mine") in refusal(lambda: build_set("quiz_design", quiz, tmp_path / "mine"))
    assert (tmp_path / "mine").read_text() == "a file"


def test_folder_of_another_set_is_refused_and_untouched(quiz: Path, tmp_path: Path) -> None:
    build_set("quiz_design", quiz, tmp_path / "out")
    before = tree(tmp_path / "out")
    mqm = small_source(tmp_path / "mqm", "mqm")
    # Both sets in one folder would stand under one card, with the licence of the set that came last.
    assert "quiz_design" in refusal(lambda: build_set("mqm", mqm, tmp_path / "out"))
    assert tree(tmp_path / "out") == before


def test_empty_folder_is_taken(quiz: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    build_set("quiz_design", quiz, tmp_path / "out")
    assert read_table(tmp_path / "out").num_rows == 5


@pytest.mark.parametrize("out", ["~no-such-user-of-this-system/out", "x" * 300], ids=["unknown home", "name too long"])
def test_output_path_that_the_system_refuses_is_a_plain_error(
    out: str, quiz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert out[:20] in refusal(lambda: build_set("quiz_design", quiz, out))
    assert {path.name for path in tmp_path.iterdir()} == {"in"}


@pytest.mark.parametrize("mask", [0o077, 0o022])
def test_what_a_build_writes_has_the_mode_that_the_user_asks_for(mask: int, quiz: Path, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        folder = build_set("quiz_design", quiz, tmp_path / "new" / "out").folder
        build_set("quiz_design", quiz, folder)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder, folder.parent, *folder.rglob("*")]}
    assert modes == {path: (0o777 if path.is_dir() else 0o666) & ~mask for path in modes}


def test_failed_build_leaves_the_earlier_one_as_it_was(quiz: Path, tmp_path: Path) -> None:
    build_set("quiz_design", quiz, tmp_path / "out")
    before = tree(tmp_path / "out")
    broken = write_files(tmp_path / "broken", {QUIZ_FILE: quiz_text() + "{"})
    refusal(lambda: build_set("quiz_design", broken, tmp_path / "out"))
    assert tree(tmp_path / "out") == before


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "^C"])
def test_write_that_breaks_off_leaves_the_earlier_build_and_no_rest(
    failure: BaseException, quiz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_set("quiz_design", quiz, tmp_path / "out")
    before = tree(tmp_path / "out")

    def fail(*args: Any) -> None:
        raise failure

    monkeypatch.setattr(nnd_tasks.dataset_writing, "_write_parquet", fail)
    with pytest.raises((NNDError, KeyboardInterrupt)) as caught:
        build_set("quiz_design", quiz, tmp_path / "out")
    if isinstance(failure, OSError):
        assert str(caught.value).startswith(f"{tmp_path / 'out'}: cannot be written (No space left on device)")
    assert tree(tmp_path / "out") == before
    assert beside(tmp_path / "out") == {"in"}


def test_rebuilding_into_a_link_leaves_no_rest_beside_it(quiz: Path, tmp_path: Path) -> None:
    build_set("quiz_design", quiz, tmp_path / "real")
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "out"
    link.symlink_to(tmp_path / "real")
    build_set("quiz_design", quiz, link)
    assert read_table(link).num_rows == 5
    assert beside(link) == set()


# ---------------------------------------------------------------- the same again


@every_set
def test_rebuilding_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    source = small_source(tmp_path / "in", name)
    one, two = build_set(name, source, tmp_path / "one"), build_set(name, source, tmp_path / "two")
    assert one.built == two.built
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    again = build_set(name, source, tmp_path / "one")
    assert (again.built, again.kept) == (one.built, [])
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


def test_fingerprint_changes_with_a_single_letter(quiz: Path, tmp_path: Path) -> None:
    changed = write_files(tmp_path / "changed", {QUIZ_FILE: quiz_text().replace("Where did", "There did")})
    one = build_set("quiz_design", quiz, tmp_path / "one").built[0]
    two = build_set("quiz_design", changed, tmp_path / "two").built[0]
    assert one.fingerprint != two.fingerprint


def test_test_ids_stay_when_other_groups_come_or_go(quiz: Path, tmp_path: Path) -> None:
    lines = quiz_text().splitlines()
    more = quiz_group(99, ("New?", "No error"), ("Newer?", "disfluent"), context="Another paragraph.")
    other = write_files(tmp_path / "other", {QUIZ_FILE: "\n".join([json.dumps(more), *reversed(lines)])})
    before = read_table(build_set("quiz_design", quiz, tmp_path / "one").folder).to_pylist()
    after = read_table(build_set("quiz_design", other, tmp_path / "two").folder).to_pylist()
    ids = {row["test_id"]: row for row in after if row["context_id"] != "99"}
    assert ids == {row["test_id"]: row for row in before}


@every_set
def test_file_folder_and_parent_of_set_folders_build_the_same(name: str, tmp_path: Path) -> None:
    folder = small_source(tmp_path / "data" / name, name)
    for other in SMALL:
        small_source(tmp_path / "data" / other, other)
    sources = [folder / next(iter(SMALL[name]())), folder, tmp_path / "data"]
    built = [build_set(name, source, tmp_path / f"out{i}").built for i, source in enumerate(sources)]
    assert built[0][0].tests > 0
    assert built[0] == built[1] == built[2]


def test_source_in_the_users_home_is_found(quiz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build_set("quiz_design", "~/in", "~/out").built[0].tests == 5
    assert (tmp_path / "out" / "README.md").is_file()


# ---------------------------------------------------------------- the card


@every_set
def test_card_tells_counts_licence_and_citation(name: str, tmp_path: Path) -> None:
    result = build_set(name, small_source(tmp_path / "in", name), tmp_path / "out")
    header, body = card(result.folder)
    source = SOURCES[name].recipe
    assert header["license"] == source.license
    assert source.license in body
    assert source.citation is not None
    assert source.citation.strip() in body
    assert "laban2022nnd" in body
    assert source.homepage is not None
    assert source.homepage in body
    assert "## Citation" in body
    for summary in result.built:
        assert f"| `{summary.name}` | {summary.tests} | {summary.clusters} | {summary.candidates} |" in body
        for category, count in summary.categories.items():
            assert f"| `{summary.name}` | {category} | {count} |" in body


def slow_rules(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Count by loops how often each trivial rule passes."""
    texts = {text for row in rows for text in (row["high"], row["low"])}
    counts: dict[str, int] = {}
    for text in texts:
        for word in re.findall(r"\w+", text.lower()):
            counts[word] = counts.get(word, 0) + 1

    def frequency(text: str) -> float:
        found = re.findall(r"\w+", text.lower())
        return sum(math.log(counts[w] / sum(counts.values())) for w in found) / len(found) if found else -math.inf

    def overlap(text: str, context: str) -> float:
        found = re.findall(r"\w+", text.lower())
        known = re.findall(r"\w+", context.lower())
        return sum(w in known for w in found) / len(found) if found else 0.0

    passes = {"shorter": 0, "longer": 0, "overlap": 0, "unigram": 0}
    for row in rows:
        high, low, context = row["high"], row["low"], row["context"]
        passes["shorter"] += len(high) < len(low)
        passes["longer"] += len(high) > len(low)
        passes["overlap"] += overlap(high, context) > overlap(low, context)
        passes["unigram"] += frequency(high) > frequency(low)
    return {name: count / len(rows) for name, count in passes.items()}


def test_the_lines_of_a_card_load_the_set_in_any_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = home / "nnd" / "demo"
    block = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text("utf-8"), re.DOTALL)
    assert block
    names: dict[str, Any] = {}
    exec(block[1], names)
    assert names["tests"].to_list() == read_table(folder).to_pylist()


def test_card_and_report_say_what_trivial_rules_reach(tmp_path: Path) -> None:
    result = build_set("demo", out=tmp_path / "demo")
    rows = read_table(result.folder).to_pylist()
    report = json.loads((result.folder / "build_report.json").read_text())[result.built[0].name]["trivial_rules"]
    assert set(report) == {"all", *(row["category"] for row in rows)}
    assert report["all"] == pytest.approx(slow_rules(rows))
    card = (result.folder / "README.md").read_text()
    cells = " | ".join(f"{report['all'][rule]:.3f}" for rule in ("shorter", "longer", "overlap", "unigram"))
    assert f"| `{result.built[0].name}` | all | {cells} |" in card


def test_card_writes_thousands_with_a_comma_for_all_configs(tmp_path: Path) -> None:
    good, bad = [(f"Good {i}?", "No error") for i in range(40)], [(f"Bad {i}?", "disfluent") for i in range(30)]
    source = write_files(tmp_path / "in", {QUIZ_FILE: jsonl([quiz_group(1, *good, *bad)])})
    header, body = card(build_set("quiz_design", source, tmp_path / "out").folder)
    assert "| `authors` | 1,200 | 1 | 70 |" in body
    assert "| `authors` | disfluent | 1,200 |" in body
    assert header["size_categories"] == ["1K<n<10K"]


def test_card_header_lists_configs_and_the_default(tmp_path: Path) -> None:
    source = small_source(tmp_path / "in", "summeval")
    build_set("summeval", source, tmp_path / "out", {"rows": "all"})
    assert card(tmp_path / "out")[0]["configs"] == [
        {
            "config_name": "all_rows",
            "data_files": [{"split": "test", "path": "all_rows/test-*.parquet"}],
            "default": True,
        },
        {
            "config_name": "all_rows_clean",
            "data_files": [{"split": "test", "path": "all_rows_clean/test-*.parquet"}],
        },
    ], "the first config is the default when there is no `authors`"
    build_set("summeval", source, tmp_path / "out")
    header, body = card(tmp_path / "out")
    assert {c["config_name"]: c.get("default", False) for c in header["configs"]} == {
        "all_rows": False,
        "all_rows_clean": False,
        "authors": True,
        "clean": False,
    }
    assert header["nnd_schema_version"] == 1
    assert "| `all_rows` | 10 |" in body
    assert "| `authors` | 2 |" in body


def test_card_explains_every_column_of_the_data(tmp_path: Path) -> None:
    for name in SMALL:
        result = build_set(name, small_source(tmp_path / "in", name), tmp_path / name)
        _, body = card(result.folder)
        for column in read_table(result.folder).column_names:
            assert f"| `{column}` | " in body, name


def test_card_languages_are_those_of_all_configs_in_the_folder(tmp_path: Path) -> None:
    text = tsv(MQM_COLUMNS, mqm_rows())
    for file in ("mqm_newstest2021_ende.tsv", "mqm_newstest2021_zhen.tsv"):
        build_set("mqm", write_files(tmp_path / file[:-4], {file: text}) / file, tmp_path / "out")
    names = set(list_configs(tmp_path / "out")[0])
    assert {name for name in names if not name.endswith("_clean")} == {"newstest2021_ende", "newstest2021_zhen"}
    assert sorted(card(tmp_path / "out")[0]["language"]) == ["de", "en", "zh"]


def test_card_shows_html_of_the_data_as_text(tmp_path: Path) -> None:
    """Categories and the texts that are quoted as examples come from the publisher's file."""
    evil = "<img src=x onerror=alert(1)>"
    rows = [[cell.replace("Fluency", f"Fluency{evil}").replace("wieder", evil) for cell in row] for row in mqm_rows()]
    rows.append([*rows[1][:6], rows[0][6], *rows[1][7:]])  # equal texts, which are quoted
    source = write_files(tmp_path / "in", {"mqm_ted_ende.tsv": tsv(MQM_COLUMNS, rows)})
    _, body = card(build_set("mqm", source, tmp_path / "out").folder)
    assert "Fluency&lt;img src=x" in body
    assert "<img" not in body


def test_card_names_the_task_that_runs_the_set() -> None:
    yamls = {path.stem for path in (Path(__file__).parent.parent / "task_yamls").rglob("nnd_*.yaml")}
    summaries = build_set("demo").built
    for source in SOURCES.values():
        body = set_card(source.recipe.facts(source.name), summaries, [], {}).body()
        [task] = {line.split("--tasks ")[1].rstrip("`.") for line in body.splitlines() if "--tasks " in line}
        assert task in yamls


@every_set
def test_card_and_report_name_no_folder_of_this_machine(name: str, tmp_path: Path) -> None:
    result = build_set(name, small_source(tmp_path / "in", name), tmp_path / "out")
    for file in ("README.md", "build_report.json"):
        text = (result.folder / file).read_text("utf-8")
        assert str(tmp_path) not in text
        assert str(Path.home()) not in text
        assert str(Path.cwd()) not in text


def test_report_does_not_name_the_folder_of_local_articles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf_cache")
    articles = tmp_path / "cnn_dailymail"
    articles.mkdir()
    columns = {"id": ["aaaa", "bbbb"], "article": [HARBOUR, BAKERY]}
    datasets.Dataset.from_dict(columns).to_parquet(articles / "test-00000-of-00001.parquet")
    source = write_files(tmp_path / "in", {SUMMEVAL_FILE: jsonl(summeval_rows(with_text=False))})
    result = build_set("summeval", source, tmp_path / "out", {"articles": str(articles)})
    assert result.built[0].tests == 2
    for file in ("README.md", "build_report.json"):
        assert str(tmp_path) not in (result.folder / file).read_text("utf-8"), file


# ---------------------------------------------------------------- other readers


def test_datasets_library_reads_the_folder_by_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf_cache")
    source = small_source(tmp_path / "in", "summeval")
    for rows in ("half", "all"):
        build_set("summeval", source, tmp_path / "out", {"rows": rows})
    for config, expected in (("authors", 2), ("all_rows", 10)):
        loaded = datasets.load_dataset(str(tmp_path / "out"), config, split="test")
        assert loaded.num_rows == expected
        assert loaded.to_list() == read_table(tmp_path / "out", config).to_pylist()
