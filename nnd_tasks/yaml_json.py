"""YAML and JSON: read with one clear error, and written so that they can be read again.

YAML may come from a stranger: no aliases, whose few bytes unfold to gigabytes, and bounded depth and count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import MAX_CONFIG_BYTES, read_text

#: How deeply lists and mappings may be nested in a YAML file.
MAX_DEPTH = 100
#: How many parts a YAML file may have: keys, values, beginnings and ends of lists and mappings.
MAX_VALUES = 500_000
_MAX_DIGITS = 1000  # that a number in YAML may have


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # YAML reads these as line breaks, unless they are escaped.
    odd = any(mark in text for mark in "\x85\u2028\u2029\ufeff")
    style = "|" if "\n" in text.rstrip("\n") and not odd else '"' if odd or "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump_yaml(values: Mapping[str, Any]) -> str:
    """Return plain data as YAML, texts of several lines readable; raise NNDError where reading it gives something else."""
    text = str(yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110))
    if parse_yaml(text, "YAML to be written") != values:
        raise NNDError(
            "YAML to be written: reading it gives something else; a name in it holds characters that YAML changes"
        )
    return text


# ---------------------------------------------------------------- reading


def read_json(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> Any:
    """Return what a JSON file holds; raises as `read_text` does, and where it is not JSON."""
    return parse_json(read_text(path, limit=limit), str(path))


def parse_json(text: str, where: str, *, hint: str = "") -> Any:
    """Return what a JSON text holds; a text in it may hold half of a character (a lone surrogate).

    Raises:
        NNDError: no valid JSON, or nested too deeply; begins with ``where`` and ends with ``hint``.
    """
    with _reading_json(where, hint):
        return json.loads(text)


def parse_json_sequence(text: str, where: str, *, hint: str = "") -> list[tuple[int, Any]]:
    """Return the line and the value of each JSON text of several that stand one after the other; of a usual file, of one.

    Raises:
        NNDError: as `parse_json`.
    """
    decoder = json.JSONDecoder()
    values: list[tuple[int, Any]] = []
    position = _skip_space(text, 0)
    line = 1 + text.count("\n", 0, position)
    while position < len(text) or not values:
        with _reading_json(where, hint):
            value, end = decoder.raw_decode(text, position)
        values.append((line, value))
        line += text.count("\n", position, end)
        position = _skip_space(text, end)
        line += text.count("\n", end, position)
    return values


def _skip_space(text: str, position: int) -> int:
    return re.compile(r"[ \t\r\n]*").match(text, position).end()  # type: ignore[union-attr]


@contextmanager
def _reading_json(where: str, hint: str) -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise NNDError(f"{where}: its lists and objects are nested too deeply to be read{hint}") from error
    except json.JSONDecodeError as error:
        raise NNDError(f"{where}: is not valid JSON ({_explain_json(error)}){hint}") from error
    except ValueError as error:  # a number of more digits than Python converts
        raise NNDError(f"{where}: is not valid JSON ({reason_of(error)}){hint}") from error


def _explain_json(error: json.JSONDecodeError) -> str:
    """Return the cause and the place of what is no JSON."""
    text, at = error.doc, error.pos
    place = f"line {error.lineno}, column {error.colno}" if "\n" in text.strip() else f"column {error.colno}"
    here, before = text[at : at + 5], text[max(at - 100, 0) : at].rstrip()[-1:]
    if not text.strip():
        return "it is empty"
    if at >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        cause = "it is cut off"
    elif here[:1] in ("]", "}") and before == ",":
        cause = f"a comma before {here[:1]}"
    elif here[:1] == "," and before in ("}", "]"):
        cause = "a comma after the end; a list of objects stands in [ ]"
    elif here[:1] == "'":
        cause = "a single quote, as Python prints it; JSON has double quotes"
    elif here.startswith(("None", "True", "False", "nan")):
        cause = f"{re.match('[A-Za-z]+', here)[0]}, as Python prints it; JSON has null, true, false and NaN"  # type: ignore[index]
    elif error.msg == "Extra data":
        cause = "more text after its end"
    else:
        cause = error.msg
    return f"{cause}: {place}"


def json_lines(
    lines: Iterable[str], source: str, *, hint: str = "", skip_blank: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield the place (``FILE, line 3``) and the value of each line of JSON Lines.

    Args:
        lines: a file opened as text, or its lines; only line feeds end a line, as strings may hold other line breaks.
        source: the file's name; begins each place.
        hint: ends errors.
        skip_blank: leave out lines without any text, which are no JSON; they are counted.

    Raises:
        NNDError: a line is not valid JSON, or nested too deeply; the error names the place.
    """
    for number, line in enumerate(lines, start=1):
        if skip_blank and not line.strip():
            continue
        where = f"{source}, line {number}"
        yield where, parse_json(line, where, hint=hint)


if TYPE_CHECKING:
    from yaml import SafeLoader as _Loader
else:  # libyaml is ten times faster; neither loader creates Python objects
    _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class PlainLoader(_Loader):
    """The loader of `parse_yaml`; subclass it to read more tags."""


class StrictLoader(PlainLoader):
    """A loader for `parse_yaml` that refuses a mapping with the same key twice, of which YAML would silently take the last.

    Yes, no, on and off are words in it; only true and false are truth values.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping; raise a YAMLError where a key is repeated."""
        known: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in known:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            known.add(str(key.value))
        return super().construct_mapping(node, deep=deep)


_BOOL = "tag:yaml.org,2002:bool"
StrictLoader.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0] != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
StrictLoader.add_implicit_resolver(_BOOL, re.compile("(?i:true|false)$"), list("tTfF"))


def _number(kind: str) -> Callable[[PlainLoader, yaml.ScalarNode], Any]:
    make = yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{kind}"]

    def number(loader: PlainLoader, node: yaml.ScalarNode) -> Any:
        if len(node.value) > _MAX_DIGITS:  # those between colons, as in 1:30:00, take quadratic time
            raise yaml.constructor.ConstructorError(None, None, "a number is too long", node.start_mark)
        return make(loader, node)

    return number


for _kind in ("int", "float"):
    PlainLoader.add_constructor(f"tag:yaml.org,2002:{_kind}", _number(_kind))


def _check_plain(text: str, loader: type[PlainLoader]) -> None:
    """Raise a YAMLError for aliases, deep nesting or too many values: 835 bytes of aliases can unfold to fill the memory."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=loader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        problem = ""
        if isinstance(event, yaml.AliasEvent):
            problem = f"the alias *{event.anchor} is not allowed here; write the value out"
        elif depth > MAX_DEPTH:
            problem = f"nested deeper than {MAX_DEPTH} levels"
        elif count > MAX_VALUES:
            problem = f"more than {MAX_VALUES:,} values"
        if problem:
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)  # type: ignore[arg-type]


def read_yaml(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> Any:
    """Return what a YAML file holds; raises as `read_text` and `parse_yaml` do."""
    return parse_yaml(read_text(path, limit=limit), str(path))


def parse_yaml(text: str, where: str, loader: type[PlainLoader] = PlainLoader) -> Any:
    """Return what a YAML text holds; plain data only: no tags of Python, no aliases, bounded depth and count.

    Raises:
        NNDError: no valid YAML, with an alias, nested too deeply or too long; begins with ``where`` and names the line.
    """
    try:
        _check_plain(text, loader)
        made = loader(text)
        try:
            return made.get_single_data()
        finally:
            made.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or reason_of(error)
        line = f" in line {mark.line + 1}" if mark else ""
        raise NNDError(f"{where}: is not YAML that can be read here ({problem}{line})") from error
    except (ValueError, RecursionError, TypeError) as error:  # dates such as 2022-13-41, keys that are lists
        raise NNDError(f"{where}: is not YAML that can be read here ({reason_of(error)})") from error
