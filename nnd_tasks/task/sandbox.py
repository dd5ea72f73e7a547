"""The sandbox for templates of our tasks' YAMLs, which may come from a stranger.

A prompt needs fields, ``if`` and some filters, so nothing else is allowed: no template can loop, call a function or reach into
Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nnd_tasks.errors import NNDError, reason_of

#: White space within a line, with the no-break space.
_SPACES = (" ", "\t", "\u00a0")
#: Most characters that a filter may write: the product of the lengths of what it is given, as text.
_LARGEST = 20_000_000

# ---------------------------------------------------------------- our templates

_NODES = (
    *(
        nodes.Template,
        nodes.Output,
        nodes.TemplateData,
        nodes.If,
        nodes.CondExpr,
        nodes.Name,
        nodes.Const,
        nodes.Concat,
    ),
    *(nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
    *(nodes.Test, nodes.Filter, nodes.Keyword),
)
_FILTERS = (
    *("capitalize", "count", "d", "default", "first", "int", "join", "last", "length", "list", "lower", "replace"),
    *("reverse", "sort", "string", "title", "tojson", "trim", "truncate", "unique", "upper"),
)


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, (str, list, tuple, Mapping))]
        if math.prod(len(str(value)) + 1 for value in given) > _LARGEST:
            raise SecurityError(f"a filter may write more than {_LARGEST:,} characters")
        return function(*args, **kwargs)

    return call


#: Reads and renders the templates of an NND task as lm-eval does, as far as `fill_template` allows them.
SANDBOX = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
SANDBOX.filters = {name: _bounded(SANDBOX.filters[name]) for name in _FILTERS}


@lru_cache(maxsize=64)
def _compiled(template: str) -> jinja2.Template:
    tree = SANDBOX.parse(template)
    for node in [tree, *tree.find_all(nodes.Node)]:
        if not isinstance(node, _NODES) or (isinstance(node, nodes.Filter) and node.name not in _FILTERS):
            raise SecurityError(
                f"it has {getattr(node, 'name', type(node).__name__)} in line {node.lineno}; a prompt can have fields, their "
                f"keys, if, and the filters {', '.join(_FILTERS)}"
            )
    return SANDBOX.from_string(tree)


def fill_template(template: Any, doc: Mapping[str, Any], where: str) -> Any:
    """Return the field of ``doc`` that ``template`` names, or else the template filled with the fields of ``doc``.

    Args:
        template: as the YAML has it.
        doc: a document.
        where: which template of which task this is, for errors.

    Raises:
        NNDError: the template is not text, has what no prompt needs, such as a loop, or names a field that the set does not have.
    """
    if not isinstance(template, str):
        raise NNDError(f"{where} is {template!r}; expected text")
    if template in doc:
        return doc[template]
    try:
        return _compiled(template).render(**doc)
    except SecurityError as error:
        raise NNDError(f"{where} is unsafe: {error}") from error
    except Exception as error:  # a template can raise anything, for example by naming a field that is not there
        names = ", ".join(name for name in doc if name not in ("tests", "candidates"))
        raise NNDError(f"{where}: {reason_of(error)} (fields of this set: {names})") from error


def doubles_space(prompt: str, continuation: str) -> bool:
    """Tell whether a prompt ends in a space, and what follows it begins with one."""
    return prompt[-1:] in _SPACES and continuation[:1] in _SPACES
