"""Dataset folders: what is written is what is read, and what is there is never lost."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import nnd_tasks.datasets as ours
from nnd_tasks.datasets import dataset_folder, find_dataset, list_configs, load, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.tables import check_table, fingerprint, summarize
from tests.sets.folders import beside, contents, make, not_utf8, parquet, to_table, write

FIRST = ["test_id", "context_id", "cluster_id", "context", "high", "low", "category", "high_first"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the place of a dataset in a folder of its own."""
    (tmp_path / "sets").mkdir()
    return tmp_path / "sets" / "demo"


# ---------------------------------------------------------------- tables

short = st.text(alphabet="ab é\n\"'\\\u2028", max_size=4)
maybe = st.sampled_from(["", "", "x", "é "])
number = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))


@st.composite
def some_tests(draw: st.DrawFn) -> list[dict[str, Any]]:
    column = {
        **dict.fromkeys(("context_id", "cluster_id", "context", "high", "low"), short),
        **dict.fromkeys(("subcategory", "high_label", "low_label", "rater"), maybe),
        "severity": st.sampled_from(["", "Minor", "Major"]),  # each names a metric
        **dict.fromkeys(("high_system", "low_system"), maybe),
        **dict.fromkeys(("high_score", "low_score"), number),
        "category": st.sampled_from(["A", "B b"]),
        "high_first": st.booleans(),
        **dict.fromkeys(("answer", "question"), short),
    }
    rows = draw(st.lists(st.fixed_dictionaries(column), min_size=1, max_size=5))
    return [{"test_id": f"t{i}", **row} for i, row in enumerate(rows)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(), st.none() | st.integers(-(2**40), 2**40)), max_size=12), st.integers(1, 5))
def test_the_fingerprint_is_that_of_the_whole_columns_however_it_is_cut(rows: list[Any], piece: int) -> None:
    table = pa.table({"a": [a for a, _ in rows], 'b "c"': pa.array([b for _, b in rows], pa.int64())})
    whole = "".join(json.dumps([name, table.column(name).to_pylist()], ensure_ascii=False) for name in ("a", 'b "c"'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nnd_tasks.tables._PIECE", piece)
        assert fingerprint(table) == hashlib.sha256(whole.encode()).hexdigest()[:16]


def changed(table: pa.Table, name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values, kind))


Change = Callable[[pa.Table], pa.Table]
BAD_TABLES: dict[str, tuple[Change, list[str]]] = {
    **{f"no {name}": (lambda t, name=name: t.drop_columns([name]), [name, "missing"]) for name in FIRST},
    **{
        f"no {name} in a row": (
            lambda t, name=name: changed(t, name, [None, *t.column(name).to_pylist()[1:]]),
            [name, "empty"],
        )
        for name in FIRST
    },
    "one id twice": (lambda t: changed(t, "test_id", ["t0", "t1", "t0"]), ["test id repeated", "'t0'"]),
    "words for yes and no": (lambda t: changed(t, "high_first", ["yes", "no", "maybe"]), ["high_first", "bool"]),
    "lists for text": (lambda t: changed(t, "context", [["a"], ["b"], ["c"]]), ["context", "string"]),
    "bytes that are no text": (lambda t: changed(t, "high", [b"\xff", b"a", b"b"]), ["high", "string"]),
    "words for numbers": (lambda t: t.append_column("low_score", pa.array(["1", "2", "x"])), ["low_score", "double"]),
    "lists in an optional column": (
        lambda t: t.append_column("severity", pa.array([["x"]] * 3)),
        ["severity", "string"],
    ),
    "no row": (lambda t: t.slice(0, 0), ["no test"]),
    "categories with one slug": (lambda t: changed(t, "category", ["a b", "a-b", "c"]), ["'a b'", "'a-b'"]),
    "a category with a name in use": (lambda t: changed(t, "category", ["sum", "a", "a"]), ["'sum'"]),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_damaged_table_is_refused_when_checked_written_and_read(folder: Path, name: str) -> None:
    damage, words = BAD_TABLES[name]
    bad = damage(to_table(make()))
    with pytest.raises(NNDError) as checked:
        check_table(bad, "here")
    with pytest.raises(NNDError) as written:
        write(folder, {"authors": bad})
    assert not folder.exists()
    write(folder)
    pq.write_table(bad, parquet(folder))
    with pytest.raises(NNDError) as read:
        read_table(folder)
    for caught in (checked, written, read):
        for word in words:
            assert word in str(caught.value)


# ---------------------------------------------------------------- fingerprints


def test_a_fingerprint_stays_what_it_was_in_published_results() -> None:
    assert fingerprint(pa.table({"a": ["é\n", None], "b": [1.5, -0.0], "c": [True, False]})) == "21c0b116e1c780e6"


# ---------------------------------------------------------------- round trips


@settings(max_examples=12, deadline=None)
@given(some_tests())
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, tests: list[dict[str, Any]]) -> None:
    folder, table = tmp_path_factory.mktemp("sets") / "demo", to_table(tests)
    (summary,) = write(folder, {"authors": table})
    again = read_table(folder)
    assert again.schema.equals(table.schema)
    assert again.to_pylist() == table.to_pylist()
    assert fingerprint(again) == fingerprint(table) == summary.fingerprint
    assert load(str(folder)).to_list() == table.to_pylist()


def test_the_datasets_library_reads_the_folder_with_declared_features(folder: Path, tmp_path: Path) -> None:
    table = to_table(make(4, high_score=0.5, severity="minor", answer="yes"))
    write(folder, {"clean": to_table(make(2, "x")), "authors": table})
    loaded = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == ["test"]  # and the default config
    text, real = datasets.Value("string"), datasets.Value("float64")
    assert loaded["test"].features == datasets.Features(
        {
            **dict.fromkeys(FIRST[:-1], text),
            "high_first": datasets.Value("bool"),
            "severity": text,
            "high_score": real,
            "answer": text,
        }
    )
    assert list(loaded["test"].features) == table.column_names
    assert loaded["test"].to_list() == table.to_pylist()
    other = datasets.load_dataset(str(folder), "clean", split="test", cache_dir=str(tmp_path / "cache"))
    assert other.to_list() == to_table(make(2, "x")).to_pylist()
    assert sorted(datasets.get_dataset_config_names(str(folder))) == ["authors", "clean"]


def test_a_config_is_added_beside_those_that_are_there(folder: Path) -> None:
    first, second = to_table(make(3)), to_table(make(2, "x", category="Other"))
    write(folder, report={"authors": {"rows": 3}})
    before = contents(folder)
    summaries = write(folder, {"clean": second}, report={"clean": {"rows": 2}})
    assert [(s.name, s.tests) for s in summaries] == [("authors", 3), ("clean", 2)]
    assert read_table(folder, "authors").equals(first)
    assert read_table(folder, "clean").equals(second)
    assert contents(folder).items() >= {key: before[key] for key in before if key.startswith("authors/")}.items()
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert text.index("authors") < text.index("clean")
    assert json.loads((folder / "build_report.json").read_text()) == {"authors": {"rows": 3}, "clean": {"rows": 2}}
    assert beside(folder) == set()


@pytest.mark.parametrize(
    ("names", "default", "chosen"),
    [(["a", "b"], "b", "b"), (["a", "b"], "a", "a"), (["b", "a"], "other", "b"), (["on", "2021"], "2021", "2021")],
)
def test_the_default_config_is_the_named_one_else_the_first(
    folder: Path, names: list[str], default: str, chosen: str
) -> None:
    write(folder, {name: to_table(make(1, name)) for name in names}, default=default)
    assert list_configs(folder) == (names, chosen)
    assert read_table(folder).column("test_id").to_pylist() == [f"{chosen}t0"]


def test_extra_columns_are_kept_also_when_another_config_is_added(folder: Path, tmp_path: Path) -> None:
    extra = (
        to_table(make(3)).append_column("n", pa.array([1, 2, None])).append_column("tags", pa.array([["a"], [], None]))
    )
    write(folder, {"authors": extra})
    write(folder, {"clean": to_table(make(1))})
    assert read_table(folder, "authors").equals(extra)
    assert fingerprint(read_table(folder, "authors")) == fingerprint(extra)
    loaded = datasets.load_dataset(str(folder), "authors", split="test", cache_dir=str(tmp_path / "cache"))
    assert loaded.to_list() == extra.to_pylist()


def test_a_summary_counts_tests_clusters_distinct_candidates_and_categories() -> None:
    tests = [*make(5), *make(1, "again", high="bad 0", low="bad 4")]
    summary = summarize("authors", to_table(tests))
    # k0 has tests 0, 2, 4 (" good é", "bad 0", "bad 2", "bad 4") and the last; k1 has 1, 3 (" good é", "bad 1", "bad 3")
    assert (summary.name, summary.tests, summary.clusters, summary.candidates) == ("authors", 6, 2, 7)
    assert list(summary.categories.items()) == [("Common Sense", 3), ("Entity", 3)]


# ---------------------------------------------------------------- find and load


def test_a_name_is_looked_for_at_home_before_the_current_directory(
    tmp_path: Path, nnd_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_dataset("nnd/demo") is None
    write(tmp_path / "nnd" / "demo", {"here": to_table(make(1, "here"))})
    found = find_dataset("nnd/demo")
    assert found is not None
    assert found.resolve() == (tmp_path / "nnd" / "demo").resolve()
    assert load("demo")["test_id"][0] == "heret0"
    write(nnd_home / "nnd" / "demo", {"home": to_table(make(1, "home"))})
    assert find_dataset("nnd/demo") == nnd_home / "nnd" / "demo" == dataset_folder("demo")
    assert load("demo")["test_id"][0] == "homet0"


# ---------------------------------------------------------------- folders that cannot be read


def other_version(folder: Path) -> None:
    path = folder / "README.md"
    path.write_text(path.read_text("utf-8").replace("schema_version: 1", "schema_version: 0"), encoding="utf-8")


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "an earlier schema version": (other_version, "schema version 0"),
    "data gone": (lambda folder: parquet(folder).unlink(), "missing"),
    "config gone": (lambda folder: shutil.rmtree(folder / "authors"), "missing"),
    "data no parquet": (lambda folder: parquet(folder).write_bytes(b"PAR1, but no parquet"), "parquet"),
    "data empty": (lambda folder: parquet(folder).write_bytes(b""), "parquet"),
    "data cut": (lambda folder: parquet(folder).write_bytes(parquet(folder).read_bytes()[:-20]), "parquet"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_dataset_is_named_and_the_user_told_to_build_it_again(folder: Path, name: str) -> None:
    damage, word = DAMAGE[name]
    write(folder)
    damage(folder)
    for read in (lambda: read_table(folder), lambda: read_table(folder, "authors"), lambda: load(str(folder))):
        with pytest.raises(NNDError, match="build the set again") as caught:
            read()
        assert word in str(caught.value)
        assert str(folder) in str(caught.value)


def test_a_config_that_cannot_be_read_is_given_up_and_the_others_are_kept(folder: Path) -> None:
    write(
        folder,
        {"authors": to_table(make()), "clean": to_table(make(2))},
        report={"authors": {"n": 3}, "clean": {"n": 2}},
    )
    parquet(folder).write_bytes(b"")
    assert [s.name for s in write(folder, {"new": to_table(make(1))}, report={"new": {"n": 1}})] == ["clean", "new"]
    assert read_table(folder, "clean").equals(to_table(make(2)))
    assert json.loads((folder / "build_report.json").read_text()) == {"clean": {"n": 2}, "new": {"n": 1}}
    assert not (folder / "authors").exists()


def test_a_set_of_a_later_release_is_neither_read_nor_overwritten(folder: Path) -> None:
    write(folder)
    path = folder / "README.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("schema_version: 1", "schema_version: 2"), encoding="utf-8")
    before = contents(folder)
    for action in (lambda: write(folder), lambda: read_table(folder), lambda: load(str(folder))):
        with pytest.raises(NNDError, match="later release"):
            action()
    assert contents(folder) == before
    assert beside(folder) == set()


def test_a_folder_of_another_set_is_not_overwritten(folder: Path) -> None:
    write(folder, name="quiz_design")
    before = contents(folder)
    with pytest.raises(NNDError, match="quiz_design"):
        write(folder, name="frank")
    assert contents(folder) == before
    write(folder, {"clean": to_table(make(1))}, name="quiz_design")
    assert list_configs(folder)[0] == ["authors", "clean"]


FOREIGN: dict[str, Callable[[Path], Any]] = {
    "a card without header": lambda f: (f / "README.md").write_text("# A project\n"),
    "a header of something else": lambda f: (f / "README.md").write_text("---\nlicense: mit\n---\n\n# Text\n"),
    "a header of wrong YAML": lambda f: (f / "README.md").write_text("---\na: [1\n---\n"),
    "a card that is not text": lambda f: (f / "README.md").write_bytes(b"---\n\xff\xfe---\n"),
    "a card that is a folder": lambda f: (f / "README.md").mkdir(),
    "no card": lambda f: (f / "thesis.tex").write_text("years of work"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_folder_that_is_no_dataset_of_ours_is_neither_read_nor_overwritten(folder: Path, name: str) -> None:
    folder.mkdir()
    FOREIGN[name](folder)
    before = contents(folder)
    for action in (lambda: write(folder), lambda: read_table(folder), lambda: list_configs(folder)):
        with pytest.raises(NNDError, match="README"):
            action()
    assert contents(folder) == before
    assert beside(folder) == set()


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["configs"][0].update(config_name="../../victim"),
        lambda header: header["configs"][0].update(config_name=".."),
        lambda header: header["configs"][0]["data_files"][0].update(path="../../victim/test-*.parquet"),
        lambda header: header["configs"][0].update(data_files={"test": ["/etc/passwd"]}),
        lambda header: header["configs"][0].update(data_files="https://publisher.invalid/x.parquet"),
        lambda header: header["configs"].append({"data_dir": "../.."}),
        lambda header: header.update(nnd_set="../../victim"),
    ],
    ids=["config", "dots", "path", "list", "address", "data_dir", "set"],
)
def test_names_in_a_card_do_not_lead_out_of_its_folder(
    folder: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    write(folder)
    write(tmp_path / "victim")
    shutil.copytree(tmp_path / "victim" / "authors", tmp_path / "victim", dirs_exist_ok=True)
    text = (folder / "README.md").read_text("utf-8")
    header = yaml.safe_load(text.split("---\n")[1])
    change(header)
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump(header)}---\n# Sizes\n", encoding="utf-8")
    before = contents(tmp_path)
    for action in (
        lambda: list_configs(folder),
        lambda: read_table(folder),
        lambda: write(folder, {"clean": to_table(make(1))}),
    ):
        with pytest.raises(NNDError, match="README"):
            action()
    assert contents(tmp_path) == before


def test_data_that_are_no_utf8_are_refused_by_name(folder: Path) -> None:
    write(folder)
    table = pq.read_table(parquet(folder))
    pq.write_table(table.set_column(3, "context", not_utf8(table["context"])), parquet(folder))
    with pytest.raises(NNDError, match=r"config authors\): data unreadable") as caught:
        read_table(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("quizdesign", "there is no set 'quizdesign'; did you mean 'quiz_design'\\? nnd list shows"),
        ("nnd_frank", "there is no set 'nnd_frank'; did you mean 'frank'\\? "),
        ("blindspot_wikitex", "did you mean 'blindspot_wikitext'\\? "),
        ("nosuch", "there is no set 'nosuch'; nnd list shows those there are"),
        ("quiz_design", "set 'quiz_design' is not built here; run: nnd build quiz_design"),
        ("hanna", "run: nnd build hanna"),
        ("blindspot_ted", "run: nnd stress build blindspot_ted --corpus ted"),
    ],
)
def test_a_set_that_does_not_exist_is_not_proposed_to_be_built(name: str, message: str) -> None:
    from tests.conftest import SOURCES

    with pytest.raises(NNDError, match=message):
        ours.load(name)
    for known in SOURCES:
        assert "is not built here" in ours.no_set(known)
