"""Attacks: errors that a model prefers, and whom else they fool."""

import shutil

import pytest
import spacy

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_yaml
from nnd_tasks.store import read_table
from nnd_tasks.studies.stress.attack import LEAST, build_attack_set, propose_edits, propose_errors, search
from nnd_tasks.studies.stress.corpora import Gold
from nnd_tasks.studies.stress.edits import Edit, Parser
from nnd_tasks.studies.stress.error_types import ERRORS
from nnd_tasks.studies.stress.stress_set import PROMPT, compute_noise
from tests.random_models import evaluate
from tests.sets.tables import write_rows
from tests.studies.pipeline import TEXTS

PARSER = Parser(spacy.blank("en"))


# ---------------------------------------------------------------- the search


def run(changes, scores):
    unscored = dict(scores)

    def score(pairs):
        return [unscored.pop(text) for _, text in pairs]  # no text is scored twice

    def propose(text, _):
        return {new: f"to {new}" for new in changes.get(text, ())}

    return search(Gold("a b c d"), "", propose, score)


def test_the_smallest_of_the_changes_that_score_higher_is_taken():
    scores = {"a b c d": -2, "x b c d": -3, "x y c d": -1, "a b c z": -1.5}
    found = run({"a b c d": [*scores][1:]}, scores)
    assert (found["text"], found["steps"], found["noise"]) == ("a b c z", ["to a b c z"], 0.25)
    assert found["gain"] == pytest.approx(0.5)


def test_the_search_goes_on_from_the_best_change():
    changes = {"a b c d": ["x b c d", "a y c d"], "a y c d": ["a b c d", "a y z d"], "x b c d": ["x b c q"]}
    scores = {"a b c d": -2, "x b c d": -4, "a y c d": -3, "a y z d": -1, "x b c q": 0}
    assert run(changes, scores)["steps"] == ["to a y c d", "to a y z d"]
    assert "text" not in run(changes, {**scores, "a y z d": -2 + LEAST / 2}), "it scores no higher"


def test_words_are_changed_so_that_the_text_is_worse():
    text = "A dog is in the old house of 12 men."
    plain = set(propose_edits(PARSER, None)(text, ()))
    assert plain >= {
        "An dog is in the old house of 12 men.",
        "Dog is in the old house of 12 men.",
        "A dog are in the old house of 12 men.",
        "A dog is the old house of 12 men.",
    }
    assert all(word in new for new in plain for word in ("old", "house", "12", "men")), "content words stay"
    assert not set(propose_edits(PARSER, None)("He went out about noon.", ())), "these may go unnoticed"
    assert set(propose_edits(PARSER, {"house": ["garden"], "old": ["new"]})(text, ())) >= {
        *plain,
        "A dog is in the old garden of 12 men.",
        "A dog is in the new house of 12 men.",
        "A dog is in the old house of 13 men.",
        "A dog is in the old house of 11 men.",
        "A dog is at the old house of 12 men.",
    }
    text = "I know what I said, and I left. I slept."
    pronouns = {new for new, what in propose_edits(PARSER, {})(text, ()).items() if what == "i → he"}
    assert pronouns == {
        "He know what I said, and I left. I slept.",
        "I know what he said, and I left. I slept.",
        "I know what I said, and he left. I slept.",
        "I know what I said, and I left. He slept.",
    }


def test_an_error_type_is_used_once_and_makes_one_error():
    types = [ERRORS["article_removal"], ERRORS["local_swap"]]
    propose = propose_errors(types, Edit(PARSER))
    text = "The dog saw a cat in the house."
    options = propose(text, ())
    removed = {new for new, name in options.items() if name == "article_removal"}
    assert removed == {"dog saw a cat in the house.", "The dog saw cat in the house.", "The dog saw a cat in house."}
    assert set(propose(text, ("article_removal",)).values()) == {"local_swap"}
    assert all(compute_noise(text, new) <= 3 / 8 for new in options)


# ---------------------------------------------------------------- the set


def test_every_found_text_fools_the_model(nnd, tiny_models, corpus, nnd_home):
    folders = [tiny_models["gpt2"], tiny_models["llama"]]
    done = nnd("stress", "attack", "found", "--models", ",".join(map(str, folders)), "--corpus", corpus, "--texts", 2)
    assert done.status == 0, done.err
    assert "run it: nnd run" in done.out
    folder = nnd_home / "nnd" / "found"
    rows = read_table(folder, "stress").to_pylist()
    assert {(row["category"], row["subcategory"]) for row in rows} >= {("gpt2", "errors"), ("gpt2", "edits")}
    for model in folders:
        results = evaluate(model, ["nnd_found"])["results"]["nnd_found"]
        assert results[f"pass_rate_{model.name},none"] == 0


def test_sources_are_read_and_texts_beyond_the_window_are_counted(tiny_models, tmp_path, nnd_home):
    rows = [{"gold": TEXTS[0], "source": source} for source in ("Quelle.", "Source.")]
    rows.append({"gold": TEXTS[1], "source": "word " * 4000})
    path = write_rows(tmp_path / "pairs.jsonl", rows)
    result = build_attack_set("found", [str(tiny_models["gpt2"])], str(path))
    attack = result.report["attacks"][1]
    assert (attack["search"], attack["texts"], attack["too_long"], attack["found"]) == ("edits", 2, 1, 2)
    found = read_table(result.folder).to_pylist()
    assert {row["context"] for row in found} == {"Quelle.", "Source."}, "one text of two sources is two"
    assert read_yaml(result.task.path)["doc_to_text"] == PROMPT
    results = evaluate(tiny_models["gpt2"], ["nnd_found"])["results"]["nnd_found"]
    assert results["pass_rate,none"] == 0


def test_a_set_of_another_search_or_model_is_not_replaced(tiny_models, corpus, nnd_home, tmp_path):
    model = shutil.copytree(tiny_models["gpt2"], tmp_path / "gpt2")
    arguments = {"errors": "article_removal"}
    build_attack_set("found", [str(model)], str(corpus), **arguments)
    with pytest.raises(NNDError, match="none of them changes a part of a text"):
        build_attack_set("found", [str(model)], str(corpus), errors="injection")
    (model / "config.json").write_text((model / "config.json").read_text("utf-8") + "\n", "utf-8")
    with pytest.raises(NNDError, match="seeds, models or tools"):  # one trained further has other errors
        build_attack_set("found", [str(model)], str(corpus), **arguments)
