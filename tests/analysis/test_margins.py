"""Margin parts: what each token belongs to, that the parts add up, and what a comparison and a report say of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nnd_tasks.analysis.alignment import Block, character_blocks
from nnd_tasks.analysis.margins import (
    AFTER,
    AT,
    BEFORE,
    alignment_of,
    label_tokens,
    margin_parts,
    margin_table,
)
from nnd_tasks.analysis.page import render_report
from nnd_tasks.analysis.results import read_results
from nnd_tasks.analysis.side_by_side import Paired, pair
from nnd_tasks.analysis.token_files import CandidateTokens
from nnd_tasks.harness.scored_tokens import tokens_and_characters
from nnd_tasks.harness.token_table import SCHEMA
from nnd_tasks.runner.run import run_lm_eval
from tests.analysis.fake_runs import PROTOCOL
from tests.analysis.pages import parse, text_of
from tests.commands import Outcome
from tests.harness.test_scored_tokens import MAKE, TEXTS, counter_of

#: Token ids with the characters that they stand for.
Spans = Sequence[tuple[int, int]]


def brute_force(blocks: Sequence[Block], texts: Sequence[Sequence[tuple[int, int, int]]]) -> list[list[int]]:
    """Return the labels of tokens (id, start, end) of two texts: what a difference touches spreads until nothing changes."""
    touched: set[tuple[int, int]] = set()  # (text, character)
    gaps: set[tuple[int, int]] = set()  # (text, place between characters) where the other text has more
    partner: dict[tuple[int, int], tuple[int, int]] = {}
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
    labels: list[list[int]] = []
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


def candidate(tokens: Sequence[tuple[int, int, int]], logprobs: Sequence[float]) -> CandidateTokens:
    ids, starts, ends = (np.asarray([token[k] for token in tokens], dtype=np.int32) for k in range(3))
    return CandidateTokens(ids, starts, ends, np.asarray(logprobs, dtype=np.float32))


def sums(label: int, labels: Sequence[Any], pair: Sequence[CandidateTokens]) -> float:
    high, low = (tokens.logprobs[own == label].sum(dtype=np.float64) for own, tokens in zip(labels, pair, strict=True))
    return float(high - low)


# ---------------------------------------------------------------- tokens of two texts

TOKENIZERS = {name: counter_of(MAKE[name]()) for name in ("GPT-2", "Gemma", "T5", "BERT")}
WORDS = sorted(
    {word for text in TEXTS for word in text.split()} | {"harbour's", "(", "))", "a_b", "1.5", "\n   ", "é", "ë"}
)
phrases = st.lists(st.sampled_from(WORDS), max_size=4)
spaces = st.sampled_from([" ", " ", " ", ""])


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, str]:
    """Two texts with up to four shared stretches and as many differences; any of them may be empty."""
    texts = ["", ""]
    for shared, *own in draw(st.lists(st.tuples(phrases, phrases, phrases), min_size=1, max_size=4)):
        for k in range(2):
            texts[k] += "".join(draw(spaces) + word for word in own[k])
        texts = [text + "".join(" " + word for word in shared) for text in texts]
    return texts[0], texts[1]


@settings(max_examples=60)
@given(edited(), st.sampled_from(sorted(TOKENIZERS)), st.randoms(use_true_random=False))
def test_the_parts_are_those_of_the_definition_and_add_up(texts: tuple[str, str], name: str, rng: Any) -> None:
    assume(texts[0] != texts[1] and all(text.strip() for text in texts))
    blocks = character_blocks(*texts)
    for k, text in enumerate(texts):  # the alignment itself: shared stretches are equal, and nothing is left out
        assert [block[1 + 2 * k] for block in blocks] == np.cumsum([0, *(b[2 + 2 * k] for b in blocks)])[:-1].tolist()
        assert sum(block[2 + 2 * k] for block in blocks) == len(text)
    assert all(texts[0][i : i + n] == texts[1][j : j + m] for same, i, n, j, m in blocks if same)
    tokens = []
    for text in texts:
        ids, spans = tokens_and_characters(TOKENIZERS[name], "", text)
        tokens.append([(one, *span) for one, span in zip(ids, spans.tolist(), strict=True)])
    both = [candidate(own, [-20 * rng.random() for _ in own]) for own in tokens]
    labels = label_tokens(blocks, *both)
    assert [own.tolist() for own in labels] == brute_force(blocks, tokens)
    margin = both[0].logprobs.sum(dtype=np.float64) - both[1].logprobs.sum(dtype=np.float64)
    assert sum(sums(label, labels, both) for label in (BEFORE, AT, AFTER)) == pytest.approx(margin, abs=1e-9)
    after = [
        "".join(
            text[at]
            for at in sorted({c for t, label in zip(own, ls, strict=True) if label == AFTER for c in range(*t[1:])})
        )
        for text, own, ls in zip(texts, tokens, labels, strict=True)
    ]
    assert after[0] == after[1], "the same characters are compared"
    before = [
        [t for t, label in zip(own, ls, strict=True) if label == BEFORE] for own, ls in zip(tokens, labels, strict=True)
    ]
    assert before[0] == before[1], "the same tokens after the same prompt have the same log-probabilities"


def by_character(text: str, *, end: bool = False) -> list[tuple[int, int, int]]:
    return [(ord(c), i, i + 1) for i, c in enumerate(text)] + [(0, len(text), len(text))] * end


def shown(high: str, low: str, tokens: Any = by_character) -> tuple[str, str]:
    """Return the labels of the tokens of two texts as letters: Before, At, aFter."""
    labels = label_tokens(
        character_blocks(high, low), *(candidate(t, [0.0] * len(t)) for t in map(tokens, (high, low)))
    )
    return tuple("".join("BAF"[label] for label in own) for own in labels)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("high", "low", "expected"),
    [
        ("a b c", "a x c", ("BAAFF", "BAAFF")),  # replaced
        ("a c", "a b c", ("BFF", "BAAFF")),  # inserted: the better text has no token at it
        ("a b c", "a c", ("BAAFF", "BFF")),  # taken out
        ("a b c d e", "a x c y e", ("BAAFFAAFF", "BAAFFAAFF")),  # a second difference is an edit again
        ("b c", "x c", ("AFF", "AFF")),  # nothing is before it
        ("a b", "a x", ("BAA", "BAA")),  # nothing is after it
        ("f(a)", "f[a)", ("BAFF", "BAFF")),
        ("老港在夜里", "老港从夜里", ("BBAFF", "BBAFF")),  # no spaces between words
    ],
)
def test_the_labels_of_single_characters(high: str, low: str, expected: tuple[str, str]) -> None:
    assert shown(high, low) == expected


def test_a_token_across_the_border_takes_what_stands_beside_it_in_the_other_text() -> None:
    def tokens(text: str) -> list[tuple[int, int, int]]:
        return [(hash(m[0]) % 1000, m.start(), m.end()) for m in re.finditer(r"\)+:|.", text)]

    # The better text has the token "):" where the worse one has ")):", which holds the bracket too many.
    assert shown("f(x): y", "f(x)): y", tokens) == ("BBBAFF", "BBBAFF")
    assert shown("f(x): y", "f(x)): y") == ("BBBBFFF", "BBBBAFFF")


def test_tokens_around_the_text_go_with_its_beginning_and_its_end() -> None:
    def tokens(text: str) -> list[tuple[int, int, int]]:
        return [(7, 0, 0), *by_character(text, end=True)]

    assert shown("a b", "a x", tokens) == ("BBAAF", "BBAAF")
    assert shown("b a", "x a", tokens) == ("BAFFF", "BAFFF")


def test_an_empty_token_inside_goes_with_what_is_on_both_sides_of_it() -> None:
    """As the number that is put before a line: it stands for no character."""

    def tokens(text: str) -> list[tuple[int, int, int]]:
        lines = [(9, at, at) for at, c in enumerate(text) if text[at - 1 : at] == "\n"]
        return sorted(by_character(text) + lines, key=lambda token: (token[1], token[2]))

    for high, low in (("a b\nc d\ne f", "a b\nc x\ne f"), ("a\nb c", "a\nx c"), ("a\nc", "a b\nc")):
        blocks = character_blocks(high, low)
        labels = label_tokens(blocks, *(candidate(own, [0.0] * len(own)) for own in map(tokens, (high, low))))
        assert [own.tolist() for own in labels] == brute_force(blocks, list(map(tokens, (high, low))))
    assert shown("a\nb\nc d\ne\nf", "a\nb\nc x\ne\nf", tokens) == ("BBBBBBBAAFFFFFF", "BBBBBBBAAFFFFFF")


def test_tokens_before_the_edit_that_differ_because_of_it_are_at_it() -> None:
    tokens = {"ab c": [(1, 0, 1), (2, 1, 2), (3, 2, 4)], "ab d": [(4, 0, 2), (5, 2, 4)]}
    assert shown("ab c", "ab d", tokens.get) == ("AAA", "AA")


def test_texts_that_share_too_little_have_no_parts() -> None:
    assert alignment_of("one two three four", "one two three five") is not None
    assert alignment_of("one two", "six ten") is None
    assert alignment_of("one two", "one two") is None
    assert alignment_of("one", "one, " + "and more " * 5) is None
    assert alignment_of("", "a") is None


# ---------------------------------------------------------------- runs with planted log-probabilities

GOOD = "the old harbour froze and nobody sailed"
EDITED = {"swap": "the old harbour burned and nobody sailed", "more": "the old harbour froze and almost nobody sailed"}
OTHER = "quite another text about rabbits"


def write_run(
    folder: Path,
    model: str,
    logprob: Callable[[int, str, bool], float],
    prompts: int = 12,
    *,
    tokens: bool = True,
    edits: Mapping[str, str] = EDITED,
) -> Path:
    """Write a run in which each prompt has a test of each edit, one of texts without a common word and one of equal texts.

    Args:
        folder: for the files.
        model: its name.
        logprob: (number of the prompt, word of the worse text, whether it comes after the first edited one) -> what a word of a
            worse text has; those of the better one have -1.
        prompts: how many.
        tokens: also write token scores, one token per word.
        edits: category -> worse text.
    """
    folder.mkdir(parents=True)
    date, task = "2026-01-01T00-00-00", "nnd_made_up"
    texts = [GOOD, *edits.values(), OTHER, GOOD]
    samples, rows = [], []
    for number in range(prompts):
        scores = []
        for place, text in enumerate(texts):
            words = list(re.finditer(r"\s*\S+", text))
            new = [word[0].strip() not in GOOD.split() for word in words]
            values = [-1.0 if not place else logprob(number, w[0].strip(), any(new[:k])) for k, w in enumerate(words)]
            total = sum(values)
            scores.append({"sum": total, "mean": total / len(words), "tokens": len(words), "bytes": len(text)})
            ids = [sum(word[0].encode()) for word in words]
            spans = [word.start() for word in words], [word.end() for word in words]
            rows.append((f"p{number}", place, text, "whole", ids, *spans, values))
        tests = [
            {
                **{"test_id": f"p{number}-{low}", "category": category, "high": 0, "low": low},
                **{"passed": scores[0]["mean"] > scores[low]["mean"], "tie": scores[0]["mean"] == scores[low]["mean"]},
            }
            for low, category in enumerate([*edits, "other", "other"], start=1)
        ]
        doc = {"cluster_id": f"p{number}", "context": "c", "candidates": texts, "tests": tests}
        samples.append(json.dumps({"doc": doc, "candidates": scores, "tests": tests}))
    signature = {"line": model, "protocol": PROTOCOL, "model": {"name": model, "window": 64}, "environment": {}}
    results = {
        "configs": {
            task: {"metadata": {"nnd": {"signature": signature, "settings": {"tokens": True} if tokens else {}}}}
        },
        "versions": {task: "1-A"},
        "n-samples": {task: {"effective": prompts}},
        "config": {"model": "hf", "model_args": {"pretrained": model}},
    }
    (folder / f"results_{date}.json").write_text(json.dumps(results))
    (folder / f"samples_{task}_{date}.jsonl").write_text("\n".join(samples) + "\n")
    if tokens:
        table = pa.table(dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True)), schema=SCHEMA)
        pq.write_table(table, folder / f"tokens_{task}_{date}.parquet")
    return folder


def at_it(number: int, word: str, after: bool) -> float:
    return -1.0 if word in GOOD.split() else -3.0 - number / 10


def after_it(number: int, word: str, after: bool) -> float:
    return -2.0 - number / 10 if after else -1.0


def parts_of(paired: Paired) -> dict[str, Any]:
    """Return category -> parts of the margins of a single model."""
    return {row.category: row for row in margin_parts(paired).itertuples()}


def test_a_model_that_notices_an_error_only_at_it_has_no_part_after_it(tmp_path: Path) -> None:
    [paired] = pair(read_results([write_run(tmp_path / "m", "m", at_it)]))
    parts = parts_of(paired)
    assert list(parts) == ["all", "more", "other", "swap"]
    swap, more = parts["swap"], parts["more"]
    assert (swap.tests, swap.left_out, swap.tokens_high, swap.tokens_low) == (12, 0, 1, 1)
    assert (more.tests, more.left_out, more.tokens_high, more.tokens_low) == (12, 0, 0, 1)
    assert (parts["other"].tests, parts["other"].left_out) == (0, 24)
    assert (parts["all"].tests, parts["all"].left_out) == (24, 24)
    noise = np.arange(12) / 10
    assert swap.at == pytest.approx(np.mean(2 + noise), abs=1e-6)
    assert more.at == pytest.approx(np.mean(3 + noise), abs=1e-6)
    assert swap.at_standard_error == pytest.approx(noise.std(ddof=1) / np.sqrt(12), abs=1e-6)
    for one in (swap, more):
        assert (one.before, one.after) == (0, 0)
        assert (one.noticed, one.only_after, one.lost_after) == (1, 0, 0)


def test_a_model_that_notices_an_error_only_after_it_has_no_part_at_it(tmp_path: Path) -> None:
    [paired] = pair(read_results([write_run(tmp_path / "m", "m", after_it)]))
    swap = parts_of(paired)["swap"]
    assert swap.at == 0
    assert swap.after == pytest.approx(3 * (1 + np.mean(np.arange(12) / 10)), abs=1e-6)
    assert (swap.noticed, swap.only_after, swap.lost_after) == (0, 1, 0)


def test_the_shares_add_up_to_the_tests_with_a_positive_margin_of_sums(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    [paired] = pair(read_results([write_run(tmp_path / "m", "m", lambda *_: -float(rng.exponential(1.2)), prompts=40)]))
    [run] = paired.runs
    table = margin_table(run)
    assert table is not None
    joined = table.merge(run.tests, on="test_id")
    kept = joined["at"].notna()
    assert kept.sum() == 80
    total = joined["before"] + joined["at"] + joined["after"]
    assert np.abs(total - joined["margin_sum"])[kept].max() < 1e-5
    for category in EDITED:
        one = parts_of(paired)[category]
        shares = one.noticed, one.only_after, one.lost_after
        # A word more in the worse text can only make it less likely, which is no sign that the word is noticed.
        assert (shares[:2] == (1, 0)) if category == "more" else min(shares) > 0
        expected = (joined["margin_sum"][joined["category_x"] == category] > 0).mean()
        assert shares[0] + shares[1] - shares[2] == pytest.approx(expected)


def test_compare_and_report_show_the_parts_where_there_are_token_scores(
    tmp_path: Path, nnd: Callable[..., Outcome]
) -> None:
    for name, logprob in (("m-at", at_it), ("m-after", after_it)):
        write_run(tmp_path / "with" / name, name, logprob)
        write_run(tmp_path / "without" / name, name, logprob, tokens=False)
    found = {}
    for kind in ("with", "without"):
        done = nnd("compare", tmp_path / kind, "--format", "json")
        assert done.status == 0, done.err
        found[kind] = json.loads(done.out)["tables"]
    assert found["without"].keys() == found["with"].keys() - {"margin_parts"}
    parts = {(row["category"], row["model"]): row for row in found["with"]["margin_parts"]}
    swap = parts["swap", "m-after"]
    assert (swap["tests"], swap["left_out"], swap["tokens_high"], swap["at"], swap["only_after"]) == (12, 0, 1, 0, 1)
    assert parts["swap", "m-at"]["at"] == pytest.approx(2.55)
    assert (parts["other", "m-at"]["tests"], parts["other", "m-at"]["at"]) == (0, None)
    shown = nnd("compare", tmp_path / "with").out
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines() if line.startswith("|")
    ]
    [_, row] = [row for row in cells if row[:2] == ["swap", "m-at"]]  # the first are diagnostics
    assert row[2:5] == ["12", "0", "1.0 / 1.0"]
    assert row[5].startswith("+2.55 [+2.")
    pages = [parse(render_report(read_results([tmp_path / kind]))) for kind in ("with", "without")]
    rows = [[text_of(cell) for cell in row] for row in pages[0].xpath("//table[@class='margin_parts']/tbody/tr")]
    assert row in rows
    assert len(rows) == len(parts)
    assert not pages[1].xpath("//table[@class='margin_parts']")
    commands = [page.xpath("string(//article[@class='run']/pre)") for page in pages]
    assert ["--metadata '{\"tokens\": true}'" in command for command in commands] == [True, False]


def test_one_model_with_token_scores_is_enough_and_damaged_ones_are_refused(
    tmp_path: Path, nnd: Callable[..., Outcome]
) -> None:
    write_run(tmp_path / "runs" / "m-at", "m-at", at_it)
    write_run(tmp_path / "runs" / "m-after", "m-after", after_it, tokens=False)
    [paired] = pair(read_results([tmp_path / "runs"]))
    assert set(margin_parts(paired)["model"]) == {"m-at"}
    [file] = tmp_path.rglob("tokens_*.parquet")
    file.write_bytes(file.read_bytes()[:-100])
    done = nnd("compare", tmp_path / "runs")
    assert done.status == 1
    assert str(file) in done.err
    assert "Traceback" not in done.err


def test_texts_that_all_share_too_little_need_no_table(tmp_path: Path) -> None:
    [paired] = pair(read_results([write_run(tmp_path / "m", "m", at_it, prompts=2, edits={})]))
    assert len(paired.tests) == 4
    assert margin_parts(paired).empty


# ---------------------------------------------------------------- against the model itself


def check_against_the_model(model: Path, task: str, out: Path, limit: int, tests: int, metadata: Any = None) -> None:
    """Run a task, and compare the parts of its first tests with those straight from the model, split by `brute_force`."""
    run_lm_eval(
        [
            *("--model", "hf", "--model_args", f"pretrained={model},dtype=float32", "--tasks", task, "--device", "cpu"),
            *("--limit", str(limit), "--metadata", json.dumps({"tokens": True, **(metadata or {})})),
            *("--output_path", str(out), "--log_samples"),
        ]
    )
    [run] = read_results([out])
    table = margin_table(run)
    assert table is not None
    parts = table.merge(run.tests, on="test_id").dropna(subset=["at"])
    assert len(parts) >= tests, "too few tests share most of their text"
    assert np.abs(parts[["before", "at", "after"]].sum(axis=1) - parts["margin_sum"]).max() < 1e-5
    assert parts["before"].abs().max() < 1e-4, "the same, but for the rounding of rows that were read apart"
    lines = [json.loads(line) for line in run.path.read_text().splitlines()]
    requests = {line["doc"]["cluster_id"]: list(line["arguments"].values()) for line in lines}
    loaded = Straight(model)
    for row in parts.head(tests).to_dict("records"):
        document = run.documents[row["document"]]
        texts = [document["candidates"][row[side]] for side in ("high", "low")]
        asked = [requests[document["cluster_id"]][row[side]] for side in ("high", "low")]
        both = [loaded(one["arg_0"], one["arg_1"], text) for one, text in zip(asked, texts, strict=True)]
        labels = brute_force(character_blocks(*texts), [tokens for tokens, _ in both])
        for name, label in (("before", BEFORE), ("at", AT), ("after", AFTER)):
            high, low = (
                sum(value for value, own in zip(values, ls, strict=True) if own == label)
                for (_, values), ls in zip(both, labels, strict=True)
            )
            assert row[name] == pytest.approx(high - low, abs=1e-4)


class Straight:
    """Gives the tokens of a candidate, with their characters in it, and their log-probabilities, without the harness."""

    def __init__(self, folder: Path) -> None:
        import transformers as tf

        self.tokenizer = tf.AutoTokenizer.from_pretrained(folder)
        self.apart = tf.AutoConfig.from_pretrained(folder).is_encoder_decoder
        kind = tf.AutoModelForSeq2SeqLM if self.apart else tf.AutoModelForCausalLM
        self.model = kind.from_pretrained(folder, dtype="float32").eval()

    def __call__(self, prompt: str, continuation: str, text: str) -> tuple[list[tuple[int, int, int]], list[float]]:
        import torch

        context = self.tokenizer(prompt)["input_ids"]
        whole = continuation if self.apart else prompt + continuation
        encoded = self.tokenizer(whole, return_offsets_mapping=True, add_special_tokens=False)
        skipped = 0 if self.apart else len(context)
        ids = encoded["input_ids"][skipped:]
        places = [0] * (len(whole) - len(continuation))  # before which character of the candidate each character stands
        for number, line in enumerate(text.split("\n")):  # PRMBench's lines have numbers before them
            begin = whole.index(line, len(places) if number else len(whole) - len(continuation))
            start = len("\n".join(text.split("\n")[:number])) + bool(number)
            places += [start] * (begin - len(places)) + list(range(start, start + len(line) + 1))
        places += [len(text)] * (len(whole) + 1 - len(places))
        ends = [places[end] for _, end in encoded["offset_mapping"][skipped:]]
        with torch.inference_mode():
            if self.apart:
                logits = self.model(input_ids=torch.tensor([context]), labels=torch.tensor([ids])).logits[0]
            else:
                logits = self.model(torch.tensor([context + ids])).logits[0, len(context) - 1 : -1]
        values = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()
        return list(zip(ids, [0, *ends[:-1]], ends, strict=True)), values


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_the_parts_are_those_of_the_model(name: str, tiny_models: dict[str, Path], home: Path, tmp_path: Path) -> None:
    check_against_the_model(tiny_models[name], "nnd_demo", tmp_path, 20, 3, {"append_eos": True})


@pytest.mark.complete
@pytest.mark.parametrize("name", ["bump", "humanevalfix", "prmbench", "summedits"])
def test_the_parts_are_those_of_a_trained_model_on_real_sets(
    name: str, models: Path, real_sets: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NND_HOME", str(real_sets(name).parents[1]))
    check_against_the_model(models / "tiny-lm-m", f"nnd_{name}", tmp_path, 12, 8)
