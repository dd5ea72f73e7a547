"""Ready-made pairs: plain texts or chats, with the better one in a column of its own or named by another column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnd_tasks.codes import Index, fold_codes
from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import Dropped, Prompts, decide
from nnd_tasks.recipes.cells import Column, listed, render, shown
from nnd_tasks.recipes.chat import Split, add_context, split_pair
from nnd_tasks.recipes.flatten import batches, without
from nnd_tasks.recipes.readers import Batch, Table
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.rows import Reader, SpanReader, field_roles, prompts_of

#: Columns of a batch that hold what was made of others; no table has one of these names.
_CONTEXT, _CHOSEN, _REJECTED = "\0context", "\0chosen", "\0rejected"


@dataclass
class Preferences:
    """One entry per test; all arrays have shape (tests,).

    Attributes:
        prompt: number of the prompt.
        high: code of the better text.
        low: code of the worse one.
        category: code of the category, or None.
        row: number of its row.
        prompts: the distinct prompts.
        texts: of the candidates.
        categories: of the codes.
        rows: how many rows the table has.
        dropped: what was left out.
        fuller: number of pairs whose texts share turns that the column of the context does not say.
        spans: code of the error spans of the worse one, or None.
        spans_json: of the codes.
    """

    prompt: Index
    high: Index
    low: Index
    category: Index | None
    row: Index
    prompts: Prompts
    texts: list[str]
    categories: list[str]
    rows: int
    dropped: Dropped
    fuller: int
    spans: Index | None = None
    spans_json: Sequence[str] = ()


def read_preferences(table: Table, recipe: Recipe) -> Preferences:
    """Read a table of ready-made pairs.

    What both texts begin with (whole messages of chats, turns of a dialogue) becomes the context. With a context
    column, a dialogue is split only if the column contains the whole shared part; messages beyond it are added to the context.
    Left out and counted are pairs without a winner, with an empty text, that answer different prompts, of equal texts, that
    repeat an earlier one, and those that people judged both ways round equally often; where one way has more judgements it is
    kept.

    Raises:
        NNDError: a file that cannot be read, or a cell that holds something else; the row is named.
    """
    pairs = _Pairs(recipe)
    skipped = Dropped()
    for batch in batches(table, recipe):
        pairs.take(without(batch, recipe, skipped))
    if not pairs.reader.count:
        raise NNDError(f"{table.name}: it holds no row; is it the right file?")
    pairs.spans.say(table)
    found = _assemble(pairs, recipe)
    found.rows += skipped.counts.get("by_recipe", 0)
    found.dropped.counts = {**skipped.counts, **found.dropped.counts}
    found.dropped.rows = {**skipped.rows, **found.dropped.rows}
    return found


class _Pairs:
    """Reads pairs, and splits from both texts what they share.

    Attributes:
        apart: per row whether its texts answer different prompts.
        undecided: per row ``tie`` or ``no_judgement`` where no text won, else ``""``.
        fuller: number of rows whose texts share turns that the column of the context does not say.
        spans: error spans of the worse text.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        roles = {"context": _CONTEXT, "chosen": _CHOSEN, "rejected": _REJECTED}
        roles |= {"category": recipe.category} if recipe.category else {}
        self.reader = Reader({**roles, **field_roles(recipe)}, recipe)
        self.reader.texts["rejected"] = self.reader.texts["chosen"]  # one numbering of candidates
        self.apart: list[bool] = []
        self.undecided: list[str] = []
        self.fuller = 0
        self.spans = SpanReader(recipe)
        self._won: dict[str, int | str] = {}

    def take(self, batch: Batch) -> None:
        """Take in a batch, split."""
        parts = [self._split(batch, i, *pair) for i, pair in enumerate(self._pairs(batch))]
        made: dict[str, Column] = {
            _CONTEXT: [part.context for part in parts],
            _CHOSEN: [part.chosen for part in parts],
            _REJECTED: [part.rejected for part in parts],
        }
        split = Batch(batch.numbers, {**batch.columns, **made}, batch.place)
        self.reader.add(split)
        self.spans.add(split, _REJECTED)

    def _pairs(self, batch: Batch) -> Iterator[tuple[Any, Any, str | None]]:
        """Yield better, worse, and what the column of the context says, of each row."""
        recipe = self._recipe
        contexts: list[Any] = [None] * len(batch.numbers)
        if recipe.context is not None:
            contexts = [self._text(batch, i, cell) for i, cell in enumerate(listed(batch.columns[recipe.context]))]
        if not recipe.pair:
            self.undecided += [""] * len(contexts)
            chosen, rejected = (listed(batch.columns[str(column)]) for column in (recipe.chosen, recipe.rejected))
            return zip(chosen, rejected, contexts, strict=True)
        where, known, sides = batch.where(str(recipe.winner)), self._won, []
        for i, cell in enumerate(listed(batch.columns[str(recipe.winner)])):
            side = known.get(cell) if isinstance(cell, str) else None
            if side is None:
                side = winner(cell, recipe, where(i))
                if isinstance(cell, str):
                    known[cell] = side
            sides.append(side)
        self.undecided += [side if isinstance(side, str) else "" for side in sides]
        one, other = (listed(batch.columns[column]) for column in recipe.pair)
        ordered = [(b, a) if side == 1 else (a, b) for a, b, side in zip(one, other, sides, strict=True)]
        return ((*pair, context) for pair, context in zip(ordered, contexts, strict=True))

    def _text(self, batch: Batch, i: int, cell: Any) -> str:
        try:
            return render(cell) or ""
        except ValueError as error:
            raise NNDError(f"{batch.where(str(self._recipe.context))(i)}: {error}") from None

    def _split(self, batch: Batch, i: int, chosen: Any, rejected: Any, column: str | None) -> Split:
        try:
            found = split_pair(chosen, rejected)
        except ValueError as error:
            names = self._recipe.pair or (self._recipe.chosen, self._recipe.rejected)
            raise NNDError(f"{batch.place(i)}, columns {names[0]!r} and {names[1]!r}: {error}") from None
        self.apart.append(found is None)
        if found is None:
            return Split("", (), None, None)
        if column is None:
            return found
        context = add_context(column, found)
        if context == column:
            return Split(column, (), found.chosen, found.rejected)
        if isinstance(chosen, str) and column.strip():
            return Split(column, (), chosen, rejected)
        self.fuller += 1
        return Split(context, (), found.chosen, found.rejected)


_TIES = frozenset(
    [
        *(
            "tie",
            "ties",
            "tied",
            "both",
            "equal",
            "equally",
            "same",
            "draw",
            "neither",
            "none",
            "similar",
            "equivalent",
        ),
        *("bothbad", "both_bad", "no_preference"),
    ]
)
#: Characters of ``A > B`` in any form; on a longer text the pattern would try every split of it.
_LONGEST, _MOST = 100, 2000
_COMPARED = re.compile(r"^\W*([ABab12])\W*?([<>=]+)\W*([ABab12])\W*(?:\([^()]*\)\W*)?$")
#: Words of a text that says what did not win; what did is not guessed.
_NEGATIVE = frozenset(
    [
        "worse",
        "worst",
        "not",
        "no",
        "never",
        "less",
        "least",
        "lose",
        "loses",
        "lost",
        "inferior",
        "weaker",
        "bad",
        "poor",
        "poorly",
        "nor",
        "wrong",
        "fails",
        "failed",
        "rejected",
        "doesn",
        "isn",
        "wasn",
        "cannot",
        "neither",
    ]
)
#: What stands before or after a letter or number that names a side: "Response B", "B is better". In "a better one" none does.
_BEFORE = frozenset(
    [
        "answer",
        "response",
        "option",
        "model",
        "candidate",
        "text",
        "output",
        "summary",
        "assistant",
        "system",
        "translation",
        "story",
        "choice",
        "side",
        "version",
        "completion",
        "conversation",
        "prefer",
        "prefers",
        "preferred",
        "chose",
        "choose",
        "chosen",
        "is",
        "winner",
        "for",
        "over",
        "than",
    ]
)
_AFTER = frozenset(["is", "was", "wins", "won", "win", "beats"])
_VERDICTS = frozenset(["better", "best", "wins", "won", "preferred", "winner"])
_ADVERBS = frozenset(
    [
        "much",
        "far",
        "a",
        "bit",
        "lot",
        "slightly",
        "somewhat",
        "clearly",
        "strongly",
        "marginally",
        "significantly",
        "way",
    ]
)


def winner(cell: Any, recipe: Recipe, where: str) -> int | str:
    """Return which column of `Recipe.pair` a cell of `Recipe.winner` names: 0 or 1, ``tie``, or ``no_judgement``.

    A side is named by its column, by the last part of that name (``answer_1``: 1), by 1 or 2, or A or B; or by a text that
    contains one of these and says nothing against it, such as "answer_1 is better", "Response B", or ``A > B``.

    Raises:
        NNDError: it says something else, or may be read in two ways.
    """
    try:
        text = (render(cell) or "").strip()
    except ValueError as error:
        raise NNDError(f"{where}: {error}") from None
    if len(text) > _MOST:
        raise NNDError(f"{where}: a text of {len(text):,} characters names no winner")
    if not text or text.casefold() in {one.strip().casefold() for one in recipe.missing}:
        return "no_judgement"
    names = [_fold(column) for column in recipe.pair]
    ends = [name.rsplit("_", 1)[-1] for name in names]
    if ends[0] == ends[1]:
        ends = names
    letters = {"1": 0, "a": 0, "2": 1, "b": 1}
    if any(letters.get(end, side) != side for side, end in enumerate(ends)):  # system_b, system_a: the names go first
        letters = {}
    sides = {
        **letters,
        **{end: side for side, end in enumerate(ends)},
        **{name: side for side, name in enumerate(names)},
    }
    if re.fullmatch(r"[+-]?\d+([.,]\d+)?", text):  # no 0, 10 or 1.5
        side = sides.get(re.sub(r"[.,]0+$", "", text))
        if side is None:
            raise NNDError(f"{where}: {_names_neither(text, recipe)}")
        return side
    folded = _fold(text)
    if folded in sides:
        return sides[folded]
    said = folded.split("_")
    if {*said[:-1]} <= _BEFORE and said[-1] in sides:  # model_a, beside answer_a
        return sides[said[-1]]
    if len(text) <= _LONGEST and (match := _COMPARED.match(text)):
        left, sign, right = sides.get(match[1].lower()), match[2], sides.get(match[3].lower())
        if left is not None and right is not None and left != right and len(set(sign)) == 1:
            return "tie" if "=" in sign else left if ">" in sign else right
    if _TIES & {*said, folded}:
        return "tie"
    named = _named(text, folded, names, ends, sides)
    if len(named) == 2 and not {*said} - {*sides, *"_".join(names).split("_"), "and", "or"}:
        return "tie"
    if len(named) == 2:
        raise NNDError(f"{where}: {shown(text)} names both columns; write which one won, or add it to --missing")
    if named and not _NEGATIVE & {*said}:
        return named.pop()
    raise NNDError(f"{where}: {_names_neither(text, recipe)}")


def _named(text: str, folded: str, names: list[str], ends: list[str], sides: Mapping[str, int]) -> set[int]:
    """Return the sides that a text names, by whole names or their last parts, else by a letter or number."""
    words = f"_{folded}_"
    for known in (names, [end for end in ends if len(end) > 1]):
        if found := {sides[name] for name in known if f"_{name}_" in words}:
            return found
    found = set()
    tokens = re.findall(r"[^\W_]+", text)
    for i, token in enumerate(tokens):
        if len(token) > 1 or token.islower() or token.casefold() not in sides:
            continue
        before, after = (
            (tokens[i - 1].casefold() if i else ""),
            (tokens[i + 1].casefold() if i + 1 < len(tokens) else ""),
        )
        verdict = i == 0 and tokens[-1].casefold() in _VERDICTS and {*map(str.casefold, tokens[1:-1])} <= _ADVERBS
        if (
            before in _BEFORE
            or after in _AFTER
            or verdict
            or len(tokens) == 1
            or after in ("and", "or")
            or before in ("and", "or")
        ):
            found.add(sides[token.casefold()])
    if not found and {*map(str.casefold, tokens)} <= sides.keys():  # A-B
        found = {sides[token.casefold()] for token in tokens}
    return found


def _names_neither(text: str, recipe: Recipe) -> str:
    return (
        f"{shown(text)} names neither {recipe.pair[0]!r} nor {recipe.pair[1]!r} as the winner; a winner is named by its column, "
        "by 1 or 2, or A or B. If it says that nobody judged, add it to --missing"
    )


def _fold(text: str) -> str:
    """Return a name in lower case, with ``_`` for what is no letter or digit."""
    return re.sub(r"\W+|_+", "_", text.casefold()).strip("_")


def _assemble(pairs: _Pairs, recipe: Recipe) -> Preferences:
    reader = pairs.reader
    rows, chosen, rejected = reader.numbers, reader.codes("chosen"), reader.codes("rejected")
    context, dropped, texts = reader.codes("context"), Dropped(), reader.texts["chosen"]
    one, other = fold_codes(texts, chosen), fold_codes(texts, rejected)
    wrong = np.zeros(len(rows), dtype=bool)
    whole = recipe.candidates == "rows"  # equal and empty texts stay; the clean config leaves them out

    def leave_out(reason: str, which: Any) -> None:
        nonlocal wrong
        which = which & ~wrong
        dropped.add(reason, int(which.sum()), rows[which])
        wrong |= which

    undecided = np.array(pairs.undecided, dtype=object)
    for reason in ("tie", "no_judgement"):
        leave_out("undecided" if reason == "tie" else reason, undecided == reason)
    leave_out("other_prompt", np.array(pairs.apart, dtype=bool))
    if not whole:
        leave_out("empty", (chosen < 0) | (rejected < 0))
        leave_out("equal_texts", one == other)
        leave_out("no_context", (context < 0) & (recipe.context is not None))
    prompt, prompts = prompts_of(reader, recipe)
    category = reader.codes("category") if "category" in reader.roles else None
    if category is not None:
        leave_out("no_category", category < 0)
    keep = np.flatnonzero(~wrong)
    if not whole:
        keep = decide(keep, prompt, one, other, category, rows, dropped)
    return Preferences(
        prompt[keep], chosen[keep].astype(np.int64), rejected[keep].astype(np.int64),
        None if category is None else category[keep].astype(np.int64), rows[keep], prompts, texts.texts,
        reader.texts["category"].texts if category is not None else [], len(rows), dropped, pairs.fuller,
        pairs.spans.codes()[keep].astype(np.int64) if pairs.spans.found else None, pairs.spans.texts.texts,
    )  # fmt: skip
