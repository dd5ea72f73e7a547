"""Each candidate also without its context: scores against the model itself, rates against slow counting."""

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.rule import Likelihood
from nnd_tasks.schema import break_down
from nnd_tasks.task import metrics
from tests.random_models import evaluate
from tests.task.tasks import run_task, write_yaml
from tests.task.test_oracle import Oracle

RELIANCE = {"context_reliance": True}


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_the_rates_with_context_stay_and_the_others_are_the_models_own(kind, home, tiny_models):
    plain = run_task(tiny_models[kind], limit=6)
    rates, samples, _ = run_task(tiny_models[kind], limit=6, metadata=RELIANCE)
    assert plain.rates.items() <= rates.items()
    oracle = Oracle(tiny_models[kind])
    for sample in samples[2:4]:
        requests = sample["arguments"][len(sample["candidates"]) :]
        for (prompt, text), alone in zip(requests, sample["no_context"], strict=True):
            assert sample["doc"]["context"] not in prompt
            total, count = oracle.sum_and_count(*oracle.split(prompt, text))
            assert (alone["sum"], alone["tokens"]) == (pytest.approx(total, rel=1e-4), count)
    for category in (None, "disfluent", "off_target", "unfaithful"):
        pmi, survivors = [], []
        for sample in samples:
            for test in sample["tests"]:
                if category in (None, test["category"]):
                    high, low = (sample["candidates"][test[side]]["mean"] for side in ("high", "low"))
                    bare_high, bare_low = (sample["no_context"][test[side]]["mean"] for side in ("high", "low"))
                    pmi.append(high - bare_high > low - bare_low)
                    survivors += [bare_high > bare_low] * (high > low)
        suffix = f"_{category}" if category else ""
        assert rates[f"pass_rate_pmi{suffix}"] == pytest.approx(sum(pmi) / len(pmi))
        assert rates[f"survival{suffix}"] == pytest.approx(sum(survivors) / len(survivors))
    assert rates["no_context"] == rates["candidates"]


def test_a_prompt_without_context_is_refused(tmp_path, home, gpt2):
    folder = write_yaml(tmp_path, "mine", doc_to_text="Question:")
    with pytest.raises(NNDError, match="task mine: context_reliance compares prompts with and without their context"):
        evaluate(gpt2, ["mine"], metadata=RELIANCE, include_path=folder, limit=2)


def test_an_unscored_candidate_counts_in_neither_rate():
    tests = [
        {"test_id": str(i), "category": "c", "severity": "", "high_first": False, "high": 0, "low": low}
        for i, low in enumerate((1, 2))
    ]
    scores = [Likelihood(-1.0, 1, 1), Likelihood(-2.0, 1, 1), None]
    found = metrics.score_document(tests, scores, break_down(["c"], []), ties="authors", without_context=scores)
    assert found["pass_rate_pmi"] == (0, 1), "equal gains are a tie, which fails"
    assert found["survival"] == found["survival_c"] == (1, 1)
