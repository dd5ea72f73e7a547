"""Each candidate also without its context: scores against the model itself, rates against slow counting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import nnd_tasks
from nnd_tasks.analysis.diagnostics import diagnostics_of
from nnd_tasks.analysis.results import read_results
from nnd_tasks.errors import NNDError
from nnd_tasks.harness import metrics
from nnd_tasks.runner.run import run_lm_eval


def evaluate(model: Path, **settings: Any) -> Any:
    return nnd_tasks.evaluate(
        settings.pop("task", "nnd_demo"),
        model_args={"pretrained": str(model), "dtype": "float32"},
        metadata=settings,
        device="cpu",
        limit=6,
    )


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_the_rates_with_context_stay_and_the_others_are_the_models_own(
    kind: str, home: Path, tiny_models: dict[str, Path]
) -> None:
    plain = evaluate(tiny_models[kind])
    found = evaluate(tiny_models[kind], context_reliance=True)
    for name, value in plain["results"]["nnd_demo"].items():
        assert found["results"]["nnd_demo"][name] == value, name
    from lm_eval.utils import apply_template
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_models[kind])
    auto = AutoModelForCausalLM if kind == "gpt2" else AutoModelForSeq2SeqLM
    model = auto.from_pretrained(tiny_models[kind]).float().eval()
    template = nnd_demo_prompt()
    sample = found["samples"]["nnd_demo"][2]
    prompt = apply_template(template, {**sample["doc"], "context": ""})
    assert sample["doc"]["context"] not in prompt
    for text, with_context, alone in zip(
        sample["doc"]["candidates"], sample["candidates"], sample["no_context"], strict=True
    ):
        target = f" {text}"
        if kind == "gpt2":
            ids, start = tokenizer.encode(prompt + target), len(tokenizer.encode(prompt))
            with torch.no_grad():
                logits = torch.log_softmax(model(torch.tensor([ids])).logits[0], -1)
            total = sum(float(logits[i - 1, ids[i]]) for i in range(start, len(ids)))
            count = len(ids) - start
        else:
            labels = tokenizer.encode(target, add_special_tokens=False, return_tensors="pt")
            inputs = tokenizer.encode(prompt, return_tensors="pt")
            with torch.no_grad():
                logits = torch.log_softmax(model(input_ids=inputs, labels=labels).logits[0], -1)
            total = float(logits.gather(1, labels[0][:, None]).sum())
            count = labels.shape[1]
        assert alone["sum"] == pytest.approx(total, rel=1e-4)
        assert alone["tokens"] == count
        assert alone["sum"] != with_context["sum"]


def nnd_demo_prompt() -> str:
    """Return the prompt template of the demo's task."""
    from lm_eval.tasks import TaskManager

    from nnd_tasks.runner.register import include_paths

    manager = TaskManager(include_defaults=False, include_path=[str(path) for path in include_paths()])
    config = manager.load(["nnd_demo"])["tasks"]["nnd_demo"].config
    return str(config.doc_to_text)


def test_the_rates_are_counted_by_their_definition(home: Path, tiny_models: dict[str, Path]) -> None:
    found = evaluate(tiny_models["gpt2"], context_reliance=True)
    results = found["results"]["nnd_demo"]
    for category in (None, "disfluent", "off_target", "unfaithful"):
        pmi, passes, survivors = [], 0, 0
        for sample in found["samples"]["nnd_demo"]:
            for test in sample["tests"]:
                if category not in (None, test["category"]):
                    continue
                high, low = (sample["candidates"][test[side]]["mean"] for side in ("high", "low"))
                bare_high, bare_low = (sample["no_context"][test[side]]["mean"] for side in ("high", "low"))
                pmi.append(high - bare_high > low - bare_low)
                if high > low:
                    passes += 1
                    survivors += bare_high > bare_low
        suffix = f"_{category}" if category else ""
        assert results[f"pass_rate_pmi{suffix},none"] == pytest.approx(sum(pmi) / len(pmi))
        assert results[f"survival{suffix},none"] == pytest.approx(survivors / passes)
    assert results["no_context,none"] == results["candidates,none"]


def test_a_prompt_without_context_is_refused(tmp_path: Path, home: Path, tiny_models: dict[str, Path]) -> None:
    from nnd_tasks.datasets import tasks_dir

    (tmp_path / "mine.yaml").write_text(
        f'include: {tasks_dir() / "demo" / "_base"}\ntask: mine\ndoc_to_text: "Question:"\n'
    )
    with pytest.raises(NNDError, match="task mine: context_reliance compares prompts with and without their context"):
        nnd_tasks.evaluate(
            "mine",
            model_args={"pretrained": str(tiny_models["gpt2"])},
            metadata={"context_reliance": True},
            include_path=tmp_path,
            device="cpu",
            limit=2,
        )


def test_the_reading_aid_shows_it(home: Path, tiny_models: dict[str, Path], tmp_path: Path) -> None:
    run_lm_eval(
        [
            *(
                "--model",
                "hf",
                "--model_args",
                f"pretrained={tiny_models['gpt2']},dtype=float32",
                "--tasks",
                "nnd_demo",
            ),
            *("--limit", "5", "--device", "cpu", "--output_path", str(tmp_path), "--log_samples"),
            *("--metadata", '{"context_reliance": true}'),
        ]
    )
    import json

    results = json.loads(next(tmp_path.rglob("results_*.json")).read_text())["results"]["nnd_demo"]
    [run] = read_results([tmp_path])
    diagnostics = diagnostics_of(run).set_index("category")
    assert diagnostics.loc["all", "pmi"] == pytest.approx(results["pass_rate_pmi,none"])
    assert diagnostics.loc["all", "survives"] == pytest.approx(results["survival,none"])
    assert diagnostics.loc["disfluent", "pmi"] == pytest.approx(results["pass_rate_pmi_disfluent,none"])


def test_an_unscored_candidate_counts_in_neither_rate() -> None:
    tests = [
        {"test_id": str(i), "category": "c", "severity": "", "high_first": True, "high": 0, "low": low}
        for i, low in enumerate((1, 2))
    ]
    scores = [metrics.Score(-1.0, 1, 1), metrics.Score(-2.0, 1, 1), None]
    found = metrics.score_document(tests, scores, metrics.Breakdown.of(tests), without_context=scores)
    assert found["pass_rate_pmi"] == (0, 1), "equal gains are a tie, which fails"
    assert found["survival"] == found["survival_c"] == (1, 1)
