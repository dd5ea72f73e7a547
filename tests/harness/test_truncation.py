"""Prompts that do not fit the model's window: the context loses its end, and nothing else is ever cut."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.models.huggingface import HFLM
from transformers import AutoConfig, AutoTokenizer

from nnd_tasks.errors import NNDError
from nnd_tasks.harness import lengths
from nnd_tasks.harness.lengths import TokenCounter
from nnd_tasks.harness.truncation import Shortening
from tests.random_models import evaluate
from tests.sets.folders import write
from tests.sets.tables import LABELS, make_rows

LONG = " ".join(f"Sentence {i} tells of the harbour and its boats." for i in range(60))

# ---------------------------------------------------------------- the cut itself


def shorten(text: str, fits: Callable[[str], bool]) -> str | None:
    search = Shortening(text)
    while (attempt := search.attempt) is not None:
        search.record(fits=fits(attempt))
    return search.longest


@given(st.text(st.sampled_from("ab é\n\t中"), min_size=1, max_size=120), st.integers(0, 130))
def test_what_is_kept_is_the_longest_beginning_that_fits_up_to_a_word(text: str, room: int) -> None:
    kept = shorten(text, lambda beginning: len(beginning) <= room)
    beginnings = [text[:i] for i in range(1, len(text)) if not text[i - 1].isspace() and text[i].isspace()]
    if all(len(word) <= 40 for word in text.split()):
        # A beginning that is followed by white space alone is the whole text.
        whole = text.rstrip()
        expected = max((b for b in beginnings if len(b) <= room and b != whole), key=len, default=None)
        assert kept == expected
    elif kept is not None:
        assert text.startswith(kept)
        assert len(kept) <= room


def test_the_cut_falls_between_words_and_into_what_is_too_long_for_a_word() -> None:
    assert shorten("one two three four", lambda text: len(text) <= 10) == "one two"
    assert shorten("one two three four", lambda text: len(text) <= 7) == "one two"
    assert shorten("one two", lambda text: len(text) <= 7) == "one", "the whole text was tried before"
    assert shorten("字" * 100, lambda text: len(text) <= 70) == "字" * 70
    assert shorten("one two", lambda text: False) is None
    assert shorten("one", lambda text: True) is None


def test_a_measure_that_is_not_monotone_still_ends_in_something_that_fits() -> None:
    def fits(text: str) -> bool:
        return len(text) % 7 != 4 and len(text) <= 50

    kept = shorten("word " * 40, fits)
    assert kept is not None
    assert fits(kept)


# ---------------------------------------------------------------- the window


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
@pytest.mark.parametrize("given", [None, 77])
def test_the_window_is_that_of_hflm(name: str, given: int | None, tiny_models: dict[str, Path]) -> None:
    arguments: dict[str, Any] = {"pretrained": str(tiny_models[name])} | ({"max_length": given} if given else {})
    assert TokenCounter(arguments).window == HFLM(**arguments, device="cpu").max_length


def without_window(source: Path, folder: Path) -> Path:
    """Write config and tokenizer of a model that say nothing of a window."""
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.model_max_length = 1000000000000000019884624838656
    tokenizer.save_pretrained(folder)
    config = AutoConfig.from_pretrained(source)
    config.save_pretrained(folder)
    text = (folder / "config.json").read_text("utf-8").replace('"gpt2"', '"mamba"').replace("GPT2LMHead", "MambaFor")
    (folder / "config.json").write_text(text.replace('"n_positions"', '"other"').replace('"n_ctx"', '"another"'))
    return folder


def test_an_unknown_window_is_lm_evals_default_and_is_said_once(
    tiny_models: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lengths.warn_once.cache_clear()
    folder = without_window(tiny_models["gpt2"], tmp_path / "model")
    with caplog.at_level(logging.WARNING):
        counters = [TokenCounter({"pretrained": str(folder)}) for _ in range(3)]
    assert [counter.window for counter in counters] == [2048] * 3
    assert [record.message for record in caplog.records if "window" in record.message] == [
        f"the window of {folder} is not known: neither its config nor its tokenizer has one. lm-eval takes 2048 tokens; "
        "set max_length in --model_args if it is another"
    ]
    assert TokenCounter({"pretrained": str(folder), "max_length": "99"}).window == 99


def test_a_tokenizer_alone_has_no_window_unless_it_says_one(tiny_models: dict[str, Path], tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_models["gpt2"])
    tokenizer.save_pretrained(tmp_path / "known")
    assert TokenCounter({"tokenizer": str(tmp_path / "known")}).window == tokenizer.model_max_length
    tokenizer.model_max_length = 1000000000000000019884624838656
    tokenizer.save_pretrained(tmp_path / "unknown")
    counter = TokenCounter({"tokenizer": str(tmp_path / "unknown")})
    assert counter.window is None
    assert not counter.overlong(10**9, 1)


@pytest.mark.parametrize(
    ("model_type", "arguments", "most"),
    [
        ("hf", {}, 101),  # the last token is never an input
        (None, {}, 101),
        ("vllm", {}, 99),
        (None, {"gpu_memory_utilization": 0.5}, 99),
        ("hf", {"gpu_memory_utilization": 0.5}, 101),
        ("sglang", {}, 100),
        ("local-completions", {"base_url": "http://localhost:1"}, 99),  # one token is generated
    ],
)
def test_the_room_of_each_backend(
    model_type: str | None, arguments: dict[str, Any], most: int, tiny_models: dict[str, Path]
) -> None:
    known = {"pretrained": str(tiny_models["gpt2"]), "max_length": 100, **arguments}
    counter = TokenCounter(known, model_type)
    assert not counter.overlong(most - 10, 10)
    assert counter.overlong(most - 9, 10)


def test_a_window_that_is_no_number_is_refused(tiny_models: dict[str, Path]) -> None:
    with pytest.raises(NNDError, match="max_length='wide': expected a number"):
        TokenCounter({"pretrained": str(tiny_models["gpt2"]), "max_length": "wide"})


# ---------------------------------------------------------------- whole runs


@pytest.fixture
def long_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set with two contexts, one of them long, and a folder with a task for it."""
    rows = [
        {"c": context, "t": text, "l": label}
        for context in (LONG, "A short text.")
        for text, label in (("It tells of boats.", "good"), ("It tells of a market and of cheese.", "bad"))
    ]
    write(tmp_path / "nnd" / "small", {"authors": make_rows(tmp_path, rows, **LABELS).tables["default"]})
    monkeypatch.setenv("NND_HOME", str(tmp_path))
    folder = tmp_path / "task_yamls"
    folder.mkdir()
    base = Path(__file__).parents[2] / "task_yamls" / "_base"
    text = f"include: {base}\ntask: nnd_small\ndataset_path: nnd/small\ndoc_to_text: '{{{{context}}}} Summary:'\n"
    (folder / "nnd_small.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def run(model: Path, window: int | None = None, **kwargs: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the results and the samples of nnd_small, the long context first."""
    results = evaluate(model, ["nnd_small"], model_args={"max_length": window} if window else None, **kwargs)
    return results["results"]["nnd_small"], results["samples"]["nnd_small"]


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
@pytest.mark.parametrize("window", [64, 100])
def test_only_the_end_of_the_context_is_lost_and_no_more_than_needed(
    name: str, window: int, tiny_models: dict[str, Path], long_set: Path, caplog: pytest.LogCaptureFixture
) -> None:
    full, whole = run(tiny_models[name])
    assert full["truncated_contexts,none"] == 0
    with caplog.at_level(logging.WARNING):
        cut, samples = run(tiny_models[name], window)
    assert cut["truncated_contexts,none"] == 1
    assert [sample["truncated_contexts"] for sample in samples] == [1, 0]
    assert any("1 contexts lost their end" in record.message for record in caplog.records)
    assert not any("Truncating" in record.message for record in caplog.records), "lm-eval had nothing left to cut"
    assert samples[1]["arguments"] == whole[1]["arguments"], "what fits stays as it is"
    prompts = {arguments[0] for arguments in samples[0]["arguments"]}
    assert len(prompts) == 1, "all candidates of a context are scored after the same prompt"
    [prompt] = prompts
    assert prompt.endswith(" Summary:")
    kept = prompt.removesuffix(" Summary:")
    assert LONG.startswith(kept)
    assert 10 < len(kept) < len(LONG)

    tokenizer = AutoTokenizer.from_pretrained(tiny_models[name])
    longest = max((arguments[1] for arguments in samples[0]["arguments"]), key=len)
    more = f"{LONG[: len(kept) + len(LONG[len(kept) :].split()[0]) + 1]} Summary:"

    def size(text: str) -> int:
        return len(tokenizer.encode(text)) if name == "t5" else len(tokenizer.encode(text + longest))

    limit = window if name == "t5" else window + 1  # the last token is never an input
    assert size(prompt) <= limit < size(more), "one more word would not fit"


def test_shortened_and_whole_prompts_give_what_the_model_gives_for_them(
    tiny_models: dict[str, Path], long_set: Path
) -> None:
    _, samples = run(tiny_models["gpt2"], 80)
    lm = HFLM(pretrained=str(tiny_models["gpt2"]), dtype="float32", device="cpu")  # with its whole window
    for sample in samples:
        for (context, continuation), response in zip(sample["arguments"], sample["filtered_resps"], strict=True):
            from lm_eval.api.instance import Instance

            instance = Instance("loglikelihood", {}, (context, continuation), 0)
            [(total, _)] = lm.loglikelihood([instance], disable_tqdm=True)
            assert response[0] == pytest.approx(total, abs=1e-3)


def test_overlong_prompts_can_be_refused(tiny_models: dict[str, Path], long_set: Path) -> None:
    with pytest.raises(NNDError, match=r"test [0-9a-f]{16} and its prompt do not fit.*64 tokens \(overlong=refuse\)"):
        run(tiny_models["gpt2"], 64, metadata={"overlong": "refuse"})
    assert run(tiny_models["gpt2"], metadata={"overlong": "refuse"})[0]["truncated_contexts,none"] == 0


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_a_candidate_longer_than_the_window_is_an_error_that_names_its_test(
    name: str, tiny_models: dict[str, Path], long_set: Path
) -> None:
    with pytest.raises(NNDError, match=r"candidate ' It tells of .*' of test [0-9a-f]{16} has .* tokens, more than"):
        run(tiny_models[name], 4)


def test_a_window_without_room_for_any_context_is_an_error(tiny_models: dict[str, Path], long_set: Path) -> None:
    with pytest.raises(NNDError, match="no room for any of its context"):
        run(tiny_models["gpt2"], 15)


@pytest.mark.parametrize(("name", "window"), [("gpt2", 15), ("t5", None)])
def test_what_does_not_fit_can_be_left_out(
    name: str, window: int | None, tiny_models: dict[str, Path], long_set: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The longer candidate has no room, beside any context or in the window itself; the shorter one is scored."""
    if window is None:
        window = (
            len(AutoTokenizer.from_pretrained(tiny_models[name]).encode(" It tells of a market and of cheese.")) - 2
        )
    with caplog.at_level(logging.WARNING):
        results, samples = run(tiny_models[name], window, metadata={"overlong": "leave_out"})
    assert (results["tests,none"], results["unscored,none"], results["candidates,none"]) == (0, 2, 2)
    assert "2 candidates do not fit the model's window" in caplog.text
    for sample in samples:
        assert [candidate is None for candidate in sample["candidates"]] == [False, True]
        [(context, continuation)] = sample["arguments"]
        assert continuation == " It tells of boats."
        assert context.endswith(" Summary:")
    whole, _ = run(tiny_models[name], metadata={"overlong": "leave_out"})
    assert (whole["tests,none"], whole["unscored,none"]) == (2, 0)


def test_a_context_can_be_kept_whole(tiny_models: dict[str, Path], long_set: Path) -> None:
    whole, samples = run(tiny_models["gpt2"], metadata={"overlong": "whole"})
    assert (whole["tests,none"], whole["unscored,none"], whole["truncated_contexts,none"]) == (2, 0, 0)
    tokenizer = AutoTokenizer.from_pretrained(tiny_models["gpt2"])
    sizes = [len(tokenizer.encode(context + text)) for context, text in samples[0]["arguments"]]
    assert len(set(sizes)) == 2
    for window, present in (
        (min(sizes) - 1, [True, False]),
        (64, [False, False]),
    ):  # one more token fits, as none follows
        results, samples = run(tiny_models["gpt2"], window, metadata={"overlong": "whole"})
        assert (results["tests,none"], results["unscored,none"], results["truncated_contexts,none"]) == (1, 1, 0)
        assert [candidate is not None for candidate in samples[0]["candidates"]] == present
        if any(present):
            assert samples[0]["arguments"][0][0] == f"{LONG} Summary:", "a prompt that is scored is whole"


def test_examples_that_fill_the_window_bring_up_their_number(tiny_models: dict[str, Path], long_set: Path) -> None:
    with pytest.raises(NNDError, match=r"beside 1 few-shot examples; lower --num_fewshot"):
        run(tiny_models["gpt2"], 64, num_fewshot=1, samples={"nnd_small": [1]})


@pytest.mark.slow
def test_summeval_keeps_the_lead_of_every_article(real_home: Path, models: Path) -> None:
    """The window of these models is 1,024 tokens, which several articles exceed."""
    folder = models / "tiny-lm-xs"
    results = evaluate(folder, ["nnd_summeval"], limit=30)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    shortened = 0
    for sample in results["samples"]["nnd_summeval"]:
        article = sample["doc"]["context"]
        longest = max(
            len(tokenizer.encode(f"{article}\n\nSummary:{arguments[1]}")) for arguments in sample["arguments"]
        )
        shortened += longest > 1025
        for context, continuation in sample["arguments"]:
            assert context.startswith(article[:500])
            assert context.endswith("\n\nSummary:")
            assert len(tokenizer.encode(context + continuation)) <= 1025
    assert shortened > 0
    assert results["results"]["nnd_summeval"]["truncated_contexts,none"] == shortened
