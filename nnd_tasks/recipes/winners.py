"""Which of the two texts of a pair a table's column names as the winner."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.cells import render, short_repr
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.wording import some_of


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
    "doesn isn wasn cannot neither than over"
)
#: What stands before or after a letter or number that names a side: "Response B", "B is better". In "a better one" none does.
_BEFORE = _words(
    "answer response option model candidate text output summary assistant system translation story choice side version "
    "completion conversation prefer prefers preferred chose choose chosen is winner for over than"
)
_AFTER = _words("is was wins won win beats")
_VERDICTS = _words("better best wins won preferred winner")
_ADVERBS = _words("much far a bit lot slightly somewhat clearly strongly marginally significantly way")
_SIDES = {"1": 0, "a": 0, "left": 0, "first": 0, "2": 1, "b": 1, "right": 1, "second": 1}
_ORDINALS = _words("left right first second")
#: What stands before a side in a label such as ``better_1``, and beside one in "the first one is better".
_LABELS = _BEFORE - _NEGATIVE | _words("the better")
_BESIDE = _LABELS | _AFTER | _words("one preferred winner")
#: What a value of the column may mean by `Recipe.winners`; ``system`` is the text by the system of that name.
MEANINGS: Mapping[str, int | str] = {"first": 0, "second": 1, "tie": "tie", "system": "system"}


def check_pairs(recipe: Recipe, where: str) -> None:
    """Raise NNDError for keys of a recipe of ready-made pairs that do not go together."""
    if recipe.pair or recipe.winner:
        if len(recipe.pair) != 2 or not recipe.winner:
            raise NNDError(
                "--pair A,B and --winner COLUMN go together: two columns of texts, and the one that says which won"
            )
        if recipe.chosen or recipe.rejected:
            raise NNDError("--pair and --winner say what --chosen and --rejected say; leave one of the two out")
        one, other, names = *recipe.pair, "--pair and --winner"
    elif not (recipe.chosen and recipe.rejected):
        raise NNDError("--chosen and --rejected go together: name both columns")
    else:
        one, other, names = recipe.chosen, recipe.rejected, "--chosen and --rejected"
    if one == other:
        raise NNDError(f"column {one!r} cannot be both chosen and rejected")
    wrong = [f"--{role}" for role in ("candidate", "label", "score", "system", "rater", "attribute", "ignore")
             if getattr(recipe, role)] + recipe.rules  # fmt: skip
    if wrong:
        raise NNDError(f"{wrong[0]} does not go with {names}, which say themselves what is better")
    if recipe.winners and not recipe.winner:
        raise NNDError(f"{where}: winners says what the values of --winner mean; name its column")
    for value, meaning in recipe.winners.items():
        if meaning not in MEANINGS or (meaning == "system" and not recipe.systems):
            known = "first, second, tie, or system (beside systems)"
            raise NNDError(f"{where}: winners: {short_repr(value)} means {known}, not {short_repr(meaning)}")


def winner(cell: Any, recipe: Recipe, where: str, systems: Sequence[Any] = ()) -> int | str:
    """Return which column of `Recipe.pair` a cell of `Recipe.winner` names: 0 or 1, ``tie``, or ``no_judgement``.

    `Recipe.winners` says what a cell means. Without it a side is named by its column, by the last part of that name
    (``answer_1``: 1), by 1 or 2, A or B, left or right, first or second; by a text that contains one of these and no negative
    word, such as "answer_1 is better", "Response B", or ``A > B``; or by the name of its system.

    Args:
        cell: of the column of the winner.
        recipe: names the columns.
        where: begins an error.
        systems: who wrote the two texts; empty if nobody says it.

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
    own = _written_by(text, systems, where)
    if recipe.winners:
        meaning = {_plain(value): meaning for value, meaning in recipe.winners.items()}.get(_plain(text))
        if meaning is None or (meaning == "system" and own is None):
            raise _unknown(text, recipe, where, systems)
        return own if meaning == "system" and own is not None else MEANINGS[meaning]
    names = [_fold(column) for column in recipe.pair]
    ends = [name.rsplit("_", 1)[-1] for name in names]
    if ends[0] == ends[1]:
        ends = names
    parts = [{*name.split("_")} for name in names]
    own_parts = {part: side for side in (0, 1) for part in parts[side] - parts[1 - side] if part in _SIDES}
    swapped = any(_SIDES[part] != side for part, side in own_parts.items())  # system_b, system_a: the names count
    sides = {
        **({} if swapped else _SIDES),
        **own_parts,
        **{end: side for side, end in enumerate(ends)},
        **{name: side for side, name in enumerate(names)},
    }
    folded = _fold(text)
    side = sides.get(_plain(text)) if _NUMBER.fullmatch(text) else _side(folded, sides)
    if own is not None:
        if side not in (None, own):
            raise NNDError(
                f"{where}: {short_repr(text)} is the system of {recipe.pair[own]!r}, but may also stand for "
                f"{recipe.pair[1 - own]!r}; write in the recipe `winners: {{{short_repr(text)}: system}}` (or first, or second), "
                "and so for each value"
            )
        return own
    if side is not None:
        return side
    if _NUMBER.fullmatch(text):  # no 0, 10 or 1.5
        raise _unknown(text, recipe, where, systems)
    said = folded.split("_")
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
    raise _unknown(text, recipe, where, systems)


_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")


def _plain(text: str) -> str:
    """Return a value in the form in which values are compared: 1.0, which stands for 1 in a column with empty cells, is 1."""
    text = text.strip().casefold()
    return re.sub(r"[.,]0+$", "", text) if _NUMBER.fullmatch(text) else text


def _written_by(text: str, systems: Sequence[Any], where: str) -> int | None:
    """Return which of the two texts is by the system that a cell names; None if it names neither.

    Raises:
        NNDError: both texts are by this system.
    """
    names = [str(name if name is not None else "").strip() for name in systems]
    own = [side for side, name in enumerate(names) if name == text]
    own = own or [side for side, name in enumerate(names) if _fold(name) and _fold(name) == _fold(text)]
    if len(own) == 2:
        raise NNDError(f"{where}: both texts are by {short_repr(text)}, so its name does not say which one won")
    return own[0] if own else None


def _side(folded: str, sides: Mapping[str, int]) -> int | None:
    """Return the side of a short label, such as ``model_a``, ``better1`` or "the first one"; None if it is another text."""
    if folded in sides:
        return sides[folded]
    *before, last = re.sub(r"^(\w*[a-z])([12])$", r"\1_\2", folded).split("_")
    if {*before} <= _LABELS and last in sides:
        return sides[last]
    said = {*folded.split("_")}
    ordinals = said & _ORDINALS & sides.keys()
    return sides[ordinals.pop()] if len(ordinals) == 1 and said <= _BESIDE | _ORDINALS else None


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


def _unknown(text: str, recipe: Recipe, where: str, systems: Sequence[Any]) -> NNDError:
    shown = short_repr(text)
    if recipe.winners:
        known = some_of(list(recipe.winners))
        fault = f"is none of the values of winners ({known}), which says what each means; add {shown} to it"
        if _plain(text) in map(_plain, recipe.winners):
            fault = f"is none of the systems of this row ({some_of(list(map(str, systems)))})"
    else:
        fault = (
            f"names neither {recipe.pair[0]!r} nor {recipe.pair[1]!r} as the winner; a winner is named by its column"
            f"{' or system' if recipe.systems else ''}, by 1 or 2, A or B, left or right, first or second. Else write in the "
            f"recipe what each value of the column means, such as `winners: {{{shown}: first, ...}}`: first, second or tie"
        )
    return NNDError(f"{where}: {shown} {fault}. If it says that nobody judged, add it to --missing")


def _fold(text: str) -> str:
    """Return a name in lower case, with ``_`` in place of anything that is not a letter or digit."""
    return re.sub(r"\W+|_+", "_", text.casefold()).strip("_")
