"""The search for errors that a model prefers, the set that is built of them, and whom else they fool."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import spacy
import torch
import yaml
from typer.testing import CliRunner

from nnd_tasks.cli import app
from nnd_tasks.datasets import read_report, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.stress import attack_set
from nnd_tasks.stress.attack import LEAST, keep_edits, propose_edits, propose_errors, search
from nnd_tasks.stress.attack_set import build_attack_set
from nnd_tasks.stress.corpora import Gold
from nnd_tasks.stress.error_types import ERRORS
from nnd_tasks.stress.set_writing import PROMPT, compute_noise
from nnd_tasks.stress.text import Edit, Parser
from tests.random_models import evaluate

TEXTS = [
    "Anna went to the office in Boston. She was late, and the staff left.",
    "A song is a song. The house can wait! Nobody knows.",
]


@pytest.fixture(scope="module")
def parser() -> Parser:
    return Parser(spacy.blank("en"))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "mine.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


# ---------------------------------------------------------------- the search


def proposing(changes: Mapping[str, Sequence[str]]) -> Any:
    return lambda text, trail: {new: f"to {new}" for new in changes.get(text, ())}


def run(changes: Mapping[str, Sequence[str]], scores: Mapping[str, float], steps: int = 3) -> Any:
    asked: list[str] = []

    def score(pairs: Sequence[tuple[str, str]]) -> list[float]:
        asked.extend(text for _, text in pairs)
        return [scores[text] for _, text in pairs]

    found = search(Gold("a b c d"), "", proposing(changes), score, steps)
    assert len(asked) == len(set(asked)), "no text is scored twice"
    return found


def test_the_smallest_of_the_changes_that_score_higher_is_taken() -> None:
    found = run(
        {"a b c d": ["x b c d", "x y c d", "a b c z"]}, {"a b c d": -2, "x b c d": -3, "x y c d": -1, "a b c z": -1.5}
    )
    assert (found["text"], found["steps"], found["noise"]) == ("a b c z", ("to a b c z",), 0.25)
    assert found["gain"] == pytest.approx(0.5)


def test_the_search_goes_on_from_the_best_change() -> None:
    changes = {"a b c d": ["x b c d", "a y c d"], "a y c d": ["a b c d", "a y z d"], "x b c d": ["x b c q"]}
    scores = {"a b c d": -2, "x b c d": -4, "a y c d": -3, "a y z d": -1, "x b c q": 0}
    assert run(changes, scores)["steps"] == ("to a y c d", "to a y z d")
    assert "text" not in run(changes, scores, steps=1)


@pytest.mark.parametrize("gain", [0.0, LEAST / 2, -1.0])
def test_what_scores_no_higher_is_no_error_that_a_model_prefers(gain: float) -> None:
    assert "text" not in run({"a b c d": ["x b c d"]}, {"a b c d": -2.0, "x b c d": -2.0 + gain})


def test_words_are_changed_so_that_the_text_is_worse(parser: Parser) -> None:
    texts = set(propose_edits(parser, None)("A dog is in the old house of 12 men.", ()))
    assert texts >= {
        "An dog is in the old house of 12 men.",
        "Dog is in the old house of 12 men.",
        "A dog are in the old house of 12 men.",
        "A dog is the old house of 12 men.",
    }
    kept = ("old", "house", "12", "men")
    assert all(word in text for text in texts for word in kept), "without a source, content words stay"
    assert not set(propose_edits(parser, None)("He went out about noon.", ())), "these may go unnoticed"
    near = {"house": ["garden"], "old": ["new"]}
    more = set(propose_edits(parser, near)("A dog is in the old house of 12 men.", ()))
    assert more > texts
    assert {
        "A dog is in the old garden of 12 men.",
        "A dog is in the new house of 12 men.",
        "A dog is in the old house of 13 men.",
        "A dog is in the old house of 11 men.",
        "A dog is at the old house of 12 men.",
    } <= more
    text = "I know what I said, and I left. I slept."
    pronouns = {new for new, what in propose_edits(parser, {})(text, ()).items() if what == "i → he"}
    assert pronouns == {
        "He know what I said, and I left. I slept.",
        "I know what he said, and I left. I slept.",
        "I know what I said, and he left. I slept.",
        "I know what I said, and I left. He slept.",
    }


def test_an_error_type_is_used_once_and_makes_one_error(parser: Parser) -> None:
    named = [ERRORS[name] for name in ("article_removal", "local_swap", "injection", "token_drop")]
    types = keep_edits(named, named=False)
    assert [kind.name for kind in types] == ["article_removal", "local_swap"]
    assert [kind.name for kind in keep_edits(named[2:], named=True)] == ["token_drop"]
    propose = propose_errors(types, Edit(parser))
    text = "The dog saw a cat in the house."
    options = propose(text, ())
    removed = {new for new, name in options.items() if name == "article_removal"}
    assert removed == {"dog saw a cat in the house.", "The dog saw cat in the house.", "The dog saw a cat in house."}
    assert set(propose(text, ("article_removal",)).values()) == {"local_swap"}
    assert all(compute_noise(text, new) <= 3 / 8 for new in options)


# ---------------------------------------------------------------- the set


def mean(folder: Path, text: str) -> float:
    """Return the mean log-likelihood per token of a text after the end-of-text token, straight from the model."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModelForCausalLM.from_pretrained(folder).float().eval(),
    )
    first = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    ids = torch.tensor([[first, *tokenizer.encode(text, add_special_tokens=False)]])
    with torch.no_grad():
        logprobs = model(ids).logits[0, :-1].log_softmax(-1)
    return float(logprobs.gather(1, ids[0, 1:, None]).mean())


def test_every_found_text_fools_the_model(tiny_models: dict[str, Path], corpus: Path, nnd_home: Path) -> None:
    folders = [tiny_models["gpt2"], tiny_models["llama"]]
    result = build_attack_set("found", [str(folder) for folder in folders], str(corpus))
    rows = read_table(result.folder, "stress").to_pylist()
    assert {(row["category"], row["subcategory"]) for row in rows} >= {("gpt2", "errors"), ("gpt2", "edits")}
    for row in rows:
        high, low = (mean(tiny_models[row["category"]], row[side]) for side in ("high", "low"))
        assert low > high + LEAST / 2, row["low"]
        assert row["noise_ratio"] == compute_noise(row["high"], row["low"])
    for folder in folders:
        results = evaluate(folder, ["nnd_found"])["results"]["nnd_found"]
        assert results[f"pass_rate_{folder.name},none"] == 0
    report = read_report(result.folder)["stress"]
    assert sum(attack["found"] for attack in report["attacks"]) == len(rows)


def test_sources_are_read_and_texts_beyond_the_window_are_counted(
    tiny_models: dict[str, Path], tmp_path: Path, nnd_home: Path
) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [{"gold": TEXTS[0], "source": "Quelle."}, {"gold": TEXTS[1], "source": "word " * 4000}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    result = build_attack_set("found", [str(tiny_models["gpt2"])], str(path))
    attack = result.report["attacks"][1]
    assert (attack["search"], attack["texts"], attack["too_long"], attack["found"]) == ("edits", 1, 1, 1)
    assert yaml.safe_load(result.task.path.read_text(encoding="utf-8"))["doc_to_text"] == PROMPT
    results = evaluate(tiny_models["gpt2"], ["nnd_found"])["results"]["nnd_found"]
    assert results["pass_rate,none"] == 0


def test_one_text_of_two_sources_is_two_texts(
    tiny_models: dict[str, Path], tmp_path: Path, nnd_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [{"gold": "Yes, of course.", "source": source} for source in ("Ja.", "Oui.")]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def found(gold: Gold, context: str, *_: Any) -> dict[str, Any]:
        assert context == f"{gold.source}\n\n"
        return {"too_long": False, "text": f"Yes, {gold.source}", "steps": ("x",), "gain": 1.0, "noise": 0.5}

    monkeypatch.setattr(attack_set, "search", found)
    result = build_attack_set("found", [str(tiny_models["gpt2"])], str(path))
    tests = read_table(result.folder, "stress").to_pylist()
    assert {(test["context"], test["low"]) for test in tests} == {("Ja.", "Yes, Ja."), ("Oui.", "Yes, Oui.")}
    assert [attack["found"] for attack in result.report["attacks"]] == [2, 2]


def test_a_set_of_another_search_or_model_is_not_replaced(
    tiny_models: dict[str, Path], corpus: Path, nnd_home: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(tiny_models["gpt2"], tmp_path / "gpt2")
    arguments: Any = {"errors": "article_removal"}
    build_attack_set("found", [str(model)], str(corpus), **arguments)
    with pytest.raises(NNDError, match="other texts, errors, levels"):
        build_attack_set("found", [str(model)], str(corpus), errors="local_swap")
    (model / "config.json").write_text((model / "config.json").read_text("utf-8") + "\n", "utf-8")
    with pytest.raises(NNDError, match="seeds, models or tools"):  # one trained further has other errors
        build_attack_set("found", [str(model)], str(corpus), **arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--errors", "injection"], "none of them changes a part of a text"),
        (["--models", "MODEL,MODEL"], "a model is named twice"),
        (["--models", "./nothing"], "./nothing: there is no such model"),
    ],
)
def test_a_mistake_is_one_line(
    options: list[str], message: str, corpus: Path, nnd_home: Path, tiny_models: dict[str, Path]
) -> None:
    options = [option.replace("MODEL", str(tiny_models["gpt2"])) for option in options]
    models = [] if "--models" in options else ["--models", str(tiny_models["gpt2"])]
    done = CliRunner().invoke(app, ["stress", "attack", "found", "--corpus", str(corpus), *models, *options])
    assert isinstance(done.exception, NNDError)
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not (nnd_home / "nnd" / "found").exists()


def test_the_command_prints_what_was_found(tiny_models: dict[str, Path], corpus: Path, nnd_home: Path) -> None:
    command = ["stress", "attack", "found", "--models", str(tiny_models["gpt2"]), "--corpus", str(corpus)]
    done = CliRunner().invoke(app, [*command, "--errors", "article_removal"])
    assert done.exit_code == 0, done.exception
    assert "edits" in done.stdout
    assert "score it: nnd run" in done.stdout
