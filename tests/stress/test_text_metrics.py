"""Text metrics as adapters: their values by definition, and their verdicts on real summaries."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from nnd_tasks.analysis.text_metrics import METRICS, _features, bartscore, find_metric, split_metrics
from nnd_tasks.errors import NNDError
from nnd_tasks.stress.corpora import read_corpus
from nnd_tasks.stress.metric_scores import report_metric
from nnd_tasks.stress.stress_set import build_stress_set

HYPOTHESES = ["the cat sat on the mat", "a dog"]
REFERENCES = [["the cat sat on the mat", "there is a cat"], ["a dog ran far", "the dog"]]


def score(name: str, model: str = "") -> Any:
    """Score `HYPOTHESES` with a metric, found by name."""
    metric: Any = find_metric(name, model)
    return metric(HYPOTHESES, ["", ""], REFERENCES)


def test_rouge_and_bleu_by_their_definitions() -> None:
    assert METRICS["rouge2"](HYPOTHESES, ["", ""], REFERENCES) == pytest.approx([1.0, 2 * 1 * (1 / 3) / (1 + 1 / 3)])
    assert METRICS["rouge1"](HYPOTHESES, ["", ""], REFERENCES) == pytest.approx([1.0, 2 * 1 * 0.5 / 1.5])
    assert METRICS["bleu"](HYPOTHESES, ["", ""], REFERENCES)[0] == pytest.approx(100.0)
    assert METRICS["chrf"](HYPOTHESES, ["", ""], REFERENCES)[0] == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("bleu", "sacrebleu", "metric bleu needs sacrebleu: pip install sacrebleu"),
        ("rouge2", "rouge_score.rouge_scorer", "metric rouge2 needs rouge-score: pip install rouge-score"),
        ("meteor", "nltk.translate.meteor_score", "metric meteor needs nltk: pip install nltk"),
        ("bertscore", "bert_score", "metric bertscore needs bert-score: pip install bert-score"),
        ("mauve", "mauve", "metric mauve needs mauve-text: pip install mauve-text"),
    ],
)
def test_what_is_not_installed_says_how_to_get_it(
    name: str, module: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NNDError, match=message):
        score(name, "a-model")


def test_bertscore_matches_tokens_greedily_by_cosine(masked_model: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(masked_model), AutoModel.from_pretrained(masked_model).eval()

    def states(text: str) -> Any:
        with torch.no_grad():
            found = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        return found / found.norm(dim=-1, keepdim=True)

    def own(text: str, ref: str) -> float:
        # [CLS] and [SEP] can be matched, and weigh nothing.
        similar = states(text) @ states(ref).T
        precision, recall = similar.max(1).values[1:-1].mean(), similar.max(0).values[1:-1].mean()
        return float(2 * precision * recall / (precision + recall))

    expected = [max(own(text, ref) for ref in refs) for text, refs in zip(HYPOTHESES, REFERENCES, strict=True)]
    assert score("bertscore", str(masked_model)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["bertscore", "mauve"])
def test_an_encoder_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(NNDError, match=f"metric {name}: .*nothing"):
        score(name, str(tmp_path / "nothing"))


def test_mauve_reads_the_last_token_whatever_else_is_in_the_batch(models: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = models / "tiny-lm-xs"
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).float().eval()
    texts = ["A cat.", "", "The dog went to the house of the cat, and it was late.", "Rain"]
    found = _features(texts, tokenizer, model, {})
    for text, row in zip(texts, found, strict=True):
        with torch.no_grad():
            own = model(torch.tensor([tokenizer.encode(text) or [tokenizer.eos_token_id]])).last_hidden_state[0, -1]
        assert torch.allclose(torch.from_numpy(row), own, atol=1e-4)


@pytest.mark.slow
@pytest.mark.complete
def test_mauve_scores_sets_and_falls_when_all_ends_are_random(data: Path, models: Path, tmp_path: Path) -> None:
    place = data / "blindspot"
    built = build_stress_set(
        "blindspot_wikitext",
        "wikitext",
        place=place,
        out=tmp_path / "blindspot_wikitext",
        errors="positioned_error_random,article_removal",
        texts=150,
    )
    metric = find_metric("mauve", str(models / "tiny-lm-xs"))
    report = report_metric("mauve", metric, built.folder, read_corpus("wikitext", place))
    levels = report.tables[0].data.set_index("error")
    changes = levels.loc["positioned_error_random"].set_index("level")["change"]
    assert 0 < levels.loc["article_removal", "gold"].iloc[0] <= 1
    assert changes["end"] < -0.3, "the features are those of the last token"
    assert changes["end"] < min(changes["start"], changes["middle"]), "as in the paper's Table 2"
    texts = tmp_path / "texts.txt"
    texts.write_text("One text that is here.\nAnother text there.\n")
    mine = build_stress_set("mine", str(texts), out=tmp_path / "mine", errors="truncation")
    with pytest.raises(
        NNDError, match=r"metric mauve needs references, which corpus texts.txt does not have: .*_reference.txt"
    ):
        report_metric("mauve", metric, mine.folder, read_corpus(str(texts)))


def test_meteor_without_wordnet_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk.translate.meteor_score as module

    def absent(*_: Any, **__: Any) -> float:
        raise LookupError("wordnet")

    monkeypatch.setattr(module, "meteor_score", absent)
    with pytest.raises(NNDError, match=r"needs the data of WordNet: python -m nltk\.downloader wordnet"):
        METRICS["meteor"](HYPOTHESES, ["", ""], REFERENCES)


def test_bartscore_is_the_mean_log_likelihood_in_its_direction(tiny_models: dict[str, Path]) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    metric = find_metric("bartscore_f", str(tiny_models["t5"]))
    lm = metric.args[1]  # type: ignore[attr-defined]
    tokenizer = AutoTokenizer.from_pretrained(tiny_models["t5"])
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_models["t5"]).eval()

    def own(source: str, target: str) -> float:
        labels = tokenizer.encode(target, add_special_tokens=False, return_tensors="pt")
        with torch.no_grad():
            logits = model(input_ids=tokenizer.encode(source, return_tensors="pt"), labels=labels).logits[0]
        return float(torch.log_softmax(logits, -1).gather(1, labels[0][:, None]).mean())

    sources = ["A cat sat.", "Dogs."]
    p = [sum(own(ref, text) for ref in refs) / 2 for text, refs in zip(HYPOTHESES, REFERENCES, strict=True)]
    r = [sum(own(text, ref) for ref in refs) / 2 for text, refs in zip(HYPOTHESES, REFERENCES, strict=True)]
    faithful = [own(source, text) for source, text in zip(sources, HYPOTHESES, strict=True)]
    call: Any = partial(bartscore, lm=lm, hypotheses=HYPOTHESES, sources=sources, references=REFERENCES)
    assert call("p") == pytest.approx(p, abs=1e-4)
    assert call("r") == pytest.approx(r, abs=1e-4)
    assert call("f") == pytest.approx([(a + b) / 2 for a, b in zip(p, r, strict=True)], abs=1e-4)
    assert call("faithful") == pytest.approx(faithful, abs=1e-4)


def test_metrics_are_named_with_their_models() -> None:
    bart = dict.fromkeys(("bartscore_p", "bartscore_r", "bartscore_f", "bartscore_faithful"), "b=c")
    assert split_metrics("rouge2, bertscore=a/b,bartscore=b=c,") == {"rouge2": "", "bertscore": "a/b", **bart}
    with pytest.raises(NNDError, match="--metrics: empty"):
        split_metrics(" , ")


def test_rouge_on_the_papers_summaries_does_not_see_punctuation(data: Path, tmp_path: Path) -> None:
    place = data / "blindspot"
    built = build_stress_set(
        "blindspot_cnndm",
        "cnndm",
        place=place,
        out=tmp_path / "blindspot_cnndm",
        errors="truncation,noised_punctuation,token_drop",
        levels="paper",
        texts=0,
    )
    report = report_metric("rouge2", METRICS["rouge2"], built.folder, read_corpus("cnndm", place))
    levels = report.tables[0].data.set_index("error")
    flat = levels.loc["noised_punctuation"]
    assert flat["score"].tolist() == pytest.approx(flat["gold"].tolist(), abs=1e-9)
    assert set(flat["outcome"]) == {"fail"}, "rouge-score drops punctuation, so nothing falls"
    assert levels.loc["token_drop", "step_high"].iloc[-1] < 0
    assert 0.05 < flat["gold"].iloc[0] < 0.4


def test_wrong_arguments_are_named(data: Path, tmp_path: Path, tiny_models: dict[str, Path]) -> None:
    with pytest.raises(NNDError, match="there is no metric 'rogue'; there are: bleu, "):
        find_metric("rogue")
    with pytest.raises(NNDError, match="metric bartscore_p needs a model: --metrics bartscore_p=FOLDER"):
        find_metric("bartscore_p")
    with pytest.raises(NNDError, match="metric bartscore: /no/such/folder cannot be used"):
        find_metric("bartscore_p", "/no/such/folder")
    texts = tmp_path / "texts.txt"
    texts.write_text("One text that is here.\nAnother text there.\n")
    built = build_stress_set("mine", str(texts), out=tmp_path / "mine", errors="truncation")
    with pytest.raises(NNDError, match=r"metric bleu needs references, which corpus texts\.txt does not have"):
        report_metric("bleu", METRICS["bleu"], built.folder, read_corpus(str(texts)))
    with pytest.raises(NNDError, match="2 of its texts are not in corpus cnndm"):
        report_metric("bleu", METRICS["bleu"], built.folder, read_corpus("cnndm", data / "blindspot"))
