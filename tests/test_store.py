"""Dataset folders: what is written is what is read, and what is there is never lost."""

import hashlib
import json
import shutil

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import fingerprint, summarize
from nnd_tasks.sets.first_use import load
from nnd_tasks.store import dataset_folder, find_dataset, list_configs, read_table
from tests.sets.folders import beside, contents, make, not_utf8, parquet, to_table, write


@pytest.fixture
def folder(tmp_path):
    """Return the place of a dataset in a folder of its own."""
    (tmp_path / "sets").mkdir()
    return tmp_path / "sets" / "demo"


# ---------------------------------------------------------------- tables


@settings(max_examples=25)
@given(st.lists(st.tuples(st.text(), st.none() | st.integers(-(2**40), 2**40)), max_size=12), st.integers(1, 5))
def test_the_fingerprint_is_that_of_the_whole_columns_however_it_is_cut(rows, piece):
    table = pa.table({"a": [a for a, _ in rows], 'b "c"': pa.array([b for _, b in rows], pa.int64())})
    whole = "".join(json.dumps([name, table.column(name).to_pylist()], ensure_ascii=False) for name in ("a", 'b "c"'))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nnd_tasks.schema._PIECE", piece)
        assert fingerprint(table) == hashlib.sha256(whole.encode()).hexdigest()[:16]


#: What the error says -> how a good table gets what is wrong; all faults are in `tests.contribute.test_codes`.
BAD_TABLES = {
    "cell empty 1 of 'category'": lambda table: table.set_column(6, "category", pa.array([None, "a", "b"])),
    "data unreadable": lambda table: table.set_column(3, "context", not_utf8(table["context"])),
}


@pytest.mark.parametrize("message", BAD_TABLES)
def test_a_damaged_table_is_neither_written_nor_read(folder, message):
    bad = BAD_TABLES[message](to_table(make()))
    with pytest.raises(NNDError, match=message):
        write(folder, {"authors": bad})
    assert not folder.exists()
    write(folder)
    pq.write_table(bad, parquet(folder))
    with pytest.raises(NNDError, match=rf"^{folder} \(config authors\): {message}"):
        read_table(folder)


# ---------------------------------------------------------------- fingerprints


def test_a_fingerprint_stays_what_it_was_in_published_results():
    assert fingerprint(pa.table({"a": ["é\n", None], "b": [1.5, -0.0], "c": [True, False]})) == "21c0b116e1c780e6"


# ---------------------------------------------------------------- round trips


def test_what_is_written_is_what_we_and_the_datasets_library_read(folder, tmp_path):
    tests = make(3, high_score=0.5, severity="minor", answer=' a"b\\\u2028é\n')
    table = to_table(tests).append_column("n", pa.array([1, 2, None]))
    table = table.append_column("tags", pa.array([["a"], [], None]))
    [summary] = write(folder, {"authors": table})
    write(folder, {"clean": to_table(make(2, "x"))})  # which keeps columns beyond the schema
    again = read_table(folder, "authors")
    assert again.equals(table)
    assert fingerprint(again) == fingerprint(table) == summary.fingerprint
    assert load(str(folder)).to_list() == table.to_pylist()
    loaded = datasets.load_dataset(str(folder), split="test", cache_dir=str(tmp_path / "cache"))  # the default config
    assert list(loaded.features) == table.column_names
    assert loaded.to_list() == table.to_pylist()
    write(folder, {"authors": to_table(make(3, "y"))})  # of which `datasets` has a copy that is out of date
    later = datasets.load_dataset(str(folder), split="test", cache_dir=str(tmp_path / "cache"))
    assert later.to_list() == to_table(make(3, "y")).to_pylist()
    other = datasets.load_dataset(str(folder), "clean", split="test", cache_dir=str(tmp_path / "cache"))
    assert other.to_list() == to_table(make(2, "x")).to_pylist()


def test_a_config_is_added_beside_those_that_are_there(folder):
    second = to_table(make(2, "x", category="Other"))
    write(folder, report={"authors": {"rows": 3}})
    before = contents(folder / "authors")
    summaries = write(folder, {"clean": second}, report={"clean": {"rows": 2}})
    assert [(s.name, s.tests) for s in summaries] == [("authors", 3), ("clean", 2)]
    assert contents(folder / "authors") == before
    assert read_table(folder, "clean").equals(second)
    assert json.loads((folder / "build_report.json").read_text()) == {"authors": {"rows": 3}, "clean": {"rows": 2}}
    assert beside(folder) == set()


@pytest.mark.parametrize(
    ("names", "default", "chosen"),
    [(["a", "b"], "b", "b"), (["a", "b"], "a", "a"), (["b", "a"], "other", "b"), (["on", "2021"], "2021", "2021")],
)
def test_the_default_config_is_the_named_one_else_the_first(folder, names, default, chosen):
    write(folder, {name: to_table(make(1, name)) for name in names}, default=default)
    assert list_configs(folder) == (names, chosen)
    assert read_table(folder).column("test_id").to_pylist() == [f"{chosen}t0"]


def test_a_summary_counts_tests_clusters_distinct_candidates_and_categories():
    tests = [*make(5), *make(1, "again", high="bad 0", low="bad 4")]
    summary = summarize("authors", to_table(tests))
    # k0 has tests 0, 2, 4 (" good é", "bad 0", "bad 2", "bad 4") and the last; k1 has 1, 3 (" good é", "bad 1", "bad 3")
    assert (summary.name, summary.tests, summary.clusters, summary.candidates) == ("authors", 6, 2, 7)
    assert list(summary.categories.items()) == [("Common Sense", 3), ("Entity", 3)]


# ---------------------------------------------------------------- find and load


def test_a_name_is_looked_for_at_home_before_the_current_directory(tmp_path, nnd_home, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_dataset("nnd/demo") is None
    write(tmp_path / "nnd" / "demo", {"here": to_table(make(1, "here"))})
    assert load("demo")["test_id"][0] == "heret0"
    write(nnd_home / "nnd" / "demo", {"home": to_table(make(1, "home"))})
    assert find_dataset("nnd/demo") == nnd_home / "nnd" / "demo" == dataset_folder("demo")
    assert load("demo")["test_id"][0] == "homet0"


# ---------------------------------------------------------------- folders that cannot be read


def set_version(folder, version):
    path = folder / "README.md"
    path.write_text(path.read_text("utf-8").replace("schema_version: 1", f"schema_version: {version}"), "utf-8")


#: What the error says -> how a set gets what is wrong.
DAMAGE = {
    "schema version 0": lambda folder: set_version(folder, 0),
    "missing": lambda folder: shutil.rmtree(folder / "authors"),
    "parquet": lambda folder: parquet(folder).write_bytes(parquet(folder).read_bytes()[:-20]),
}


@pytest.mark.parametrize("word", DAMAGE)
def test_a_damaged_dataset_is_named_and_the_user_told_to_build_it_again(folder, word):
    write(folder)
    DAMAGE[word](folder)
    for read in (lambda: read_table(folder, "authors"), lambda: load(str(folder))):
        with pytest.raises(NNDError, match=f"^{folder}.*{word}.*build the set again"):
            read()


def test_a_config_that_cannot_be_read_is_given_up_and_the_others_are_kept(folder):
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


def test_a_set_of_a_later_release_or_another_name_is_not_overwritten(folder):
    write(folder, name="quiz_design")
    for name, version, message in (("frank", 1, "quiz_design"), ("quiz_design", 2, "later release")):
        set_version(folder, version)
        before = contents(folder)
        with pytest.raises(NNDError, match=message):
            write(folder, name=name)
        assert contents(folder) == before
    with pytest.raises(NNDError, match="later release"):
        read_table(folder)


CARDS = {
    "without header": b"# A project\n",
    "with a header of something else": b"---\nlicense: mit\n---\n\n# Text\n",
    "with a header of wrong YAML": b"---\na: [1\n---\n",
    "that is not text": b"---\n\xff\xfe---\n",
    "that is not there": None,
}


@pytest.mark.parametrize("name", CARDS)
def test_a_folder_with_a_card_that_is_not_ours_is_neither_read_nor_overwritten(folder, name):
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    if card := CARDS[name]:
        (folder / "README.md").write_bytes(card)
    before = contents(folder)
    for action in (lambda: write(folder), lambda: list_configs(folder)):
        with pytest.raises(NNDError, match="README"):
            action()
    assert contents(folder) == before
    assert beside(folder) == set()


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["configs"][0].update(config_name="../../victim"),
        lambda header: header["configs"][0]["data_files"][0].update(path="../../victim/test-*.parquet"),
        lambda header: header["configs"].append({"data_dir": "../.."}),
        lambda header: header.update(nnd_set="../../victim"),
    ],
    ids=["config", "path", "data_dir", "set"],
)
def test_names_in_a_card_do_not_lead_out_of_its_folder(folder, tmp_path, change):
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
