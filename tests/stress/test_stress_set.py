"""Sets of synthetic errors: from files of every kind, in pieces, on the paper's corpora, through the command line."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import nnd_tasks
from nnd_tasks.cli import app
from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.write import making
from nnd_tasks.stress import set_writing, text
from nnd_tasks.stress.corpora import read_corpus
from nnd_tasks.stress.error_types import ERRORS
from nnd_tasks.stress.set_writing import compute_noise
from nnd_tasks.stress.stress_set import build_stress_set
from tests import commands
from tests.conftest import REPO
from tests.stress.pipeline import tagged

TEXTS = [
    "Anna went to the office in Boston. She talked about the dog, and the staff left. It was late.",
    "A song is a song. The house can wait! Did it rain on Monday? Nobody knows.",
    "He flew from Paris to Boston, of course. The day was long. The staff of the office had left.",
]
NEED_TAGS = {name for name, kind in ERRORS.items() if {*kind.needs} & {"tags", "entities"}}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "mine.txt"
    path.write_text("\n".join([*TEXTS, "", TEXTS[0]]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.jsonl"
    rows = [{"gold": text, "source": f"Source {i}.", "reference": f"Other {i}."} for i, text in enumerate(TEXTS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("pipeline") / "rules"
    tagged().to_disk(folder)
    return str(folder)


def build(corpus: Any, out: Path, **settings: Any) -> Any:
    return build_stress_set("mine", str(corpus), out=out, **settings)


# ---------------------------------------------------------------- files


def test_a_plain_file_gives_tests_of_every_error_that_needs_nothing(plain: Path, tmp_path: Path) -> None:
    result = build(plain, tmp_path / "out")
    rows = read_table(result.folder).to_pylist()
    assert set(result.report["left_out"]) == NEED_TAGS | {
        "bert_diverge",
        "copy_source",
        "frequent_3gram",
        "frequent_4gram",
    }
    assert set(result.report["levels"]) | set(result.report["left_out"]) == set(ERRORS)
    assert len({row["cluster_id"] for row in rows}) == 3, "the repeated text is one"
    without = sum(result.report["unchanged"].values()) + sum(result.report["repeated"].values())
    assert len(rows) + without == 3 * sum(map(len, result.report["levels"].values()))
    for row in rows:
        assert row["high"] in TEXTS
        assert row["low"] != row["high"]
        assert row["context"] == ""
        assert row["noise_ratio"] == compute_noise(row["high"], row["low"], switching=ERRORS[row["category"]].switching)
        assert row["subcategory"] in result.report["levels"][row["category"]]
    report = json.loads((result.folder / "build_report.json").read_text())["stress"]
    assert report == result.report
    assert report["left_out"]["negation"].startswith("a tagger: python -m spacy download")
    card = (result.folder / "README.md").read_text()
    assert "| truncation | Words at the end" in card
    assert f"| `stress` | truncation | {report['trivial_rules']['truncation']['shorter']:.3f} |" in card


def test_the_same_command_gives_the_same_set_in_every_release(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "PIPELINE", "not installed")
    assert build(plain, tmp_path / "out", levels="paper", seeds=2).summary.fingerprint == "f008c89fab29ac49"


def test_with_tags_sources_and_references_every_error_is_made(
    pairs: Path, plain: Path, pipeline: str, masked_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "pairs_reference.txt").write_text(
        "\n".join(" ".join(f"w{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(k, k + 30)) for k in range(90))
    )
    result = build(pairs, tmp_path / "out", spacy=pipeline, mlm=str(masked_model), seeds=2)
    assert result.report["left_out"] == {}
    rows = read_table(result.folder).to_pylist()
    assert {row["category"] for row in rows} == set(ERRORS)
    assert {row["seed"] for row in rows} == {0, 1}
    assert {row["context"] for row in rows} == {"Source 0.", "Source 1.", "Source 2."}
    assert all(row["low"].startswith("Source") for row in rows if row["category"] == "copy_source")


def test_errors_without_chance_are_made_once_and_the_others_by_seed(pairs: Path, tmp_path: Path) -> None:
    rows = read_table(build(pairs, tmp_path / "out", seeds=3).folder).to_pylist()
    by_error: dict[str, set[int]] = {}
    for row in rows:
        by_error.setdefault(row["category"], set()).add(row["seed"])
    for name in ("truncation", "repetition", "copy_source"):
        assert by_error[name] == {0}
    pairs_of = Counter((row["category"], row["cluster_id"], row["low"]) for row in rows)
    assert set(pairs_of.values()) == {1}, "no text is a test of one error twice"
    for name in ("token_drop", "local_swap", "positioned_error_random"):
        assert by_error[name] == {0, 1, 2}


def test_a_test_does_not_depend_on_which_other_texts_are_asked_for(plain: Path, tmp_path: Path) -> None:
    rows = {row["test_id"]: row for row in read_table(build(plain, tmp_path / "out", seeds=2).folder).to_pylist()}
    fewer = read_table(build(plain, tmp_path / "fewer", texts=2, seeds=2).folder).to_pylist()
    assert fewer
    assert all(rows[row["test_id"]] == row for row in fewer)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"errors": "trunkation"},
            r"there is no error 'trunkation'; there are: truncation, ",
        ),
        ({"errors": "negation"}, "--errors negation needs a tagger: python -m spacy download en_core_web_sm"),
        ({"errors": "copy_source"}, "--errors copy_source needs a source for every text"),
        ({"errors": "bert_diverge"}, "--errors bert_diverge needs a masked language model: --mlm FOLDER"),
        ({"errors": "frequent_4gram"}, "needs a reference corpus for n-grams: texts_reference.txt"),
        ({"errors": " , "}, "--errors: there is no error ''"),
        ({"spacy": "no_such_pipeline"}, "there is no spaCy pipeline 'no_such_pipeline'"),
        ({"mlm": "/no/such/model", "errors": "bert_diverge"}, "--mlm /no/such/model: no masked language model"),
    ],
)
def test_wrong_arguments_are_named(
    settings: dict[str, Any], message: str, plain: Path, pairs: Path, tmp_path: Path
) -> None:
    corpus = pairs if "mlm" in settings else plain
    with pytest.raises(NNDError, match=message):
        build(corpus, tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "\n\n", "it holds no text"),
        ("a.jsonl", '{"gold": "x"}\n{"text": "y"}\n', "a.jsonl, line 2: gold: Field required"),
        ("a.jsonl", "[]\n", "a.jsonl, line 1: .*dictionary"),
        ("a.jsonl", "{\n", "a.jsonl, line 1: is not valid JSON"),
        ("a.jsonl", '{"gold": ' + "[" * 100_000 + "\n", "a.jsonl, line 1: its lists and objects are nested too deeply"),
        ("a.jsonl", '{"gold": "x", "source": 3}\n', "line 1: source: .*string"),
        ("a.jsonl", '{"gold": "x", "references": [1]}\n', r"line 1: references.*0: .*string"),
    ],
)
def test_wrong_corpora_are_named(name: str, content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(NNDError, match=message):
        read_corpus(str(path))


def test_one_sentence_has_one_level_of_what_moves_sentences(tmp_path: Path) -> None:
    corpus = tmp_path / "one.txt"
    corpus.write_text(
        "The cat went to the house of the dog.\nNobody knew the song of that day.\nIt rained and we left.\n"
    )
    result = build(corpus, tmp_path / "out", errors="middle_swap,sentence_replacement,token_drop", seeds=2)
    rows = read_table(result.folder).to_pylist()
    for error in ("middle_swap", "sentence_replacement"):
        assert {row["subcategory"] for row in rows if row["category"] == error} == {"1"}
        assert result.report["repeated"][error]


def test_higher_levels_add_to_lower_ones(plain: Path, tmp_path: Path) -> None:
    rows = read_table(build(plain, tmp_path / "out", errors="token_drop").folder).to_pylist()
    by_text: dict[str, dict[str, set[str]]] = {}
    for row in rows:
        gone = Counter(row["high"].split()) - Counter(row["low"].split())
        by_text.setdefault(row["high"], {})[row["subcategory"]] = set(gone)
    assert all(found["0.05"] <= found["0.25"] <= found["0.5"] for found in by_text.values() if len(found) == 3)


def test_a_file_that_is_called_like_a_corpus_is_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "wmt.txt"
    path.write_text("\n".join(TEXTS))
    result = build(path, tmp_path / "out", errors="sentence_switching")
    assert result.report["levels"] == {"sentence_switching": ["1", "2"]}


def test_texts_may_hold_any_line_separator_but_a_line_feed(tmp_path: Path) -> None:
    texts = [f"A first{mark}text here. It has the usual words." for mark in ("\u2028", "\u0085", "\x0b")]
    path = tmp_path / "a.jsonl"
    path.write_text(
        "\ufeff" + "".join(json.dumps({"gold": t}, ensure_ascii=False) + "\n" for t in texts), encoding="utf-8"
    )
    assert [gold.text for gold in read_corpus(str(path)).texts] == texts
    rows = read_table(build(path, tmp_path / "out", errors="token_drop").folder).to_pylist()
    assert {row["high"] for row in rows} == set(texts)
    (tmp_path / "b.txt").write_text("\ufeff" + "\r\n".join(texts), encoding="utf-8", newline="")
    assert [gold.text for gold in read_corpus(str(tmp_path / "b.txt")).texts] == texts


def test_a_source_for_some_texts_only_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"gold": "x", "source": "s"}\n{"gold": "y"}\n')
    with pytest.raises(NNDError, match="1 of 2 texts have no source; give every text one, or none"):
        read_corpus(str(tmp_path / "a.jsonl"))


def test_the_sets_of_our_tasks_are_made_from_their_corpora_only(plain: Path, tmp_path: Path) -> None:
    with pytest.raises(NNDError, match="blindspot_cnndm is the name of another set"):
        build_stress_set("blindspot_cnndm", str(plain), out=tmp_path / "out")


def test_the_name_of_another_set_is_refused(plain: Path) -> None:
    with pytest.raises(NNDError, match="demo is the name of another set"):
        build_stress_set("demo", str(plain))


def test_a_corpus_that_is_not_there_says_where_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NND_HOME", str(tmp_path))
    with pytest.raises(
        NNDError, match=r"corpus ted: there is no ted_zh_en\.jsonl in .*blindspot; name the folder .* --source"
    ):
        read_corpus("ted")
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(NNDError, match=r"bytes\.txt: is not UTF-8"):
        read_corpus(str(tmp_path / "bytes.txt"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nofile.txt", "corpus nofile.txt: there is no such file"),
        ("wikitex", "not one of wikitext, cnndm"),
    ],
)
def test_a_corpus_that_is_not_there_is_said_so(name: str, message: str) -> None:
    with pytest.raises(NNDError, match=re.escape(message)):
        read_corpus(name)


# ---------------------------------------------------------------- the paper's corpora


@pytest.mark.parametrize("corpus", ["wikitext", "cnndm", "wmt", "ted"])
def test_the_papers_corpora_build_with_their_exceptions(corpus: str, data: Path, pipeline: str, tmp_path: Path) -> None:
    result = build_stress_set(
        f"blindspot_{corpus}",
        corpus,
        place=data / "blindspot",
        out=tmp_path / "out",
        texts=10,
        levels="paper",
        spacy=pipeline,
    )
    impossible = {name for name, kind in ERRORS.items() if not kind.find_levels(corpus)}
    assert impossible <= set(result.report["left_out"])
    assert set(result.report["left_out"]) - impossible <= {"bert_diverge", "frequent_3gram", "frequent_4gram"}
    assert result.summary.clusters == 10
    if corpus == "wmt":
        assert "sentence_switching" in result.report["left_out"]
        assert "paper does not make it on wmt" in result.report["left_out"]["sentence_switching"]
    rows = read_table(result.folder).to_pylist()
    assert all(bool(row["context"]) == (corpus != "wikitext") for row in rows)
    found = {row["category"] for row in rows}
    assert {"truncation", "token_drop", "noised_punctuation", "positioned_error_shuffle"} <= found
    if corpus == "wikitext":
        assert "frequent_4gram" in found
        assert all(len(row["low"].split()) == 256 for row in rows if row["category"] == "frequent_3gram")


def test_corpora_have_the_papers_sizes_and_references(data: Path) -> None:
    sizes = {name: len(read_corpus(name, data / "blindspot").texts) for name in ("wikitext", "cnndm", "wmt", "ted")}
    assert sizes["cnndm"] == sizes["ted"] == 100
    assert 990 <= sizes["wikitext"] <= 1000
    assert 990 <= sizes["wmt"] <= 1000
    for gold in read_corpus("cnndm", data / "blindspot").texts:
        assert len(gold.references) == 10
        assert gold.text not in gold.references


def test_the_tasks_have_the_version_of_what_makes_their_tests() -> None:
    for file in ("_base", "nnd_blindspot.yaml"):
        found = yaml.safe_load((REPO / "task_yamls" / "blindspot" / file).read_text())
        assert found["metadata"]["version"] == f"{set_writing.VERSION}-A"


# ---------------------------------------------------------------- through the harness


@pytest.mark.slow
def test_the_command_line_builds_a_set_and_the_task_scores_it(
    data: Path, tiny_models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NND_HOME", str(tmp_path))

    def nnd(*arguments: Any) -> Any:
        return commands.run([sys.executable, "-m", "nnd_tasks.cli", *map(str, arguments)], cwd=tmp_path)

    refused = nnd(
        "run", "--model", "hf", "--model_args", f"pretrained={tiny_models['gpt2']}", "--tasks", "nnd_blindspot_ted"
    )
    assert refused.returncode == 1
    assert "run: nnd stress build blindspot_ted --corpus ted --source FOLDER" in refused.stderr
    for corpus in ("wikitext", "ted"):
        done = nnd(
            *("stress", "build", f"blindspot_{corpus}", "--corpus", corpus, "--source", data / "blindspot"),
            *("--texts", 3, "--errors", "truncation,positioned_error_random,repetition"),
        )
        assert done.returncode == 0, done.stderr
        assert "27 tests from 3 texts" in done.stdout
    done = nnd(
        *("run", "--model", "hf", "--model_args", f"pretrained={tiny_models['gpt2']},dtype=float32,max_length=2048"),
        *(
            "--tasks",
            "nnd_blindspot_wikitext,nnd_blindspot_ted",
            "--device",
            "cpu",
            "--log_samples",
            "--output_path",
            "out",
        ),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "pass_rate_positioned_error_random" in done.stdout
    report = nnd("stress", "report", "out", "--out", "report")
    assert report.returncode == 0, report.stderr
    assert report.stdout.count("| truncation |") == 2 * 3
    names = {path.name for path in (tmp_path / "report").iterdir()}
    for name in (f"nnd_blindspot_{corpus}_gpt2" for corpus in ("wikitext", "ted")):
        assert names >= {f"{name}.md", f"{name}.json", f"{name}_levels.csv", f"{name}_levels.png"}
    wrong = nnd("stress", "build", "x", "--corpus", "wikitext", "--source", data / "blindspot", "--errors", "x")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("nnd: error: --errors: there is no error 'x'; there are: truncation, ")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "pairs"])
def test_a_set_of_ones_own_is_listed_and_has_a_task_that_scores_it(
    kind: str, tiny_models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    corpus = request.getfixturevalue(kind)
    home = tmp_path / "home"
    monkeypatch.setenv("NND_HOME", str(home))
    result = build_stress_set("mine", str(corpus), errors="truncation,token_drop")
    assert result.task.name == "nnd_mine"
    assert result.task.path == home / "task_yamls" / "mine" / "nnd_mine.yaml"
    shown = CliRunner().invoke(app, ["list"]).output
    assert re.search(rf"\| mine \| your own.* stress \| {result.summary.tests} \| token_drop 9 \(", shown)
    results = nnd_tasks.evaluate(
        "nnd_mine", model_args={"pretrained": str(tiny_models["gpt2"]), "dtype": "float32"}, device="cpu"
    )
    assert results["results"]["nnd_mine"]["tests,none"] == result.summary.tests
    asked = {sample["arguments"][0][0] for sample in results["samples"]["nnd_mine"]}
    expected = {"plain": {""}, "pairs": {f"Source {i}.\n\n" for i in range(3)}}[kind]
    assert {prompt for prompt in asked if prompt.strip()} == {prompt for prompt in expected if prompt}
    assert not any(path.name.endswith(".new") for path in home.rglob("*"))


def test_the_task_of_a_set_stays_as_its_user_left_it(pairs: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("NND_HOME", str(tmp_path / "home"))
    make = partial(build_stress_set, "mine", str(pairs), errors="truncation")
    first = make()
    assert not first.task.kept
    assert yaml.safe_load(first.task.path.read_text())["doc_to_text"] == set_writing.PROMPT
    assert make().task.kept is False
    changed = first.task.path.read_text() + "description: mine\n"
    first.task.path.write_text(changed)
    assert make().task.kept
    assert first.task.path.read_text() == changed
    done = CliRunner().invoke(app, ["stress", "build", "mine", "--corpus", str(pairs), "--errors", "truncation"])
    assert f"note: {first.task.path} was kept as it is" in done.output.replace("\n", " ").replace("  ", " ")
    assert "--tasks nnd_mine" in done.output


def test_a_set_that_was_made_otherwise_is_not_replaced_unasked(plain: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = build(plain, out, errors="truncation")
    assert build(plain, out, errors="truncation").summary == first.summary, "the same again is no conflict"
    with pytest.raises(
        NNDError, match=r"out: holds a stress set of other texts, errors, .*take another name, or --replace"
    ):
        build(plain, out, errors="token_drop")
    assert set(read_table(out)["category"].to_pylist()) == {"truncation"}
    build(plain, out, errors="token_drop", replace=True)
    assert set(read_table(out)["category"].to_pylist()) == {"token_drop"}


def test_a_set_that_another_process_builds_is_refused(plain: Path, tmp_path: Path) -> None:
    with (
        making((tmp_path / "out").absolute()),
        pytest.raises(NNDError, match="out: another command is making this set; run this one again"),
    ):
        build(plain, tmp_path / "out", errors="truncation")
    assert build(plain, tmp_path / "out", errors="truncation").summary.tests
    assert not list(tmp_path.glob(".*"))


def test_each_gold_text_is_scored_once(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NND_HOME", str(tmp_path))
    result = build_stress_set("blindspot_ted", "ted", place=data / "blindspot", texts=2)
    rows = nnd_tasks.load("blindspot_ted")
    from nnd_tasks.harness.documents import cluster_documents

    documents = cluster_documents(rows, "x")
    assert len(documents) == 2
    for document in documents:
        assert len(set(document["candidates"])) == len(document["candidates"])
        assert {test["high"] for test in document["tests"]} == {0}
    assert result.summary.tests == sum(len(document["tests"]) for document in documents)
