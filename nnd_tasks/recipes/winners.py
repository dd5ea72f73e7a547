"""Which of the two texts of a pair a table's column names as the winner."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.cells import render, short_repr
from nnd_tasks.recipes.recipe import Recipe


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TIES = _words(
    "tie ties tied both equal equally same draw neither none similar equivalent bothbad both_bad no_preference"
)
#: Characters of ``A > B`` in any form (on a longer text the pattern would try every split of it), and of any cell.
_LONGEST, _MOST = 100, 2000
_COMPARED = re.compile(r"^\W*([ABab12])\W*?([<>=]+)\W*([ABab12])\W*(?:\([^()]*\)\W*)?$")
#: Words of a text that says which side did not win; which one did is then not guessed.
_NEGATIVE = _words(
    "worse worst not no never less least lose loses lost inferior weaker bad poor poorly nor wrong fails failed rejected "
    "doesn isn wasn cannot neither"
)
#: What stands before or after a letter or number that names a side: "Response B", "B is better". In "a better one" none does.
_BEFORE = _words(
    "answer response option model candidate text output summary assistant system translation story choice side version "
    "completion conversation prefer prefers preferred chose choose chosen is winner for over than"
)
_AFTER = _words("is was wins won win beats")
_VERDICTS = _words("better best wins won preferred winner")
_ADVERBS = _words("much far a bit lot slightly somewhat clearly strongly marginally significantly way")
_NUMBERS = {"1": 0, "a": 0, "2": 1, "b": 1}


def winner(cell: Any, recipe: Recipe, where: str) -> int | str:
    """Return which column of `Recipe.pair` a cell of `Recipe.winner` names: 0 or 1, ``tie``, or ``no_judgement``.

    A side is named by its column, by the last part of that name (``answer_1``: 1), by 1 or 2, or A or B; or by a text that
    contains one of these and no negative word, such as "answer_1 is better", "Response B", or ``A > B``.

    Raises:
        NNDError: the cell names neither side, or may be read in two ways.
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
    swapped = any(
        _NUMBERS.get(end, side) != side for side, end in enumerate(ends)
    )  # system_b, system_a: the names count
    sides = {
        **({} if swapped else _NUMBERS),
        **{end: side for side, end in enumerate(ends)},
        **{name: side for side, name in enumerate(names)},
    }
    if re.fullmatch(r"[+-]?\d+([.,]\d+)?", text):  # no 0, 10 or 1.5
        side = sides.get(re.sub(r"[.,]0+$", "", text))
        if side is None:
            raise _names_neither(text, recipe, where)
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
        raise NNDError(f"{where}: {short_repr(text)} names both columns; write which one won, or add it to --missing")
    if named and not _NEGATIVE & {*said}:
        return named.pop()
    raise _names_neither(text, recipe, where)


def _named(text: str, folded: str, names: list[str], ends: list[str], sides: Mapping[str, int]) -> set[int]:
    """Return the sides that a text names, by whole names or their last parts, else by a letter or number."""
    for known in (names, [end for end in ends if len(end) > 1]):
        if named := {sides[name] for name in known if f"_{name}_" in f"_{folded}_"}:
            return named
    tokens = re.findall(r"[^\W_]+", text)
    words = [token.casefold() for token in tokens]
    verdict = bool(words) and words[-1] in _VERDICTS and {*words[1:-1]} <= _ADVERBS  # A slightly better
    named = set()
    for i, word in enumerate(words):
        if len(tokens[i]) > 1 or tokens[i].islower() or word not in sides:
            continue
        before, after = words[i - 1] if i else "", words[i + 1] if i + 1 < len(words) else ""
        joined = {before, after} & {"and", "or"}
        if before in _BEFORE or after in _AFTER or joined or (verdict and i == 0) or len(words) == 1:
            named.add(sides[word])
    if not named and {*words} <= sides.keys():  # A-B
        named = {sides[word] for word in words}
    return named


def _names_neither(text: str, recipe: Recipe, where: str) -> NNDError:
    return NNDError(
        f"{where}: {short_repr(text)} names neither {recipe.pair[0]!r} nor {recipe.pair[1]!r} as the winner; a winner is "
        "named by its column, by 1 or 2, or A or B. If it says that nobody judged, add it to --missing"
    )


def _fold(text: str) -> str:
    """Return a name in lower case, with ``_`` in place of anything that is not a letter or digit."""
    return re.sub(r"\W+|_+", "_", text.casefold()).strip("_")
