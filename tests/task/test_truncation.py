"""Prompts that do not fit the model's window: the context loses its end, and nothing else is ever cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

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
