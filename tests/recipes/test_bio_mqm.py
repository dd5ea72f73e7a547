"""`bio_mqm` from the publisher's files: counts, every test and every span, recomputed by short programs of their own."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.build import build_set
from nnd_tasks.datasets import read_report, read_table, tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.download import sha256_of
from nnd_tasks.recipes.recipe import File
from nnd_tasks.recipes.shelf import find_recipe
from nnd_tasks.yaml_json import read_yaml
from tests.recipes.publisher import Publisher, serve_set, sha256

PAIRS = ("en2de", "en2es", "en2ru", "en2zh", "zh2en")
#: Pair -> tests, tests of equal texts; and the tests per category of the first.
COUNTS = {
    "en2de": (19960, 191),
    "en2es": (7412, 211),
    "en2ru": (5946, 275),
    "en2zh": (27660, 498),
    "zh2en": (18526, 433),
}
EN2DE = {
    **{"Linguistic_conventions": 14453, "Other": 1719, "Style": 1375, "Terminology": 1024, "Accuracy": 809},
    **{"Unintelligible": 426, "Locale_conventions": 154},
}
#: Fingerprints of a pair's configs; a change of them changes numbers of users.
PINS = {
    "en2de": ["346a5b2380d2d37e", "5f9f5d49a06fad67"],
    "en2es": ["7948275d9b2dd3f6", "d182aecafc17353f"],
    "en2ru": ["ecb3ae73a50dc762", "3a45ccdb50ad0990"],
    "en2zh": ["bee509cae9ac4ada", "a9ad4d635c3f9965"],
    "zh2en": ["0f92b47bb8d5b20b", "079d3e720061024d"],
}
#: Tests whose error names words that stand nowhere in the translation.
WITHOUT_SPAN = {"en2zh": 11, "zh2en": 5}
Row = dict[str, Any]


@pytest.fixture(scope="module")
def source() -> Path:
    from tests.conftest import DATA

    if not (folder := DATA / "today" / "bio_mqm").is_dir():
        pytest.skip(f"{folder} is not there")
    return folder


@pytest.fixture(scope="module")
def built(source: Path, real_sets: Callable[[str], Path]) -> Path:
    return real_sets("bio_mqm")


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def place(target: str, error: Row) -> tuple[int, int] | None:
    """Return where an error stands: at its positions if its words are there, else at the nearest place of its words."""
    words, start = error["term"], error["startIndex"]
    if target[start : error["endIndex"] + 1] == words:
        return (start, start + len(words)) if words else None
    every = [i for i in range(len(target)) if target.startswith(words, i)] if words.strip() else []
    start = min(every, key=lambda i: abs(i - start), default=-1)
    return (start, start + len(words)) if start >= 0 else None


def expected(folder: Path) -> Counter[tuple[Any, ...]]:
    """Return the tests of a pair: group, better, worse, category, finer label, severity, place of the error."""
    groups: dict[tuple[str, str, str], tuple[list[str], list[tuple[Any, ...]]]] = defaultdict(lambda: ([], []))
    for path in folder.glob("*.json"):
        for row in json.loads(path.read_text("utf-8")):
            good, bad = groups[row["filename"], row["SEG_ID"], row["source"]]
            if not row["target_errors"]:
                good.append(row["target"])
            for error in row["target_errors"]:
                label = error["error_category"], error["error_subcategory"], error["severity"]
                bad.append((row["target"], *label, place(row["target"], error)))
    return Counter(
        ("_".join(map(nfc, key)), nfc(better), nfc(worse), *rest)
        for key, (good, bad) in groups.items()
        for better in good
        for worse, *rest in bad
    )


@pytest.mark.parametrize("pair", PAIRS)
def test_tests_and_spans_are_those_of_the_files(pair: str, built: Path, source: Path) -> None:
    rows = read_table(built, pair).to_pylist()
    found = Counter(
        (
            *(row[name] or "" for name in ("context_id", "high", "low", "category", "subcategory", "severity")),
            next(((span["start"], span["end"]) for span in row["low_spans"] or ()), None),
        )
        for row in rows
    )
    assert len(rows) == COUNTS[pair][0]
    assert sum(row["high"] == row["low"] for row in rows) == COUNTS[pair][1]
    assert found == expected(source / pair)
    assert sum(not row["low_spans"] for row in rows) == WITHOUT_SPAN.get(pair, 0)
    if pair == "en2de":
        assert Counter(row["category"] for row in rows) == EN2DE
    assert all(
        (span["category"], span["severity"]) == (row["category"], row["severity"])
        for row in rows
        for span in row["low_spans"] or ()
    )


@pytest.mark.parametrize("pair", PAIRS)
def test_the_clean_config_has_no_text_that_was_judged_both_ways(pair: str, built: Path) -> None:
    rows = read_table(built, f"{pair}_clean").to_pylist()
    assert {row["test_id"] for row in rows} <= set(read_table(built, pair).column("test_id").to_pylist())
    better = {(row["cluster_id"], " ".join(row["high"].split())) for row in rows}
    assert not better & {(row["cluster_id"], " ".join(row["low"].split())) for row in rows}
    keys = [(row["cluster_id"], row["high"], row["low"], row["category"]) for row in rows]
    assert len(set(keys)) == len(keys)


def test_the_recipe_pins_the_files_and_each_config_has_tasks(built: Path, source: Path) -> None:
    recipe = find_recipe("bio_mqm").recipe
    assert {file.sha256 for file in recipe.files.values()} == {sha256_of(path) for path in source.glob("*/*.json")}
    assert all(
        file.url.endswith(f"/b35bd75/data/v2/target/main_phase/round_two/{name}") for name, file in recipe.files.items()
    )
    report = read_report(built)
    assert report["en2de"]["source_sha256"] == {name: file.sha256 for name, file in recipe.files.items()}
    for pair in PAIRS:
        said = read_yaml(tasks_dir() / "bio_mqm" / f"nnd_bio_mqm_{pair}.yaml")
        clean = read_yaml(tasks_dir() / "bio_mqm" / f"nnd_bio_mqm_{pair}_clean.yaml")
        assert (said["dataset_name"], clean["dataset_name"]) == (pair, f"{pair}_clean")
        assert f"languages: {pair.replace('2', '-')} " in said["doc_to_text"]
        for config in (pair, f"{pair}_clean"):
            assert said["metadata"]["categories"] == sorted(report[config]["categories"])
    card = (built / "README.md").read_text("utf-8")
    assert "language:\n- de\n- en\n- es\n- ru\n- zh\n" in card
    assert "Candidates without a label are better than all others of the same context." in card
    assert {pair: [report[name]["fingerprint"] for name in (pair, f"{pair}_clean")] for pair in PAIRS} == PINS
    assert {pair: report[pair]["tests"] for pair in PAIRS} == recipe.published


# ---------------------------------------------------------------- small files


def rows(*targets: tuple[str, str | None]) -> str:
    said = {"source": "S.", "SEG_ID": "1", "filename": "d", "MT_Engine": "m", "Annotator_ID": "a"}
    error = {"term": "bad", "startIndex": 0, "endIndex": 2, "error_subcategory": "", "severity": "Minor"}
    return json.dumps(
        [
            {**said, "target": target, "target_errors": [{**error, "error_category": kind}] if kind else []}
            for target, kind in targets
        ]
    )


PAIR = rows(("good.", None), ("bad.", "Style"))


def test_files_in_folders_are_downloaded(publisher: Publisher, monkeypatch: pytest.MonkeyPatch, nnd_home: Path) -> None:
    names = "en2it/m.json", "it2en/m.json"
    files = [File(name, publisher.serve(name, PAIR.encode()), sha256(PAIR.encode())) for name in names]
    serve_set(monkeypatch, "bio_mqm", *files)
    result = build_set("bio_mqm", progress=False)
    assert [summary.name for summary in result.built] == ["en2it", "en2it_clean", "it2en", "it2en_clean"]
    assert (nnd_home / "downloads" / "bio_mqm" / "it2en" / "m.json").is_file()


def test_a_folder_of_a_pair_is_a_config_wherever_it_lies(tmp_path: Path) -> None:
    for folder in ("one/bio_mqm/en2it", "one/bio_mqm/it2en", "two/a/en2it", "two/b/en2it"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "m.json").write_text(PAIR)
    (tmp_path / "one" / "other.json").write_text("[]")
    both = ["en2it", "en2it_clean", "it2en", "it2en_clean"]
    for source, made in (("one", both), ("one/bio_mqm", both), ("one/bio_mqm/it2en", both[2:])):
        out = tmp_path / "out" / source.replace("/", "_")
        assert list(build_set("bio_mqm", tmp_path / source, out).report) == made
    with pytest.raises(NNDError, match="gives the config 'en2it' too; name one of them as the source"):
        build_set("bio_mqm", tmp_path / "two", tmp_path / "out" / "two")
