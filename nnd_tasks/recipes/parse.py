"""From YAML or options to a checked `Recipe`."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_text
from nnd_tasks.languages import check_language
from nnd_tasks.recipes import limits
from nnd_tasks.recipes.cells import render, short_repr
from nnd_tasks.recipes.flatten import check_rows
from nnd_tasks.recipes.recipe import ERRORS, FILE, FOLDER, File, Recipe
from nnd_tasks.recipes.spans import check_spans
from nnd_tasks.recipes.winners import check_pairs
from nnd_tasks.schema import check_field_names, normalize
from nnd_tasks.wording import did_you_mean
from nnd_tasks.yaml_json import UniqueLoader, parse_yaml

#: Reads the value of a key: (key, value, what begins an error) -> value in the type of `Recipe`.
Reader: TypeAlias = Callable[[str, Any, str], Any]
KEYS = tuple(one.name for one in dataclasses.fields(Recipe))
#: An option of `nnd new` in an error; in a recipe it is a key.
_OPTION = re.compile(rf"--({'|'.join(key.replace('_', '-') for key in sorted(KEYS, key=len, reverse=True))})\b(?!-)")


def with_keys(message: str) -> str:
    """Return an error with the keys of a recipe in place of the options of `nnd new`."""
    return _OPTION.sub(lambda option: f"`{option[1].replace('-', '_')}:`", message)


def read_recipe(path: Path) -> dict[str, Any]:
    """Return the keys and values of a recipe's YAML.

    Raises:
        NNDError: it cannot be read, is not a mapping, or has an unknown key.
    """
    text = read_text(path, limit=limits.MAX_RECIPE_BYTES)
    try:
        options = parse_yaml(text, str(path), UniqueLoader)
    except NNDError as error:
        if not re.search(r"\{[^}'\"]*\[\]", text):
            raise
        raise NNDError(f"{error}; within {{}}, a name with [] needs quotes, such as {{column: 'errors[]'}}") from error
    if not isinstance(options, Mapping):
        raise NNDError(f"{path}: a recipe is a mapping such as `candidate: summary`, one key per line")
    _check_keys(options, KEYS, str(path))
    return dict(options)


def _check_keys(keys: Iterable[Any], known: Sequence[str], where: str) -> None:
    for key in keys:
        if key not in known:
            raise NNDError(
                f"{where}: no such key {short_repr(key)}; {did_you_mean(str(key), known) or ', '.join(known)}"
            )


def make_recipe(options: Mapping[str, Any], where: str = "recipe") -> Recipe:
    """Return the recipe that ``options`` describe, with all checks that do not need the table.

    Args:
        options: keys as in `Recipe`; in place of a list there may be a single value.
        where: begins an error.

    Raises:
        NNDError: a value of a wrong type, two rules, or options that exclude each other.
    """
    _check_keys(options, KEYS, where)
    limits.check_values(options, where)
    given = {key: value for key, value in options.items() if value is not None}
    readers: dict[str, Reader] = dict.fromkeys(given, _text) | {key: _READERS[key] for key in given if key in _READERS}
    recipe = Recipe(**{key: readers[key](key, value, where) for key, value in given.items()})
    if len(recipe.rules) > 1:
        raise NNDError(f"{' and '.join(recipe.rules)}: a set has one rule; leave all but one out")
    if recipe.spans:
        check_spans(recipe.spans, where, pairs=recipe.candidate is None)
    if recipe.pairs:
        check_pairs(recipe, where)
    elif recipe.systems:
        raise NNDError(f"{where}: systems are of the two texts of a pair; of one candidate it is system")
    elif recipe.winner or recipe.winners:
        raise NNDError("--winner says which column of a pair won; name the two columns with --pair A,B")
    _check_numbers(recipe)
    _check_labels(recipe)
    if (recipe.label or recipe.score) and len(recipe.attribute) > 1:
        raise NNDError(
            "--attribute: beside --label or --score it is the one column that names what was judged; without them it "
            "is each column of judgements"
        )
    _check_limits(recipe, where)
    _check_clean(recipe, options, where)
    check_field_names(recipe.field)
    for language in recipe.language:
        check_language(language)
    if recipe.context is not None and recipe.context == recipe.candidate:
        raise NNDError(f"column {recipe.context!r} cannot be both context and candidate")
    return recipe


def _check_limits(recipe: Recipe, where: str) -> None:
    """Raise NNDError for values that could fill the memory or lead out of the folder, and for roles without a column."""
    limits.check_each(recipe.each, len(recipe.columns()), where)
    limits.check_marks(recipe.strip, where)
    if recipe.prompt is not None:
        limits.check_prompt(recipe.prompt, where)
    if recipe.pattern is not None:
        limits.check_pattern(recipe.pattern, where)
    if recipe.config is not None:
        limits.check_config(recipe.config, where, FILE, FOLDER)
    if recipe.encoding is not None:
        limits.check_encoding(recipe.encoding)
    if recipe.rows is not None:
        check_rows(recipe.rows, where)
    if recipe.votes and not recipe.system:
        raise NNDError(f"{where}: votes name systems; name the column of a candidate's with system")
    for name in recipe.votes:
        if name not in ("best", "worst"):
            raise NNDError(f"{where}: votes has best and worst, not {short_repr(name)}")
    roles = ("group", "context", "candidate", "label", "score", "chosen", "rejected")
    if empty := [role for role in roles if getattr(recipe, role) == ""]:
        raise NNDError(f"{where}: {empty[0]} names no column")
    if recipe.systems and len(recipe.systems) != 2:
        raise NNDError(f"{where}: systems are two columns, one for each text of a pair")
    if len(recipe.same) == 1:
        raise NNDError(f"{where}: same is two columns or more that must hold the same")
    if recipe.errors not in ERRORS:
        raise NNDError(f"{where}: errors is {' or '.join(ERRORS)}, not {short_repr(recipe.errors)}")
    if recipe.list_category and ({*recipe.list_category} != {"none", "several"} or not recipe.category):
        raise NNDError(f"{where}: list_category names a category for `none` and one for `several`, beside category")
    if recipe.subcategory and (recipe.categories or recipe.separator):
        raise NNDError(f"{where}: subcategory does not go with categories or separator, which make one themselves")
    if recipe.separator == "":
        raise NNDError(f"{where}: separator is what stands between the parts of a label, such as /")


#: Keys that may have another value for the clean config: how rows are read and compared, not where they come from.
_CLEAN = (
    *("best", "better", "categories", "category", "ignore", "leave_out", "majority", "min_gap", "missing", "order"),
    *("same", "scale", "separator", "severity", "strip"),
)


def _check_clean(recipe: Recipe, options: Mapping[str, Any], where: str) -> None:
    """Raise NNDError where ``clean`` changes keys that it must not change, or does not give a valid recipe."""
    if not recipe.clean:
        return
    if recipe.candidates != "rows" or recipe.pairs:
        raise NNDError(f"{where}: clean changes the clean config, which only a set with `candidates: rows` has")
    _check_keys(recipe.clean, _CLEAN, f"{where}: clean")
    make_recipe({**{key: value for key, value in options.items() if key != "clean"}, **recipe.clean}, f"{where}: clean")


def _check_numbers(recipe: Recipe) -> None:
    if recipe.min_gap is not None and not (recipe.min_gap > 0 and math.isfinite(recipe.min_gap)):
        raise NNDError(f"--min-gap {recipe.min_gap:g}: a gap is above 0")
    if recipe.best is not None and not recipe.majority:
        raise NNDError("--best belongs to --majority; leave it out")
    if recipe.label and recipe.score and recipe.candidates != "rows":
        raise NNDError("--label and --score: people gave a label or a number; leave one out")
    if recipe.by_label and recipe.score:
        raise NNDError(f"{recipe.rules[0]} compares labels; name their column with --label, not --score")
    if recipe.label and recipe.rules and not recipe.by_label and not (recipe.score or recipe.votes):
        raise NNDError(f"{recipe.rules[0]} compares numbers; name their column with --score, not --label")


def _check_labels(recipe: Recipe) -> None:
    ranked = [label for rank in recipe.order for label in rank]
    if len(set(ranked)) < len(ranked):
        raise NNDError("--order: a label is named twice")
    if recipe.order and len(recipe.order) < 2:
        raise NNDError("--order: name two labels or more, the worst first")
    if recipe.ignore and recipe.rules and not recipe.by_label:
        raise NNDError(f"--ignore names labels, which {recipe.rules[0]} does not read; leave it out")
    unclear = sorted(set(recipe.ignore) & {*recipe.better, *ranked})
    if unclear:
        raise NNDError(f"--ignore {unclear[0]}: {recipe.rules[0]} names this label too; leave it out of one")


# ---------------------------------------------------------------- values


def _check_quoted(key: str, value: Any, where: str) -> None:
    """Raise NNDError for true or false where a text belongs: YAML reads words such as yes and off so."""
    if isinstance(value, bool):
        words = "true, yes or on" if value else "false, no or off"
        raise NNDError(f"{where}: {key} holds {words}, which YAML takes for a truth value; put it in quotes")


def _text(key: str, value: Any, where: str) -> str:
    _check_quoted(key, value, where)
    if not isinstance(value, str):
        raise NNDError(f"{where}: {key} is text, not {short_repr(value)}")
    return value


def _texts(key: str, value: Any, where: str) -> tuple[str, ...]:
    values = value if isinstance(value, (list, tuple)) else [value]
    for one in values:
        _check_quoted(key, one, where)
    if not values or not all(isinstance(one, (str, int, float)) for one in values):
        raise NNDError(f"{where}: {key} is a list of texts, not {short_repr(value)}")
    return tuple((render(one) or "").strip() for one in values)


def _labels(key: str, value: Any, where: str) -> tuple[str, ...]:
    """Return labels in NFC, as the labels of a table are read."""
    return tuple(normalize(one) for one in _texts(key, value, where))


#: YAML reads all of these as one truth value, so that a value of `Recipe.leave_out` may mean any of them.
_TRUTH = {True: ("true", "yes", "on"), False: ("false", "no", "off")}


def _left_out(key: str, value: Any, where: str) -> tuple[str, ...]:
    """Return the values of rows that are left out; a truth value stands for the words that YAML reads so."""
    values = value if isinstance(value, (list, tuple)) else [value]
    words = [word for one in values for word in (_TRUTH[one] if isinstance(one, bool) else [one])]
    return _labels(key, words, where)


def _categories(key: str, value: Any, where: str) -> dict[str, Any]:
    """Return label -> category, with labels in the form in which those of a table are read."""
    known: dict[str, Any] = _of("categories", _maybe)(key, value, where)
    return {normalize(str(label)).strip(): category for label, category in known.items()}


def _exact(key: str, value: Any, where: str) -> tuple[str, ...]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return tuple(_text(key, one, where) for one in values)


def _group(key: str, value: Any, where: str) -> str | tuple[str, ...]:
    """Return the column or template of a group; a list of columns as it is."""
    return _exact(key, value, where) if isinstance(value, (list, tuple)) else _text(key, value, where)


def _order(key: str, value: Any, where: str) -> tuple[tuple[str, ...], ...]:
    return tuple(_labels(key, rank, where) for rank in (value if isinstance(value, (list, tuple)) else [value]))


def _number(key: str, value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise NNDError(f"{where}: {key} is a number, not {short_repr(value)}")
    try:
        return float(value)
    except OverflowError:
        raise NNDError(f"{where}: {key} is a number that can be compared, not {short_repr(value)}") from None


def _truth(key: str, value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise NNDError(f"{where}: {key} is true or false, not {short_repr(value)}")
    return value


def _scale(key: str, value: Any, where: str) -> tuple[float, float]:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise NNDError(
            f"{where}: {key} is the lowest and the highest judgement, such as [1, 5], not {short_repr(value)}"
        )
    low, high = (_number(key, one, where) for one in value)
    return low, high


def _of(what: str, read: Reader) -> Callable[[str, Any, str], dict[str, Any]]:
    """Return a reader of mappings of names to ``what``; ``read`` reads each value."""

    def call(key: str, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise NNDError(f"{where}: {key} is a mapping of names to {what}, not {short_repr(value)}")
        for name in value:
            _check_quoted(key, name, where)
        return {str(name): read(key, one, where) for name, one in value.items()}

    return call


def _count(key: str, value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
        raise NNDError(f"{where}: {key} is a mapping of names to numbers of tests, not {short_repr(value)}")
    return value


def _maybe(key: str, value: Any, where: str) -> str | None:
    return None if value is None else _text(key, value, where)


def _any(key: str, value: Any, where: str) -> Any:
    return value


def _attribute(key: str, value: Any, where: str) -> dict[str, str]:
    """Return name -> column; in a list each column is its own name."""
    if isinstance(value, Mapping):
        return _of("columns", _text)(key, value, where)
    return {column: column for column in _texts(key, value, where)}


def _files(key: str, value: Any, where: str) -> dict[str, File]:
    files = _of("where each comes from", _any)(key, value, where)
    return {name: _file(name, one, where) for name, one in files.items()}


_FILE_KEYS = tuple(one.name for one in dataclasses.fields(File) if one.name != "name")


def _file(name: str, value: Any, where: str) -> File:
    if isinstance(value, File):
        return value
    if value is not None and not isinstance(value, Mapping):
        raise NNDError(f"{where}: files: {name} is a mapping with {', '.join(_FILE_KEYS)}, not {short_repr(value)}")
    given = dict(value or {})
    _check_keys(given, _FILE_KEYS, f"{where}: files: {name}")
    limits.check_place(name, f"{where}: files")
    optional = _truth("optional", given.pop("optional", False), where)
    file = File(name, optional=optional, **{k: _text(k, v, where) for k, v in given.items() if v is not None})
    if file.url:
        limits.check_url(file.url, f"{where}: files: {name}")
    if file.config:
        limits.check_config(file.config, f"{where}: files: {name}")
    if file.sha256 is not None:
        _check_hash(file.sha256, f"{where}: files: {name}: sha256")
    return file


def _check_hash(value: str, where: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise NNDError(f"{where} is 64 hex digits in lower case, not {short_repr(value)}")


def _sources(key: str, value: Any, where: str) -> dict[str, str]:
    hashes = _of("hashes", _text)(key, value, where)
    for name, digest in hashes.items():
        limits.check_place(name, f"{where}: sources")
        _check_hash(digest, f"{where}: sources: {name}")
    return hashes


def _decimal(key: str, value: Any, where: str) -> str:
    if value not in (".", ","):
        raise NNDError(f"{where}: {key} is '.' or ',', not {short_repr(value)}")
    return str(value)


def _candidates(key: str, value: Any, where: str) -> str:
    if value not in ("rows", "texts"):
        raise NNDError(
            f"{where}: candidates is rows (each row is one) or texts (equal texts are one), not {short_repr(value)}"
        )
    return str(value)


#: Key of a recipe -> what reads its value; those that are not here are texts.
_READERS: Mapping[str, Reader] = {
    "files": _files,
    "quotes": _truth,
    "each": _of("lists of texts", _texts),
    "constant": _of("texts", _text),
    "strip": _of("marks", _exact),
    "votes": _of("columns", _text),
    "attribute": _attribute,
    "field": _of("columns", _text),
    "pair": _texts,
    "winners": _of("first, second or tie", _text),
    "systems": _exact,
    "same": _exact,
    "group": _group,
    "list_category": _of("categories", _text),
    "categories": _categories,
    "spans": _of("columns and settings", _any),
    "leave_out": _of("lists of values", _left_out),
    "missing": _labels,
    "complete": _truth,
    "scale": _scale,
    "decimal": _decimal,
    "better": _labels,
    "order": _order,
    "ignore": _labels,
    "min_gap": _number,
    "majority": _truth,
    "best": _number,
    "candidates": _candidates,
    "fold_space": _truth,
    "clean": _of("what the clean config has otherwise", _any),
    "language": _texts,
    "field_notes": _of("texts", _text),
    "options": _of("lists of values", _texts),
    "sources": _sources,
    "published": _of("numbers of tests", _count),
    "expected": _of("numbers of tests", _count),
}
