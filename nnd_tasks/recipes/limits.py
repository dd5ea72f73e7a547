"""Limits for a recipe from a stranger: texts and lists of bounded size, https addresses, prompts without loops.

The sender chooses everything in it. So nothing in it may run code, take unbounded time or memory, or name a place outside
of the folders that the user chose.
"""

from __future__ import annotations

import codecs
import ipaddress
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nnd_tasks.datasets import is_name
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.recipes.cells import short_repr

#: Bytes of a recipe; the largest of ours has 2 kB.
MAX_RECIPE_BYTES = 1_000_000
#: Characters of a text for people or of a prompt, and of any other text, such as the name of a column.
MAX_PROSE, MAX_TEXT = 100_000, 10_000
#: Entries of one list or mapping, and levels of them.
MAX_ENTRIES, _MAX_LEVELS = 10_000, 8
#: Columns that are read, counted once per combination of the values of ``each``.
MAX_COLUMNS = 10_000
_MAX_MARKS = 100  # each takes a pass over all texts
#: Keys with a text for people, or a prompt.
_PROSE = {
    *("prompt", "title", "summary", "kind", "license_note"),
    *("citation", "homepage", "judges", "clean_note", "field_notes"),
}
#: Characters that a terminal or a file format interprets; tabs and line breaks are text.
_CONTROL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")
#: Codecs of Python that take quadratic time, print warnings, or depend on the machine.
_NO_ENCODINGS = {"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "mbcs", "oem"}


def check_values(options: Mapping[str, Any], where: str) -> None:
    """Check the texts, numbers and sizes of all values of a recipe, whatever their meaning.

    Raises:
        NNDError: a text or list is too long, nested too deeply, holds control characters, or a number is not finite.
    """
    for key, value in options.items():
        _check(value, f"{where}: {key}", MAX_PROSE if key in _PROSE else MAX_TEXT, _MAX_LEVELS)


def _check(value: Any, where: str, most: int, levels: int) -> None:
    if isinstance(value, str):
        if len(value) > most:
            raise NNDError(f"{where}: a text of {len(value):,} characters; there may be {most:,}")
        if match := _CONTROL.search(value):
            raise NNDError(f"{where}: control character U+{ord(match[0]):04X} in {short_repr(value)}; leave it out")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise NNDError(f"{where}: {value} is not a number that can be compared")
    elif isinstance(value, (Mapping, list, tuple)):
        if len(value) > MAX_ENTRIES:
            raise NNDError(f"{where}: {len(value):,} entries; there may be {MAX_ENTRIES:,}")
        if not levels:
            raise NNDError(f"{where}: lists within lists, deeper than any setting goes")
        for item in [*value, *value.values()] if isinstance(value, Mapping) else value:
            _check(item, where, most, levels - 1)


def check_file_name(name: str, where: str) -> None:
    """Raise NNDError for what is not a plain file name, such as a path that leads out of its folder."""
    if Path(name).name != name or name.startswith(".") or not name.isprintable() or re.search(r'[\\:*?"<>|]', name):
        raise NNDError(f"{where}: {short_repr(name)} must be a plain file name, without folders")
    if name.casefold() == "hashes.json" or len(name.encode("utf-8", "replace")) > 200:
        raise NNDError(f"{where}: {short_repr(name)} cannot be the name of a file of a set; rename it")


def check_place(name: str, where: str) -> None:
    """Raise NNDError for what is not the name of a file in the folder or in one below it."""
    if not name or name.startswith("/"):
        raise NNDError(f"{where}: {short_repr(name)} must be the name of a file in the folder")
    for part in name.split("/"):
        check_file_name(part, where)


def check_pattern(pattern: str, where: str) -> None:
    """Raise NNDError for a pattern that is not a file name with ``*``, ``?`` and ``[...]``."""
    if not pattern.strip(".*") or re.search(r"[/\\]|\*\*|^\.", pattern) or len(pattern) > 200 or pattern.count("*") > 5:
        raise NNDError(f"{where}: pattern is the name of files, such as 'ratings_*.csv', not {short_repr(pattern)}")


def check_config(name: str, where: str, *columns: str) -> None:
    """Raise NNDError for a name that no config can have, as it becomes a folder; names in ``columns`` are allowed."""
    if name not in columns and (not is_name(name) or len(name) > 100):
        raise NNDError(f"{where}: config {short_repr(name)}: a config is named by letters, digits, _, - and .")


def check_url(url: str, where: str) -> None:
    """Check that an address is https, and that its host is not this machine or an address of its own network.

    Host names are not looked up: a name may lead to a private network, where an institute serves its files.

    Raises:
        NNDError: the address is another one.
    """
    try:
        parts = urlsplit(url)
        host, _ = (parts.hostname or "").rstrip("."), parts.port
    except ValueError as error:
        raise NNDError(f"{where}: url {short_repr(url)} is not an address ({error})") from error
    if parts.scheme != "https" or not host or not url.isprintable() or " " in url or "\\" in url:
        raise NNDError(f"{where}: url is an https:// address, not {short_repr(url)}")
    if parts.username is not None or parts.password is not None:
        raise NNDError(f"{where}: url names a user or password, which everybody who gets the recipe would read")
    if is_private(host):
        raise NNDError(f"{where}: url leads to this machine or its own network ({host}); name the file with --source")


def is_private(host: str) -> bool:
    """Tell whether a host is this machine, or an address that is not of the internet."""
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    if re.fullmatch(r"[0-9a-fx.]+", host) and re.fullmatch(r"0x[0-9a-f]*|\d*", host.rsplit(".", 1)[-1]):
        # A number in any form that systems take for an IPv4 address: 127.1, 2130706433, 0x7f.1
        try:
            return not ipaddress.ip_address(host).is_global
        except ValueError:
            return True
    try:
        return not ipaddress.ip_address(host.split("%")[0]).is_global
    except ValueError:
        return False


def check_encoding(name: str) -> None:
    """Raise NNDError for an encoding that Python does not know, or that nobody saves tables in."""
    try:
        codec = codecs.lookup(name).name if name.isprintable() and len(name) < 50 else ""
        if codec and codec.replace("-", "_") not in _NO_ENCODINGS:
            "a".encode(codec)  # some codecs are not for text
            return
    except (LookupError, ValueError):
        pass
    raise NNDError(f"--encoding {short_repr(name)}: no such encoding; name one such as utf-8, utf-16 or cp1252")


def check_each(each: Mapping[str, tuple[str, ...]], columns: int, where: str) -> None:
    """Check that the values of ``each`` make a bounded number of columns.

    Raises:
        NNDError: they make more, or a value has braces, so that it could be replaced again and again.
    """
    for name, values in each.items():
        if any(brace in text for text in (name, *values) for brace in "{}"):
            raise NNDError(f"{where}: each: {short_repr(name)}: a name or value has no braces")
        if max(map(len, values), default=0) > 1000:
            raise NNDError(f"{where}: each: {short_repr(name)}: a value has more than 1,000 characters")
    count = math.prod(max(len(values), 1) for values in each.values()) * max(columns, 1)
    if count > MAX_COLUMNS:
        raise NNDError(f"{where}: each: its values make {count:,} columns; there may be {MAX_COLUMNS:,}")


def check_marks(strip: Mapping[str, tuple[str, ...]], where: str) -> None:
    """Raise NNDError for marks of ``strip`` that are empty or too many, or of a role whose text is taken as it is."""
    for role, marks in strip.items():
        if role not in ("candidate", "context", "subcategory"):
            raise NNDError(
                f"{where}: strip: marks are taken out of candidate, context or subcategory, not of {short_repr(role)}"
            )
        if not all(marks) or len(marks) > _MAX_MARKS:
            raise NNDError(
                f"{where}: strip: {role} is a list of marks such as <v>, {_MAX_MARKS} at most, none of them empty"
            )


# ---------------------------------------------------------------- prompts

#: What a prompt may do with a text: nothing that makes it longer.
_FILTERS = {"capitalize", "d", "default", "e", "first", "last", "length", "lower", "replace", "string", "title", "trim",
            "upper"}  # fmt: skip
_METHODS = {"capitalize", "endswith", "lower", "lstrip", "replace", "rstrip", "split", "splitlines", "startswith", "strip",
            "title", "upper"}  # fmt: skip
_NODES = {
    "Add", "And", "Call", "Compare", "Concat", "CondExpr", "Const", "Filter", "Getattr", "Getitem", "If", "Name", "Neg", "Not",
    "Operand", "Or", "Output", "Slice", "Template", "TemplateData", "Test",
}  # fmt: skip


def check_prompt(template: str, where: str) -> None:
    """Check that rendering a prompt takes time and memory bounded by its length and that of its fields.

    It may name fields, choose with ``if``, and use filters and methods that do not make a text longer. Loops, variables,
    products, includes and other calls are not allowed.

    Raises:
        NNDError: it is not a template, or does more.
    """
    from jinja2 import Environment, TemplateError, nodes

    try:
        parsed = Environment(autoescape=False).parse(template)  # noqa: S701 - it is parsed, not rendered
        for node in parsed.find_all(nodes.Node):
            if problem := _problem(node, nodes):
                raise NNDError(
                    f"{where}: prompt: {problem} cannot stand in the prompt of a recipe, which can name fields, choose with if, "
                    "and use simple filters such as trim"
                )
    except TemplateError as error:
        raise NNDError(f"{where}: prompt: no valid template ({reason_of(error)})") from error
    except RecursionError as error:
        raise NNDError(f"{where}: prompt: nested too deeply") from error


def _problem(node: Any, nodes: Any) -> str:
    """Return the part of a template that is not allowed, ``""`` if it is allowed."""
    kind = type(node).__name__
    if kind not in _NODES:
        return {"For": "{% for %}", "Assign": "{% set %}"}.get(kind, kind)
    if isinstance(node, nodes.Name) and node.name.startswith("_"):
        return repr(node.name)
    if isinstance(node, nodes.Getattr) and node.attr not in _METHODS:
        return f".{node.attr}"
    if isinstance(node, nodes.Getitem) and not isinstance(node.arg, (nodes.Slice, nodes.Neg)):
        return "" if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, int) else "[...]"
    if isinstance(node, nodes.Filter) and node.name not in _FILTERS:
        return f"|{node.name}"
    if isinstance(node, nodes.Call) and not isinstance(node.node, nodes.Getattr):
        return "a call"
    if isinstance(node, (nodes.Call, nodes.Filter)) and (node.dyn_args or node.dyn_kwargs):
        return "*"
    called = node.node.attr if isinstance(node, nodes.Call) else getattr(node, "name", "") if kind == "Filter" else ""
    if called == "replace":
        texts = [arg.value for arg in node.args if isinstance(arg, nodes.Const) and isinstance(arg.value, str)]
        if len(texts) != 2 or len(node.args) != 2 or not texts[0] or len(texts[1]) > len(texts[0]):
            return "replace with a longer text"
    return ""
