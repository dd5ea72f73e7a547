"""The sandbox in which the templates of a task's YAML are rendered: bounded, with one clear error for whatever is wrong."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache, wraps
from types import BuiltinMethodType
from typing import Any

import jinja2
import regex  # type: ignore[import-untyped]
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from nnd_tasks.errors import NNDError, reason_of

#: White space within a line, with the no-break space.
_SPACES = (" ", "\t", "\u00a0")

# ---------------------------------------------------------------- bounds

#: Most characters of a rendered prompt, and of any text, list or number on the way to it.
_LARGEST = 2_000_000
#: Most characters that one operation may write: the product of the sizes that it is given.
_AT_ONCE = 1_000_000_000
#: Most work for one template. A round of a loop, a call and a filter count as many characters as the template has, and what they
#: are given by its size.
_WORK = 200_000_000
#: Most seconds of a core for one template.
_SECONDS = 1.0
#: Most bits of a number that a template works out.
_BITS = 4096
#: In a format: a width of millions, and one that an argument gives.
_WIDE, _WIDTH_GIVEN = re.compile(r"\d{7}"), re.compile(r"%[^a-zA-Z%]*\*|\{[^{}]*\{")


class _Budget:
    """What one template has used up while it is rendered.

    Args:
        step: the work of a round of a loop, a call or a filter.
    """

    def __init__(self, step: int) -> None:
        self._step, self._work = step, 0
        self._end = time.thread_time() + _SECONDS

    def spend(self, *sizes: int) -> None:
        """Count one step that works on values of these sizes.

        Raises:
            SecurityError: the template takes too long, or a value is too large.
        """
        self._work += self._step + sum(sizes)
        if max(sizes, default=0) > _LARGEST:
            raise SecurityError(f"it makes more than {_LARGEST:,} characters")
        if self._work > _WORK or time.thread_time() > self._end:
            raise SecurityError(f"it takes more than {_SECONDS:g} seconds or {_WORK:,} steps")


_budget: ContextVar[_Budget] = ContextVar("budget")


def _size(value: Any) -> int:
    """Return the number of characters and items in a value; beyond `_LARGEST` it stops to count."""
    size, todo = 0, [value]
    while todo and size <= _LARGEST:
        item = todo.pop()
        if isinstance(item, (list, tuple, set, frozenset)):
            size += len(item)
            todo += item if size <= _LARGEST else ()
        elif isinstance(item, dict):
            size += len(item)
            todo += [*item.keys(), *item.values()] if size <= _LARGEST else ()
        elif isinstance(item, (str, bytes, range)):
            size += len(item)
    return size


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that counts a step, and refuses to write more than `_AT_ONCE`.

    A whole number after the first value may be a width, or how often something is written.
    """

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        if isinstance(function, BuiltinMethodType):
            values = [function.__self__, *values]  # the text of a method such as replace
        numbers = [abs(value) for value in values[1:] if isinstance(value, int)]
        sizes = [*map(_size, values), *numbers]
        budget = _budget.get()
        budget.spend(*sizes)
        if math.prod(size or 1 for size in sizes) > _AT_ONCE:
            raise SecurityError(f"it makes more than {_LARGEST:,} characters")
        result = function(*args, **kwargs)
        budget.spend(_size(result) if isinstance(result, (str, list, tuple)) else 0)
        return result

    return call


@wraps(FILTERS["wordwrap"])
def _wrap_words(environment: Any, text: Any, *args: Any, **kwargs: Any) -> Any:
    length = len(str(text))
    _budget.get().spend(*[length] * (length // 500))  # one long word takes the square of its length
    return _bounded(FILTERS["wordwrap"])(environment, text, *args, **kwargs)


def _spend_output(value: Any) -> Any:
    _budget.get().spend(_size(value))
    return value


def _count_rounds(items: Iterable[Any]) -> Iterator[Any]:
    budget = _budget.get()
    for item in items:
        budget.spend()
        yield item


def _check_format(text: Any, arguments: Iterable[Any]) -> None:
    """Raise SecurityError if a format makes a text that is millions of characters wide."""
    if isinstance(text, str):
        given = [value for value in arguments if isinstance(value, int) and abs(value) > _LARGEST]
        if _WIDE.search(text) or (given and _WIDTH_GIVEN.search(text)):
            raise SecurityError(f"it makes more than {_LARGEST:,} characters")


def _format(text: Any, *args: Any, **kwargs: Any) -> Any:
    _check_format(text, [*args, *kwargs.values()])
    _budget.get().spend(*map(_size, [text, *args, *kwargs.values()]))
    return FILTERS["format"](text, *args, **kwargs)


def _replace_regex(string: str, pattern: str, repl: str, count: int = 0) -> str:
    return str(regex.sub(pattern, repl, string, count=count, timeout=_SECONDS))


class _CountLoops(NodeTransformer):
    """Lets the rounds of all loops, and all texts that ``~`` joins, be counted."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "nnd_rounds", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:  # noqa: N802
        self.generic_visit(node)
        return nodes.Filter(node, "nnd_output", [], [], None, None, lineno=node.lineno)


class _BoundedSandbox(ImmutableSandboxedEnvironment):
    """An environment in which no template can run or grow without end, nor reach into Python."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self, **options: Any) -> None:
        # The optimizer would work out constants, such as a large power, before a template is rendered.
        super().__init__(optimized=False, finalize=_spend_output, **options)
        self.globals.pop("lipsum")
        self.filters = {name: _bounded(function) for name, function in self.filters.items()}
        self.filters |= {
            "format": _format,
            "wordwrap": _wrap_words,
            "nnd_rounds": _count_rounds,
            "nnd_output": _spend_output,
        }
        self.filters["regex_replace"] = _replace_regex  # the one filter of lm-eval that Jinja lacks

    def _parse(self, *args: Any) -> nodes.Template:
        tree: nodes.Template = _CountLoops().visit(super()._parse(*args))
        return tree

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Work out an operation if its result cannot be too large."""
        work_out = self.binop_table[operator]
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            bits = [value.bit_length() for value in (left, right) if isinstance(value, int)]
            times = abs(right) if operator == "**" else 1
            if operator != "%" and sum(bits) * times > _BITS:
                raise SecurityError("it makes a number that is too large")
            return work_out(left, right)
        if operator == "%":
            _check_format(left, right if isinstance(right, tuple) else [right])
        if operator == "*":
            return _bounded(work_out)(*((right, left) if isinstance(left, int) else (left, right)))
        _budget.get().spend(_size(left), _size(right))
        return work_out(left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call a function or method, and count it."""
        _budget.get().spend(*map(_size, [*args, *kwargs.values()]))
        bounded = _bounded(__obj) if isinstance(__obj, BuiltinMethodType) else __obj
        return super().call(__context, bounded, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Any:
        """Wrap a formatting method of a text for the sandbox; None if ``value`` is no such method."""
        wrapper = super().wrap_str_format(value)
        if wrapper is None:
            return None

        def formatted(*args: Any, **kwargs: Any) -> str:
            _check_format(value.__self__, [*args, *kwargs.values()])
            return str(wrapper(*args, **kwargs))

        return formatted


#: Renders every template of an NND task: an environment as lm-eval's, without its dangers.
SANDBOX = _BoundedSandbox(loader=jinja2.BaseLoader(), undefined=jinja2.StrictUndefined, keep_trailing_newline=True)


@lru_cache(maxsize=64)
def _compiled(template: str) -> jinja2.Template:
    return SANDBOX.from_string(template)


def _render_bounded(template: str, doc: Mapping[str, Any]) -> str:
    outer = _budget.set(budget := _Budget(len(template) + 1))
    try:
        pieces, size = [], 0
        for piece in _compiled(template).generate(**doc):
            pieces.append(piece)
            size += len(piece)
            budget.spend(size)
        return "".join(pieces)
    finally:
        _budget.reset(outer)


# ---------------------------------------------------------------- templates


def render(template: Any, doc: Mapping[str, Any], where: str) -> Any:
    """Return the field of ``doc`` that ``template`` names, or else the template filled with the fields of ``doc``.

    Args:
        template: as the YAML has it.
        doc: a document.
        where: which template of which task this is, for errors.

    Raises:
        NNDError: the template is not text, reaches into Python, takes too long or makes too much text, or names a field that the
            set does not have.
    """
    if not isinstance(template, str):
        raise NNDError(f"{where} is {template!r}; expected text")
    if template in doc:
        return doc[template]
    try:
        return _render_bounded(template, doc)
    except SecurityError as error:
        raise NNDError(f"{where} is unsafe: {error}") from error
    except Exception as error:  # a template can raise anything, for example by dividing by zero
        names = ", ".join(name for name in doc if name not in ("tests", "candidates"))
        raise NNDError(f"{where}: {reason_of(error)} (fields of this set: {names})") from error


def doubles_space(prompt: str, continuation: str) -> bool:
    """Tell whether a prompt ends in a space, and what follows it begins with one."""
    return prompt[-1:] in _SPACES and continuation[:1] in _SPACES
