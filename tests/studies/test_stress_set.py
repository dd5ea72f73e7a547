"""Sets of synthetic errors, from files of every kind to the verdict of the command line."""

import json
from collections import Counter

import pandas as pd
import pytest
import yaml

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.write import making
from nnd_tasks.store import read_table
from nnd_tasks.studies.stress import edits, stress_set
from nnd_tasks.studies.stress.corpora import read_corpus
from nnd_tasks.studies.stress.error_types import ERRORS
from nnd_tasks.studies.stress.stress_set import build_stress_set, compute_noise
from tests.conftest import REPO
from tests.sets.tables import write_rows
from tests.studies.pipeline import TEXTS, tagged


@pytest.fixture
def pairs(tmp_path):
    rows = [{"gold": text, "source": f"Source {i}.", "reference": f"Other {i}."} for i, text in enumerate(TEXTS)]
    return write_rows(tmp_path / "pairs.jsonl", rows)


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipeline") / "rules"
    tagged().to_disk(folder)
    return str(folder)


def build(path, out, **settings):
    return build_stress_set("mine", str(path), out=out, **settings)


def rows_of(result):
    return list(read_table(result.folder).to_pylist())


# ---------------------------------------------------------------- files


def test_a_plain_file_gives_tests_of_every_error_that_needs_nothing(corpus, tmp_path):
    result = build(corpus, tmp_path / "out")
    rows, report = rows_of(result), result.report
    assert set(report["left_out"]) == {name for name, kind in ERRORS.items() if kind.needs}
    assert {row["high"] for row in rows} == set(TEXTS), "the repeated text is one"
    without = sum(report["unchanged"].values()) + sum(report["repeated"].values())
    assert len(rows) + without == 3 * sum(map(len, report["levels"].values()))
    for row in rows:
        assert row["low"] != row["high"]
        assert row["context"] == ""
        assert row["noise_ratio"] == compute_noise(row["high"], row["low"], switching=ERRORS[row["category"]].switching)
        assert row["subcategory"] in report["levels"][row["category"]]
    assert json.loads((result.folder / "build_report.json").read_text())["stress"] == report
    card = (result.folder / "README.md").read_text()
    assert "| truncation | Words at the end" in card
    assert f"| `stress` | truncation | {report['trivial_rules']['truncation']['shorter']:.3f} |" in card


def test_the_same_command_gives_the_same_set_in_every_release(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(edits, "PIPELINE", "not installed")
    assert build(corpus, tmp_path / "out", levels="paper", seeds=2).summary.fingerprint == "f008c89fab29ac49"


def test_with_tags_and_sources_every_error_is_made(pairs, pipeline, masked_model, tmp_path):
    (tmp_path / "pairs_reference.txt").write_text("\n".join(TEXTS))
    rows = rows_of(build(pairs, tmp_path / "out", spacy=pipeline, mlm=str(masked_model), seeds=2))
    seeds = pd.DataFrame(rows).groupby("category")["seed"].agg(set)
    assert set(seeds.index) == set(ERRORS)
    assert (seeds["truncation"], seeds["token_drop"]) == ({0}, {0, 1})
    assert max(Counter((row["category"], row["cluster_id"], row["low"]) for row in rows).values()) == 1, "no test twice"
    assert all(row["low"] == row["context"] for row in rows if row["category"] == "copy_source")


def test_a_test_does_not_depend_on_which_other_texts_are_asked_for(corpus, tmp_path):
    rows = {row["test_id"]: row for row in rows_of(build(corpus, tmp_path / "out", seeds=2))}
    fewer = {row["test_id"]: row for row in rows_of(build(corpus, tmp_path / "fewer", texts=2, seeds=2))}
    assert fewer
    assert fewer.items() <= rows.items()


def test_texts_may_hold_any_line_separator_but_a_line_feed(tmp_path):
    texts = [f"A first{mark}text here. It has the usual words." for mark in ("\u2028", "\u0085", "\x0b")]
    lines = [json.dumps({"gold": text}, ensure_ascii=False) for text in texts]
    for name, content in {"a.jsonl": lines, "b.txt": texts}.items():
        (tmp_path / name).write_text("\ufeff" + "\r\n".join(content), encoding="utf-8", newline="")
        assert [gold.text for gold in read_corpus(str(tmp_path / name)).texts] == texts


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"errors": "trunkation"}, r"there is no error 'trunkation'; there are: truncation, "),
        ({"errors": "negation"}, "--errors negation needs a tagger: python -m spacy download en_core_web_sm"),
        ({"spacy": "no_such_pipeline"}, "there is no spaCy pipeline 'no_such_pipeline'"),
        ({"mlm": "/no/such/model", "errors": "bert_diverge"}, "--mlm /no/such/model: no masked language model"),
        ({"name": "demo"}, "demo is the name of another set"),
        ({"name": "blindspot_cnndm"}, "blindspot_cnndm is the name of another set"),  # made from its corpus only
        ({"name": "a-b"}, "named by letters, digits and _"),
        ({"errors": "sentence_switching", "texts": 1}, "no error changed any text"),
    ],
)
def test_wrong_arguments_are_named(settings, message, tmp_path):
    (tmp_path / "a.txt").write_text("One sentence.\n")
    arguments = {"name": "mine", "corpus": str(tmp_path / "a.txt"), "out": tmp_path / "out", **settings}
    with pytest.raises(NNDError, match=message):
        build_stress_set(**arguments)
    assert not (tmp_path / "out" / "README.md").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"\n\n", "it holds no text"),
        ("a.jsonl", b'{"gold": "x"}\n{"text": "y"}\n', "a.jsonl, line 2: gold: it is missing"),
        ("a.jsonl", b'{"gold": "x", "source": "s"}\n{"gold": "y"}\n', "1 of 2 texts have no source"),
        ("b.txt", b"x", "a.txt: there is no such file, and it is not one of wikitext, "),
        ("ted", b"x", r"there is no ted_zh_en\.jsonl in .*blindspot; name the folder .* --source"),
    ],
)
def test_wrong_corpora_are_named(name, content, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(NNDError, match=message):
        read_corpus({"b.txt": str(tmp_path / "a.txt"), "ted": "ted"}.get(name, str(path)))


# ---------------------------------------------------------------- the paper's corpora


@pytest.mark.parametrize(("corpus", "least"), [("wikitext", 990), ("cnndm", 100), ("wmt", 990), ("ted", 100)])
def test_the_papers_corpora_build_with_their_exceptions(corpus, least, data, pipeline, tmp_path):
    golds = read_corpus(corpus, data / "blindspot").texts
    assert least <= len(golds) <= round(least, -2)
    for path in (data / "blindspot").iterdir():  # a part of them is enough
        (tmp_path / path.name).write_text("\n".join(path.read_text("utf-8").splitlines()[:40]), encoding="utf-8")
    settings = {"folder": tmp_path, "texts": 4, "levels": "paper", "spacy": pipeline}
    result = build_stress_set(f"blindspot_{corpus}", corpus, out=tmp_path / "out", **settings)
    left_out = result.report["left_out"]
    impossible = {name for name, kind in ERRORS.items() if not kind.choose_levels(corpus)}
    assert impossible <= set(left_out) <= impossible | {"bert_diverge", "frequent_3gram", "frequent_4gram"}
    assert corpus != "wmt" or "paper does not make it on wmt" in left_out["sentence_switching"]
    rows = rows_of(result)
    assert all(bool(row["context"]) == (corpus != "wikitext") for row in rows)
    sizes = {len(row["low"].split()) for row in rows if row["category"] == "frequent_3gram"}
    assert sizes == ({256} if corpus == "wikitext" else set())


def test_the_tasks_have_the_version_of_what_makes_their_tests():
    for file in ("_base", "nnd_blindspot.yaml"):
        found = yaml.safe_load((REPO / "task_yamls" / "blindspot" / file).read_text())
        assert found["metadata"]["version"] == f"{stress_set.VERSION}-A"


# ---------------------------------------------------------------- from the command line


@pytest.mark.slow
def test_a_set_of_ones_own_is_built_listed_scored_and_judged(nnd, pairs, gpt2, few_tasks, nnd_home, tmp_path):
    run = ("run", "--model", "hf", "--model_args", f"pretrained={gpt2},dtype=float32", "--device", "cpu")
    build = ("stress", "build", "mine", "--corpus", pairs, "--errors", "truncation,positioned_error_random,repetition")
    how = "run: nnd stress build blindspot_ted --corpus ted --source FOLDER"
    assert how in nnd(*run, "--tasks", "nnd_blindspot_ted").err
    done = nnd(*build)
    assert done.status == 0, done.err
    assert "27 tests from 3 texts" in done.out
    done = nnd(*run, "--tasks", "nnd_mine", "--output_path", tmp_path / "out", "--log_samples")
    assert "pass_rate_positioned_error_random" in done.out
    [samples] = (tmp_path / "out").rglob("samples_*.jsonl")
    asked = [json.loads(line)["arguments"]["gen_args_0"]["arg_0"] for line in samples.read_text().splitlines()]
    assert asked == [f"Source {i}.\n\n" for i in range(3)]
    done = nnd("stress", "report", tmp_path / "out", "--out", tmp_path / "report")
    assert done.out.count("| truncation |") == 3
    assert (tmp_path / "report" / "nnd_mine_gpt2_levels.png").is_file()
    task = nnd_home / "task_yamls" / "mine" / "nnd_mine.yaml"
    task.write_text(task.read_text() + "description: mine\n")
    assert f"note: {task} was kept as it is" in nnd(*build).err
    assert task.read_text().endswith("description: mine\n")


def test_a_set_that_was_made_otherwise_is_not_replaced_unasked(corpus, tmp_path):
    out = tmp_path / "out"
    first = build(corpus, out, errors="truncation")
    assert build(corpus, out, errors="truncation").summary == first.summary, "the same again is no conflict"
    with pytest.raises(NNDError, match=r"out: holds a stress set of other texts, errors, .*take another name"):
        build(corpus, out, errors="token_drop")
    assert {row["category"] for row in rows_of(first)} == {"truncation"}
    assert {row["category"] for row in rows_of(build(corpus, out, errors="token_drop", replace=True))} == {"token_drop"}
    with making(out.absolute()), pytest.raises(NNDError, match="out: another command is making this set"):
        build(corpus, out, errors="token_drop")
