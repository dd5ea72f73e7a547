"""Prompts that do not fit the model's window: the context loses its end, and nothing else is ever cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from nnd_tasks.errors import NNDError
from nnd_tasks.task.request import shorten
from tests.task.tasks import run_task, small_set

LONG = " ".join(f"Sentence {i} tells of the harbour and its boats." for i in range(60))

# ---------------------------------------------------------------- the cut itself


@given(st.text(st.sampled_from("ab é\n\t中"), min_size=1, max_size=120), st.integers(0, 130))
def test_what_is_kept_is_the_longest_beginning_that_fits_up_to_a_word(text, room):
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


def test_the_cut_falls_into_what_is_too_long_for_a_word():
    assert shorten("字" * 100, lambda text: len(text) <= 70) == "字" * 70


def test_a_measure_that_is_not_monotone_still_ends_in_something_that_fits():
    def fits(text):
        return len(text) % 7 != 4 and len(text) <= 50

    kept = shorten("word " * 40, fits)
    assert kept is not None
    assert fits(kept)


# ---------------------------------------------------------------- whole runs


@pytest.fixture
def run(tiny_models, tmp_path, home):
    """A function that runs a task with two contexts, of which the first is long."""
    rows = [
        (context, text, label)
        for context in (LONG, "A short text.")
        for text, label in (("It tells of boats.", "ok"), ("It tells of a market and of cheese.", "wrong"))
    ]
    folder = small_set(tmp_path, rows, doc_to_text="{{context}} Summary:")

    def run_small(model, window=None, **options):
        arguments = {"max_length": window} if window else None
        return run_task(tiny_models[model], "small", model_args=arguments, include_path=folder, **options)

    return run_small


@pytest.mark.parametrize(("name", "window"), [("gpt2", 64), ("llama", 100), ("t5", 64)])
def test_only_the_end_of_the_context_is_lost_and_no_more_than_needed(name, window, tiny_models, run, caplog):
    whole = run(name, metadata={"overlong": "refuse"})
    assert whole.rates["truncated_contexts"] == 0
    rates, samples, _ = run(name, window)
    assert rates["truncated_contexts"] == 1
    assert "1 contexts lost their end" in caplog.text
    assert "Truncating" not in caplog.text, "lm-eval had nothing left to cut"
    assert samples[1]["arguments"] == whole.samples[1]["arguments"], "what fits stays as it is"
    [prompt] = {context for context, _ in samples[0]["arguments"]}
    kept = prompt.removesuffix(" Summary:")
    assert LONG.startswith(kept)

    tokenizer = AutoTokenizer.from_pretrained(tiny_models[name])
    longest = max((text for _, text in samples[0]["arguments"]), key=len)
    more = f"{LONG[: len(kept) + len(LONG[len(kept) :].split()[0]) + 1]} Summary:"
    sizes = [len(tokenizer.encode(text if name == "t5" else text + longest)) for text in (prompt, more)]
    limit = window if name == "t5" else window + 1  # the last token is never an input
    assert sizes[0] <= limit < sizes[1], "one more word would not fit"


@pytest.mark.parametrize(
    ("name", "window", "options", "message"),
    [
        ("gpt2", 64, {"metadata": {"overlong": "refuse"}}, r"test [0-9a-f]{16} and its prompt do not fit.*64 tokens"),
        ("t5", 4, {}, r"candidate ' It tells of .*' of test [0-9a-f]{16} has .* tokens, more than"),
        ("gpt2", 15, {}, "no room for any of its context"),
        ("gpt2", 64, {"num_fewshot": 1, "samples": {"small": [1]}}, "beside 1 few-shot examples; lower --num_fewshot"),
    ],
)
def test_what_cannot_be_scored_is_an_error_that_names_its_test(name, window, options, message, run):
    with pytest.raises(NNDError, match=message):
        run(name, window, **options)


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_what_does_not_fit_can_be_left_out(name, tiny_models, run, caplog):
    """The longer candidate has no room, beside any context or in the window itself; the shorter one is scored."""
    longer = AutoTokenizer.from_pretrained(tiny_models[name]).encode(" It tells of a market and of cheese.")
    leaving = {"metadata": {"overlong": "leave_out"}}
    rates, samples, _ = run(name, 15 if name == "gpt2" else len(longer) - 2, **leaving)
    assert (rates["tests"], rates["unscored"], rates["candidates"]) == (0, 2, 2)
    assert "2 candidates do not fit the model's window" in caplog.text
    for sample in samples:
        assert [candidate is None for candidate in sample["candidates"]] == [False, True]
        [(context, continuation)] = sample["arguments"]
        assert continuation == " It tells of boats."
        assert context.endswith(" Summary:")


def test_a_context_can_be_kept_whole(gpt2, run):
    keeping = {"metadata": {"overlong": "whole"}}
    whole = run("gpt2", **keeping)
    tokenizer = AutoTokenizer.from_pretrained(gpt2)
    shorter = min(len(tokenizer.encode(context + text)) for context, text in whole.samples[0]["arguments"])
    for window, present in ((shorter - 1, [True, False]), (64, [False, False])):  # one more token fits, as none follows
        rates, samples, _ = run("gpt2", window, **keeping)
        assert (rates["tests"], rates["unscored"], rates["truncated_contexts"]) == (1, 1, 0)
        assert [candidate is not None for candidate in samples[0]["candidates"]] == present
        if any(present):
            assert samples[0]["arguments"][0][0] == f"{LONG} Summary:", "a prompt that is scored is whole"


# ---------------------------------------------------------------- long contexts of real sets
