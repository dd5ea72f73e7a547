"""The values of text metrics by definition, and their verdicts on real summaries."""

import sys

import pytest
import torch

from nnd_tasks.errors import NNDError
from nnd_tasks.studies.stress.corpora import read_corpus
from nnd_tasks.studies.stress.stress_report import report_metric
from nnd_tasks.studies.stress.stress_set import build_stress_set
from nnd_tasks.studies.text_metrics import METRICS, load_metrics

HYPOTHESES = ["the cat sat on the mat", "a dog"]
REFERENCES = [["the cat sat on the mat", "there is a cat"], ["a dog ran far", "the dog"]]


def score(name, model="", sources=("", "")):
    """Score `HYPOTHESES` with a metric, found by name."""
    metric = load_metrics(f"{name}={model}")[name]
    return metric(HYPOTHESES, sources, REFERENCES)


def test_rouge_and_bleu_by_their_definitions():
    assert score("rouge2") == pytest.approx([1, 2 * 1 * (1 / 3) / (1 + 1 / 3)])
    assert score("rouge1") == pytest.approx([1, 2 * 1 * 0.5 / 1.5])
    assert score("bleu")[0] == pytest.approx(100)
    assert score("chrf")[0] == pytest.approx(100)


@pytest.mark.parametrize(("name", "module"), [("rouge2", "rouge_score.rouge_scorer"), ("bertscore", "bert_score")])
def test_what_is_not_installed_says_how_to_get_it(name, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NNDError, match=f"metric {name} needs the extra metrics of nnd-tasks"):
        score(name, "a-model")


def test_bertscore_matches_tokens_greedily_by_cosine(masked_model):
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(masked_model), AutoModel.from_pretrained(masked_model).eval()

    def states(text):
        with torch.no_grad():
            found = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        return found / found.norm(dim=-1, keepdim=True)

    def own(text, ref):
        # [CLS] and [SEP] can be matched, and weigh nothing.
        similar = states(text) @ states(ref).T
        precision, recall = similar.max(1).values[1:-1].mean(), similar.max(0).values[1:-1].mean()
        return float(2 * precision * recall / (precision + recall))

    expected = [max(own(text, ref) for ref in refs) for text, refs in zip(HYPOTHESES, REFERENCES, strict=True)]
    assert score("bertscore", masked_model) == pytest.approx(expected, abs=1e-4)


def test_bartscore_is_the_mean_log_likelihood_of_a_text_given_its_source(tiny_models):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_models["t5"])
    model = AutoModelForSeq2SeqLM.from_pretrained(tiny_models["t5"]).eval()

    def own(source, target):
        labels = tokenizer.encode(target, add_special_tokens=False, return_tensors="pt")
        with torch.no_grad():
            return -float(model(input_ids=tokenizer.encode(source, return_tensors="pt"), labels=labels).loss)

    sources = ["A cat sat.", "Dogs."]
    expected = [own(source, text) for source, text in zip(sources, HYPOTHESES, strict=True)]
    assert score("bartscore", tiny_models["t5"], sources) == pytest.approx(expected, abs=1e-4)


def test_metrics_are_named_with_their_models(tiny_models):
    assert [*load_metrics(f"rouge2, bartscore={tiny_models['t5']},bleu")] == ["rouge2", "bartscore", "bleu"]
    with pytest.raises(NNDError, match="there is no metric ''"):
        load_metrics("")
    with pytest.raises(NNDError, match="metric bartscore needs a model: --metrics bartscore=FOLDER"):
        load_metrics("bartscore")
    with pytest.raises(NNDError, match=r"metric bertscore: .*such"):
        score("bertscore", "/no/such/folder")


def test_a_corpus_that_does_not_fit_is_named(data, corpus, tmp_path):
    built = build_stress_set("mine", str(corpus), out=tmp_path / "mine", errors="truncation")
    with pytest.raises(NNDError, match=r"metric bleu needs references, which corpus mine\.txt does not have"):
        report_metric("bleu", METRICS["bleu"], built.folder, read_corpus(str(corpus)))
    with pytest.raises(NNDError, match="3 of its texts are not in corpus cnndm"):
        report_metric("bleu", METRICS["bleu"], built.folder, read_corpus("cnndm", data / "blindspot"))
