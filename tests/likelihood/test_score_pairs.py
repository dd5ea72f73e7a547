"""`score_pairs` gives the numbers of a task for its prompts and texts, and says what it cannot take."""

import pandas as pd
import pytest

from nnd_tasks import score_pairs
from nnd_tasks.errors import NNDError
from shared_prefix.hf_shared_prefix import SharedPrefixLM
from tests.task.tasks import run_task


@pytest.mark.parametrize("ready_made", [False, True])
def test_its_numbers_are_those_of_a_task(ready_made, llama, home):
    samples = run_task(llama, limit=6).samples
    tests = [
        (sample, *both) for sample in samples for both in zip(sample["doc"]["tests"], sample["tests"], strict=True)
    ]
    contexts = [sample["arguments"][0][0] for sample, _, _ in tests]
    high, low = ([sample["doc"]["candidates"][test[which]] for sample, test, _ in tests] for which in ("high", "low"))
    settings = {"dtype": "float32", "device": "cpu"}
    model = SharedPrefixLM(pretrained=str(llama), **settings) if ready_made else llama
    table = score_pairs(model, contexts, high, low, **({} if ready_made else settings))
    assert len(table) == len(tests) > 10
    assert score_pairs(model, contexts[:2], pd.Series(high[:2], index=[1, 0]), low[:2])["high"].tolist() == high[:2]
    assert table["passed"].tolist() == [outcome["passed"] for *_, outcome in tests]
    for (sample, test, _), row in zip(tests, table.itertuples(), strict=True):
        records = {which: sample["candidates"][test[which]] for which in ("high", "low")}
        for which, record in records.items():
            assert getattr(row, f"tokens_{which}") == record["tokens"]
            assert getattr(row, f"sum_{which}") == pytest.approx(record["sum"], rel=1e-6)
        assert row.margin == pytest.approx(records["high"]["mean"] - records["low"]["mean"], abs=1e-5)


@pytest.mark.parametrize(
    ("model", "lists", "message"),
    [
        (None, (["a"], ["b", "c"], ["d"]), "there are 1 contexts, 2 high, 1 low"),
        (None, ("a", "b", "c"), "contexts is one text; expected a list of texts"),
        (None, (["a"], [None], ["d"]), r"high\[0\] is None; expected text"),
        ("/no/such/folder", (["a"], ["b"], ["c"]), "there is no such model or tokenizer folder"),
        (None, (["a"], [""], ["c"]), r"high\[0\] is ''; expected text"),
        (type("Sums", (), {"loglikelihood": None})(), (["a"], ["b"], ["c"]), "a ready-made Sums gives sums only"),
    ],
)
def test_what_it_cannot_take_is_one_line(model, lists, message, gpt2):
    with pytest.raises(NNDError, match=message):
        score_pairs(gpt2 if model is None else model, *lists, delimiter="", device="cpu")
