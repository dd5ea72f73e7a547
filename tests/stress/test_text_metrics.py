"""Text metrics as adapters: their values by definition, and their verdicts on real summaries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from nnd_tasks.analysis.text_metrics import METRICS, load_metrics
from nnd_tasks.errors import NNDError
from nnd_tasks.stress.corpora import read_corpus
from nnd_tasks.stress.stress_report import report_metric
from nnd_tasks.stress.stress_set import build_stress_set

HYPOTHESES = ["the cat sat on the mat", "a dog"]
REFERENCES = [["the cat sat on the mat", "there is a cat"], ["a dog ran far", "the dog"]]


def score(name: str, model: str = "") -> Any:
    """Score `HYPOTHESES` with a metric, found by name."""
    metric: Any = find_metric(name, model)
    return metric(HYPOTHESES, ["", ""], REFERENCES)


def find_metric(name: str, model: str) -> Any:
    return load_metrics(f"{name}={model}")[name]


def test_rouge_and_bleu_by_their_definitions() -> None:
    assert METRICS["rouge2"](HYPOTHESES, ["", ""], REFERENCES) == pytest.approx([1.0, 2 * 1 * (1 / 3) / (1 + 1 / 3)])
    assert METRICS["rouge1"](HYPOTHESES, ["", ""], REFERENCES) == pytest.approx([1.0, 2 * 1 * 0.5 / 1.5])
    assert METRICS["bleu"](HYPOTHESES, ["", ""], REFERENCES)[0] == pytest.approx(100.0)
    assert METRICS["chrf"](HYPOTHESES, ["", ""], REFERENCES)[0] == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("bleu", "sacrebleu", r"metric bleu needs the extra metrics of nnd-tasks \(.*sacrebleu"),
        ("rouge2", "rouge_score.rouge_scorer", "metric rouge2 needs the extra metrics"),
        ("bertscore", "bert_score", "metric bertscore needs the extra metrics"),
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


def test_an_encoder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NNDError, match=r"metric bertscore: .*nothing"):
        score("bertscore", str(tmp_path / "nothing"))


def test_bartscore_is_the_mean_log_likelihood_of_a_text_given_its_source(tiny_models: dict[str, Path]) -> None:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_models["t5"])
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_models["t5"]).eval()

    def own(source: str, target: str) -> float:
        labels = tokenizer.encode(target, add_special_tokens=False, return_tensors="pt")
        with torch.no_grad():
            logits = model(input_ids=tokenizer.encode(source, return_tensors="pt"), labels=labels).logits[0]
        return float(torch.log_softmax(logits, -1).gather(1, labels[0][:, None]).mean())

    sources = ["A cat sat.", "Dogs."]
    expected = [own(source, text) for source, text in zip(sources, HYPOTHESES, strict=True)]
    metric = find_metric("bartscore", str(tiny_models["t5"]))
    assert metric(HYPOTHESES, sources, REFERENCES) == pytest.approx(expected, abs=1e-4)


def test_metrics_are_named_with_their_models(tiny_models: dict[str, Path]) -> None:
    assert [*load_metrics(f"rouge2, bartscore={tiny_models['t5']},bleu")] == ["rouge2", "bartscore", "bleu"]
    for text, message in (
        ("", "there is no metric ''"),
        ("rouge2,rogue", "there is no metric 'rogue'; there are: bleu, "),
        ("bartscore", "metric bartscore needs a model: --metrics bartscore=FOLDER"),
        ("bartscore=/no/such/folder", "metric bartscore: /no/such/folder cannot be used"),
    ):
        with pytest.raises(NNDError, match=message):
            load_metrics(text)


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


def test_a_corpus_that_does_not_fit_is_named(data: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("One text that is here.\nAnother text there.\n")
    built = build_stress_set("mine", str(texts), out=tmp_path / "mine", errors="truncation")
    with pytest.raises(NNDError, match=r"metric bleu needs references, which corpus texts\.txt does not have"):
        report_metric("bleu", METRICS["bleu"], built.folder, read_corpus(str(texts)))
    with pytest.raises(NNDError, match="2 of its texts are not in corpus cnndm"):
        report_metric("bleu", METRICS["bleu"], built.folder, read_corpus("cnndm", data / "blindspot"))
