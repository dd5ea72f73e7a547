"""Models that score shares: in threads that stand for processes, against the same models alone."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.api_models import TemplateAPI
from lm_eval.models.huggingface import HFLM

from nnd_tasks.errors import NNDError
from nnd_tasks.models.masked_lm import MaskedLM
from nnd_tasks.models.over_ranks import divided
from nnd_tasks.models.ranks import Ranks
from nnd_tasks.models.shared_prefix import SharedPrefixLM


class Threads:
    """Exchanges objects among threads, as torch.distributed does among processes."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count, timeout=60)
        self._given: list[Any] = [None] * count

    def gather(self, index: int, mine: Any) -> list[Any]:
        self._given[index] = mine
        self._barrier.wait()
        everything = list(self._given)
        self._barrier.wait()
        return everything


class ThreadRanks(Ranks):
    def __init__(self, index: int, count: int, threads: Threads) -> None:
        super().__init__(index, count, index)
        self._threads = threads

    def _exchange(self, mine: Any) -> list[Any]:
        return self._threads.gather(self.index, mine)


def several(model_class: type, count: int, **arguments: Any) -> list[Any]:
    """Return a model for each of ``count`` threads."""
    threads = Threads(count)
    return [divided(model_class, ThreadRanks(k, count, threads))(**arguments) for k in range(count)]


def in_all(models: list[Any], work: Callable[[Any], Any]) -> list[Any]:
    """Do something with each model, in threads; return results, or errors."""

    def one(model: Any) -> Any:
        try:
            return work(model)
        except Exception as error:  # returned, to be looked at
            return error

    with ThreadPoolExecutor(len(models)) as pool:
        return list(pool.map(one, models))


def requests(kind: str, *arguments: tuple[Any, ...]) -> list[Any]:
    return [Instance(kind, {}, one, i) for i, one in enumerate(arguments)]  # type: ignore[arg-type]


TEXTS = ["The cat sat on the mat.", "The cat sat on the tree, and the dog saw it.", "One day it rained and rained."]
PAIRS = [
    (f"{text}\n{question}", f" {answer}")
    for text in TEXTS
    for question in ("Who?", "Where?")
    for answer in ("the cat", "a dog", "on the mat", "nobody knew it")
]
PAIRS += [("", "The cat"), PAIRS[0], PAIRS[5]]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    ("name", "model_class"), [("llama", SharedPrefixLM), ("t5", SharedPrefixLM), ("gpt2", HFLM), ("bert", MaskedLM)]
)
def test_all_processes_get_the_answers_of_one(
    name: str,
    model_class: type,
    count: int,
    tiny_models: dict[str, Path],
    masked_model: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = masked_model if name == "bert" else tiny_models[name]
    arguments = {"pretrained": str(folder), "device": "cpu", "dtype": "float32", "batch_size": 4}
    alone = model_class(**arguments).loglikelihood(requests("loglikelihood", *PAIRS), disable_tqdm=True)
    models = several(model_class, count, **arguments)
    asked: list[list[Any]] = []
    score = model_class._loglikelihood_tokens  # type: ignore[attr-defined]

    def counting(self: Any, given: list[Any], **options: Any) -> Any:
        asked.append([text for text, _, _ in given])
        return score(self, given, **options)

    monkeypatch.setattr(model_class, "_loglikelihood_tokens", counting)
    found = in_all(models, lambda lm: lm.loglikelihood(requests("loglikelihood", *PAIRS), disable_tqdm=True))
    for answers in found:
        assert answers == found[0]
        for (total, greedy), (expected, likeliest) in zip(answers, alone, strict=True):
            assert total == pytest.approx(expected, rel=1e-6, abs=1e-5)
            assert greedy == likeliest
    assert len(asked) == count
    assert Counter(text for share in asked for text in share) == Counter(PAIRS), "each once"


def test_whole_texts_and_texts_to_continue_are_divided_too(tiny_models: dict[str, Path]) -> None:
    arguments = {"pretrained": str(tiny_models["gpt2"]), "device": "cpu", "dtype": "float32", "batch_size": 2}
    alone = SharedPrefixLM(**arguments)  # type: ignore[arg-type]
    models = several(SharedPrefixLM, 2, **arguments)
    rolling = requests("loglikelihood_rolling", *((text,) for text in TEXTS))
    for answers in in_all(models, lambda lm: lm.loglikelihood_rolling(rolling, disable_tqdm=True)):
        assert answers == pytest.approx(alone.loglikelihood_rolling(rolling, disable_tqdm=True), rel=1e-6)
    stop = {"until": ["."], "max_gen_toks": 6}
    opened = requests("generate_until", *((text, stop) for text in TEXTS))
    for answers in in_all(models, lambda lm: lm.generate_until(opened, disable_tqdm=True)):
        assert answers == alone.generate_until(opened, disable_tqdm=True)


def test_lm_eval_gives_each_process_all_documents(tiny_models: dict[str, Path]) -> None:
    [_, second] = several(SharedPrefixLM, 2, pretrained=str(tiny_models["gpt2"]), device="cpu")
    assert (second.rank, second.world_size) == (0, 1)


@pytest.fixture
def pair(tiny_models: dict[str, Path]) -> list[Any]:
    """Return two models that score shares."""
    return several(SharedPrefixLM, 2, pretrained=str(tiny_models["gpt2"]), device="cpu", dtype="float32")


def test_an_error_in_one_process_ends_all_with_the_same_line(pair: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(pair[1], "score_decoder_only", fail)
    monkeypatch.setattr(pair[0], "why_not", lambda: None)
    monkeypatch.setattr(pair[1], "why_not", lambda: None)
    for error in in_all(pair, lambda lm: lm.loglikelihood(requests("loglikelihood", *PAIRS), disable_tqdm=True)):
        assert isinstance(error, NNDError)
        assert str(error) == "process 2 of 2 stopped with MemoryError: no room (traceback: --debug)"


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("failing", [0, 2])
def test_a_process_that_fails_outside_its_share_ends_all_with_the_same_line(
    failing: int, depth: int, tiny_models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others compare their requests by then, which is not to be taken for other requests."""
    models = several(SharedPrefixLM, 3, pretrained=str(tiny_models["gpt2"]), device="cpu", dtype="float32")

    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("lost")

    def work(lm: Any, depth: int = depth) -> Any:
        return (
            lm.ranks.in_step(lambda: work(lm, depth - 1))
            if depth
            else lm.loglikelihood(requests("loglikelihood", *PAIRS), disable_tqdm=True)
        )

    with monkeypatch.context() as patch:
        patch.setattr(models[failing], "tok_encode", fail)
        for error in in_all(models, work):
            assert isinstance(error, NNDError)
            assert str(error) == f"process {failing + 1} of 3 stopped with KeyError: 'lost' (traceback: --debug)"
    first, *others = in_all(models, work)  # and all can go on
    assert [first] * 2 == others
    assert len(first) == len(PAIRS)


def test_a_users_mistake_is_the_same_line_as_in_one_process(pair: list[Any]) -> None:
    wrong = requests("loglikelihood", *PAIRS, ("A text", ""))
    for error in in_all(pair, lambda lm: lm.loglikelihood(wrong, disable_tqdm=True)):
        assert isinstance(error, NNDError)
        assert str(error) == "the continuation '' has no token; it cannot be scored"
    long = requests("loglikelihood", *PAIRS, ("A text", " a" * 3000))  # seen in one share only
    for error in in_all(pair, lambda lm: lm.loglikelihood(long, disable_tqdm=True)):
        assert isinstance(error, NNDError)
        assert str(error).endswith("has more tokens than the window of 2048")


def test_processes_with_other_requests_are_told_so(pair: list[Any]) -> None:
    given = {id(lm): PAIRS[k:] for k, lm in enumerate(pair)}
    for error in in_all(pair, lambda lm: lm.loglikelihood(requests("loglikelihood", *given[id(lm)]), True)):
        assert isinstance(error, NNDError)
        assert "have different requests" in str(error)


def test_what_only_another_process_logs_is_shown_by_the_first(
    pair: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    long = requests("loglikelihood", *((f"{letter} " * 3000, " a") for letter in "xyz"))
    for lm in pair:
        lm._checked = True  # nothing else is logged
    with caplog.at_level(logging.INFO, "lm_eval"):
        in_all(pair, lambda lm: lm.loglikelihood(long, disable_tqdm=True))
    found = [record.getMessage().partition(" requests are longer") for record in caplog.records]
    said = sorted(before for before, rest, _ in found if rest)
    assert said in (["1", "2", "process 2 of 2: 1"], ["1", "2", "process 2 of 2: 2"])


def test_models_whose_requests_cannot_be_divided_are_refused() -> None:
    with pytest.raises(NNDError, match="2 processes were started, and models of class TemplateAPI score all requests"):
        divided(TemplateAPI, Ranks(0, 2))
