"""A model's own texts: texts and scores of tiny models, the table, and mistakes of users."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ttest_1samp
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from nnd_tasks.errors import NNDError
from nnd_tasks.studies.stress import scorers
from nnd_tasks.studies.stress.scorers import draw_prompts, report_own_texts, score_own_texts
from tests.sets.tables import write_rows

TEXTS = [
    f"The river {verb} in January, and the barges waited at the lock." for verb in ("froze", "rose", "fell", "ran")
]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture
def models(tiny_models):
    return [str(tiny_models["gpt2"]), str(tiny_models["llama"])]


def mean_likelihood(folder, context, text):
    """Return the mean log-likelihood per token of a text after a context."""
    tokenizer, model = (kind.from_pretrained(folder) for kind in (AutoTokenizer, AutoModelForCausalLM))
    before, whole = (tokenizer(part, return_tensors="pt")["input_ids"] for part in (context, context + text))
    labels = whole.clone()
    labels[:, : before.shape[1]] = -100  # they do not count
    with torch.inference_mode():
        return -float(model(whole, labels=labels).loss)


def test_scores_are_those_of_the_models(nnd, models, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(scorers, "PIECE", 2)
    monkeypatch.setitem(scorers._SAMPLING, "max_gen_toks", 8)
    words = ("stress", "self", "--models", ",".join(models), "--corpus", corpus, "--words", 5)
    done = nnd(*words, "--out", tmp_path / "out")
    assert done.status == 0, done.err
    assert "| scorer | gpt2 | llama |" in done.out
    report = json.loads((tmp_path / "out" / "self.json").read_text())

    prompt, text = report["texts"][3]["prompt"], report["texts"][3]["llama"]
    assert prompt == "The river ran in January,"
    expected = mean_likelihood(models[0], prompt, text)
    assert report["scores"]["gpt2"][3][1] == pytest.approx(expected, abs=1e-4)
    again = score_own_texts(models, str(corpus), words=5).facts
    assert again["texts"].to_dict("records") == report["texts"], "the same command gives the same texts"


def test_a_text_keeps_the_space_that_it_begins_with():
    vocabulary = {f"\u2581{word}": i for i, word in enumerate(("a", "cat", "sat"))}
    inner = Tokenizer(WordLevel(vocabulary, unk_token="\u2581a"))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    model = SimpleNamespace(backend="causal", tok_encode=tokenizer.encode, tok_decode=tokenizer.decode)
    text = model.tok_encode("cat sat", add_special_tokens=False)
    assert model.tok_decode(text) == "cat sat"
    scorers._keep_spaces(model)
    assert (model.tok_decode(text), model.tok_decode([]), model.tok_decode(1)) == (" cat sat", "", "cat")


# ---------------------------------------------------------------- the table


def test_a_planted_bias_is_in_the_table_and_what_everyone_likes_is_not():
    rng = np.random.default_rng(0)
    scores = -3 + rng.normal(size=(100, 3, 2)) * 0.3
    scores[:, :, 1] += 0.5  # everyone likes the texts of b
    scores[:, 0, 0] += 0.8  # a likes its own
    scores[7, 2, 1] = np.nan
    report = report_own_texts(["a", "b", "judge"], scores, pd.DataFrame())
    given, own_texts = (table.data for table in report.tables)
    a, b = own_texts.itertuples()
    assert (report.facts["prompts"], report.facts["left_out"]) == (99, 1)
    assert report.notes[1].startswith("Left out: 1 prompt ")
    assert (a.relative, b.relative) == pytest.approx((0.8, 0.4), abs=0.1)
    kept = np.delete(scores, 7, axis=0)
    own = kept[:, 0, 0] - kept[:, 0, 1]
    interval = ttest_1samp(own, 0).confidence_interval()
    assert (a.own, a.own_low, a.own_high) == pytest.approx((own.mean(), *interval))
    assert a.prefers == pytest.approx((own > 0).mean())
    assert given["mean"].tolist() == pytest.approx(kept.mean(axis=0).ravel().tolist())
    with pytest.raises(NNDError, match="only 1 prompt after which"):
        report_own_texts(["a", "b"], scores[:1, :2], pd.DataFrame())


# ---------------------------------------------------------------- prompts, and what users get wrong


def test_prompts_are_beginnings_of_texts_sources_or_contexts(corpus, tmp_path, home):
    mine = str(corpus)
    assert draw_prompts(mine, words=5)[1] == "The river rose in January,"
    assert draw_prompts(mine, words=0) == draw_prompts(mine, words=0, texts=0) == TEXTS
    drawn = draw_prompts(mine, words=5, texts=2)
    assert len(drawn) == 2
    assert drawn == draw_prompts(mine, words=5, texts=2)
    pairs = write_rows(tmp_path / "pairs.jsonl", ({"gold": text, "source": f"{text} Yes."} for text in TEXTS))
    assert draw_prompts(str(pairs), words=12) == TEXTS
    contexts = draw_prompts("demo", words=0)
    assert len(contexts) == len(set(contexts)) > 10
    with pytest.raises(NNDError, match="0 texts of more than 12 words"):
        draw_prompts(mine, words=12)


@pytest.mark.parametrize(
    ("judges", "text", "model_args", "message"),
    [
        (1, "", "", "a model is named twice"),
        (0, "word " * 2100, "", "only 0 prompts after which"),
        (0, "", "dtype=float99", "the model .* cannot be loaded"),
    ],
)
def test_what_cannot_be_done_is_one_error(models, corpus, judges, text, model_args, message):
    corpus.write_text("".join(f"{text}{i}.\n" for i in range(2)))
    with pytest.raises(NNDError, match=message):
        score_own_texts(models, str(corpus), words=0, judges=models[:judges], model_args=model_args)
    with pytest.raises(NNDError, match="--models: name two models or more"):
        score_own_texts(models[:1], str(corpus))
