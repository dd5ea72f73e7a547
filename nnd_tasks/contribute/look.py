"""Look at a ``prepare.py`` without running it: what should a reader of it look at before it runs?"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import read_text

#: What a ``prepare.py`` may import without a second look.
_HARMLESS = re.compile(
    r"(__future__|collections|csv|itertools|json|math|nnd_tasks|numpy|pandas|pathlib|re|typing|xml)(\..*)?"
)
#: Names that can do more than read tables: run code, change files or reach the network.
_MARKED = re.compile(
    "__.*|breakpoint|chmod|compile|(del|get|set)attr|eval|exec|globals|(hard|sym)link_to|locals|mkdir|open|popen|remove|rename"
    "|read_(clipboard|html|pickle|sql)|rm(dir|tree)|to_(clipboard|csv|excel|json|parquet|pickle|sql)|touch|unlink"
    "|url(open|retrieve)|vars|write(_bytes|_text)?"
)


def look_at_code(path: Path) -> list[str]:
    """Return what in a ``prepare.py`` deserves a second look, with its lines. An empty list proves nothing.

    Raises:
        NNDError: it is not Python, or has no function ``rows``.
    """
    try:
        tree = ast.parse(read_text(path))
    except (SyntaxError, ValueError, RecursionError) as error:
        raise NNDError(f"{path}: cannot be read as Python ({reason_of(error)})") from error
    if "rows" not in [getattr(node, "name", "") for node in tree.body]:
        raise NNDError(f"{path}: it has no function rows(folder)")
    return [f"{what} in line {getattr(node, 'lineno', '?')}" for node in ast.walk(tree) for what in _look_at(node)]


def _look_at(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [f"import {one.name}" for one in names if not _HARMLESS.fullmatch(one.name)]
        case ast.ImportFrom(module=module) if not _HARMLESS.fullmatch(module or ""):
            return [f"import {module or 'of a file beside it'}"]
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) if _MARKED.fullmatch(name):
            return [name]
        case ast.Attribute(attr="system"):  # of os; a variable may well have this name
            return ["system"]
        case ast.Constant(value=str(text)) if re.match(r"\w+://", text):
            return [text]
    return []
