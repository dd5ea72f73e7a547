"""Where a test is won or lost, against a slow definition."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nnd_tasks.likelihood.margin_parts import (
    AFTER,
    AT,
    BEFORE,
    add_margin_parts,
    character_blocks,
    label_tokens,
    margin_parts,
    margin_table,
)
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.samples import CandidateTokens
from nnd_tasks.show.report import Report
from nnd_tasks.task.scored_tokens import tokens_and_characters
from tests.results import fake_runs
from tests.task.test_scored_tokens import TEXTS, counter_of


def brute_force(blocks, texts):
    """Return the labels of the tokens of two texts: what a difference touches spreads until nothing changes.

    A token of a text is its id, its first character and the character after the last.
    """
    touched = set()  # (text, character)
    gaps = set()  # (text, place between characters) where the other text has more
    partner = {}
    for same, i, i_size, j, j_size in blocks:
        for text, (start, size) in enumerate(((i, i_size), (j, j_size))):
            if same:
                other = (j, i)[text]
                partner |= {(text, start + k): (1 - text, other + k) for k in range(size)}
            else:
                touched |= {(text, start + k) for k in range(size)}
                gaps |= set() if size else {(text, start)}
    before = None
    while before != touched:
        before = set(touched)
        for text, tokens in enumerate(texts):
            for _, start, end in tokens:
                own = {(text, at) for at in range(start, end)}
                if own & touched or any((text, at) in gaps for at in range(start + 1, end)):
                    touched |= own
        touched |= {partner[one] for one in touched if one in partner}
    beginning = blocks[0][2] if blocks[0][0] else 0
    prefix = 0
    while all(len(tokens) > prefix for tokens in texts) and texts[0][prefix] == texts[1][prefix]:
        prefix += 1
    labels = []
    for text, tokens in enumerate(texts):
        length = sum(block[2 + 2 * text] for block in blocks)
        labels.append([])
        for place, (_, start, end) in enumerate(tokens):
            empty = start == end
            reach = range(start - 1, end + 1) if empty else range(start, end)
            if empty and start in (0, length):
                label = AFTER if start else BEFORE if place < prefix else AT
            elif any((text, at) in touched for at in reach) or (empty and (text, start) in gaps):
                label = AT
            elif end <= beginning:
                label = BEFORE if place < prefix else AT
            else:
                label = AFTER
            labels[-1].append(label)
    return labels


def candidate(tokens):
    ids, starts, ends = np.array(tokens, dtype=np.int32).T
    return CandidateTokens(ids, starts, ends, np.zeros(len(ids), dtype=np.float32))


def by_character(text):
    return [(ord(c), i, i + 1) for i, c in enumerate(text)]


def with_ends(text):
    """Tokens around the text, such as that of the end of the sequence."""
    return [(7, 0, 0), *by_character(text), (0, len(text), len(text))]


def with_line_numbers(text):
    """The number that is put before a line stands for no character."""
    lines = [(9, at, at) for at in range(1, len(text)) if text[at - 1] == "\n"]
    return sorted(by_character(text) + lines, key=lambda token: token[1:])


# ---------------------------------------------------------------- tokens of two texts


def tokenizer(name):
    """A function that divides a text as a trained tokenizer does."""
    counter = counter_of(name)

    def divide(text):
        ids, spans = tokens_and_characters(counter, "", text)
        return [(one, *span) for one, span in zip(ids, spans.tolist(), strict=True)]

    return divide


TOKENIZERS = [*map(tokenizer, ("GPT-2", "Gemma", "T5", "BERT")), with_ends, with_line_numbers]
WORDS = sorted(
    {word for text in TEXTS for word in text.split()} | {"harbour's", "(", "))", "a_b", "1.5", "\n   ", "é", "ë"}
)
phrases = st.lists(st.sampled_from(WORDS), max_size=4)
spaces = st.sampled_from([" ", " ", " ", ""])


@st.composite
def edited(draw):
    """Two texts with up to four shared stretches and as many differences; any of them may be empty."""
    texts = ["", ""]
    for shared, *own in draw(st.lists(st.tuples(phrases, phrases, phrases), min_size=1, max_size=4)):
        for k in range(2):
            texts[k] += "".join(draw(spaces) + word for word in own[k])
        texts = [text + "".join(" " + word for word in shared) for text in texts]
    return texts[0], texts[1]


@settings(max_examples=75)
@given(edited(), st.sampled_from(TOKENIZERS))
def test_the_parts_are_those_of_the_definition(texts, divide):
    assume(texts[0] != texts[1] and all(text.strip() for text in texts))
    blocks = character_blocks(*texts)
    for k, text in enumerate(texts):  # the alignment itself: shared stretches are equal, and nothing is left out
        assert [block[1 + 2 * k] for block in blocks] == np.cumsum([0, *(b[2 + 2 * k] for b in blocks)])[:-1].tolist()
        assert sum(block[2 + 2 * k] for block in blocks) == len(text)
    assert all(texts[0][i : i + n] == texts[1][j : j + m] for same, i, n, j, m in blocks if same)
    tokens = [divide(text) for text in texts]
    labels = label_tokens(blocks, *map(candidate, tokens))
    assert [own.tolist() for own in labels] == brute_force(blocks, tokens)


# ---------------------------------------------------------------- runs with planted log-probabilities

GOOD = "the old harbour froze and nobody sailed"
EDITED = {"swap": "the old harbour burned and nobody sailed", "more": "the old harbour froze and almost nobody sailed"}
OTHER = "quite another text about rabbits"


def write_run(
    folder,
    model,
    logprob,
    prompts=12,
    *,
    edits=EDITED,
    **more,
):
    """Write a run in which each prompt has a test of each edit, one of texts without a common word and one of equal texts.

    Args:
        folder: for the files.
        model: its name.
        logprob: (number of the prompt, word of the worse text, whether it comes after the first edited one) -> what a word of a
            worse text has; those of the better one have -1.
        prompts: how many.
        edits: category -> worse text.
        more: for `fake_runs.write_run`.
    """
    texts = [GOOD, *edits.values(), OTHER, GOOD]
    samples = []
    for number in range(prompts):
        tokens = []
        for place, text in enumerate(texts):
            words = list(re.finditer(r"\s*\S+", text))
            new = [word[0].strip() not in GOOD.split() for word in words]
            values = [logprob(number, w[0].strip(), any(new[:k])) if place else -1.0 for k, w in enumerate(words)]
            ids = [sum(word[0].encode()) for word in words]
            tokens.append([(one, *w.span(), value) for one, w, value in zip(ids, words, values, strict=True)])
        document = fake_runs.make_document(f"p{number}", texts, [*edits, "other", "other"])
        samples.append(fake_runs.sample_of_tokens(document, tokens))
    return fake_runs.write_run(folder, model, samples=samples, **more)


def at_it(number, word, after):
    return -1.0 if word in GOOD.split() else -3.0 - number / 10


def after_it(number, word, after):
    return -2.0 - number / 10 if after else -1.0


def parts_of(runs):
    """Return category -> parts of the margins of a single model."""
    [paired] = pair(read_results([runs]))
    return {row.category: row for row in margin_parts(paired).itertuples()}


def test_a_model_that_notices_an_error_only_at_it_has_no_part_after_it(tmp_path):
    parts = parts_of(write_run(tmp_path / "m", "m", at_it))
    counts = {name: (row.tests, row.left_out, row.tokens_high, row.tokens_low) for name, row in parts.items()}
    assert counts == {
        "all": (24, 24, 0.5, 1),
        "more": (12, 0, 0, 1),
        "other": (0, 24, pytest.approx(math.nan, nan_ok=True), pytest.approx(math.nan, nan_ok=True)),
        "swap": (12, 0, 1, 1),
    }
    noise = np.arange(12) / 10
    for row, at in ((parts["swap"], 2 + noise), (parts["more"], 3 + noise)):
        assert (row.at, row.at_standard_error) == pytest.approx((at.mean(), noise.std(ddof=1) / 12**0.5), abs=1e-6)
        assert (row.before, row.after, row.noticed, row.only_after, row.lost_after) == (0, 0, 1, 0, 0)


def test_a_model_that_notices_an_error_only_after_it_has_no_part_at_it(tmp_path):
    swap = parts_of(write_run(tmp_path / "m", "m", after_it))["swap"]
    assert swap.after == pytest.approx(3 * (1 + np.mean(np.arange(12) / 10)), abs=1e-6)
    assert (swap.at, swap.noticed, swap.only_after, swap.lost_after) == (0, 0, 1, 0)


def test_the_shares_add_up_to_the_tests_with_a_positive_margin_of_sums(tmp_path):
    rng = np.random.default_rng(3)
    folder = write_run(tmp_path, "m", lambda *_: -float(rng.exponential(1.2)), prompts=40)
    [run] = read_results(folder)
    table = margin_table(run)
    sums = run.tests["margin_sum"].where(table["at"].notna())
    added = table[["before", "at", "after"]].sum(axis=1, skipna=False)
    assert added.tolist() == pytest.approx(sums.tolist(), nan_ok=True)
    won = (run.tests["margin_sum"] > 0).groupby(run.tests["category"]).mean()
    parts = parts_of(folder)
    for category in EDITED:
        row = parts[category]
        # A word more in the worse text can only make it less likely, which is no sign that the word is noticed.
        assert (row.noticed == 1) == (category == "more")
        assert row.noticed + row.only_after - row.lost_after == pytest.approx(won[category])
    assert min(parts["swap"].noticed, parts["swap"].only_after, parts["swap"].lost_after) > 0


def test_the_last_table_of_a_comparison_has_the_parts_of_runs_with_token_scores(tmp_path, nnd):
    results, out = tmp_path / "results", tmp_path / "out"
    write_run(results, "m-at", at_it)
    write_run(results, "m-after", after_it, tokens=False)
    tables = json.loads(nnd("compare", results, "--format", "json").out)["tables"]
    assert list(tables)[-1] == "margin_parts"
    assert {row["model"] for row in tables["margin_parts"]} == {"m-at"}
    assert nnd("report", results, "-o", out / "report.html", "--out", out).status == 0
    assert json.loads((out / "compare_nnd_made_up.json").read_text("utf-8"))["tables"] == tables
    assert "Margin parts" in (out / "report.html").read_text("utf-8")


def test_without_token_scores_or_texts_that_share_enough_there_is_no_table(tmp_path):
    report = Report("compare", "m")
    for kind, tokens, edits in (("short", False, EDITED), ("different", True, {})):
        folder = write_run(tmp_path / kind, "m", at_it, prompts=2, edits=edits, tokens=tokens)
        [paired] = pair(read_results([folder]))
        assert len(paired.tests) > 0
        assert add_margin_parts(report, paired) is report
