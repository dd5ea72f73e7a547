"""Templates of a task's YAML, which may come from a stranger: `fill_template` for our tasks, `TemplateProcess` for lm-eval's.

Our prompts need fields, ``if`` and some filters, so nothing else is allowed: no template of this kind can loop, call a function
or reach into Python. Tasks of lm-eval may use all of Jinja's sandbox, in a process that is ended when it takes too long.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from pathlib import Path
from threading import Timer
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nnd_tasks.errors import NNDError, reason_of

#: White space within a line, with the no-break space.
_SPACES = (" ", "\t", "\u00a0")
#: Most characters that a filter may write: the product of the sizes of what it is given.
_LARGEST = 20_000_000
#: Most seconds for one template in a `TemplateProcess`.
_SECONDS = 10.0

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


def _size(value: Any) -> int:
    """Return the number of characters in a text, a list or a mapping, with those of all that it holds."""
    if isinstance(value, Mapping):
        value = [*value.items()]
    return sum(map(_size, value)) + 1 if isinstance(value, (list, tuple)) else len(str(value))


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, (str, list, tuple, Mapping))]
        if math.prod(_size(value) + 1 for value in given) > _LARGEST:
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


# ---------------------------------------------------------------- templates of lm-eval's tasks


class TemplateProcess:
    """Renders any template in Jinja's sandbox, in a process of its own (``template_process.py``) that is ended after a time.

    A template can compare nested lists or raise a number to a power for hours in one step, which nothing within its process can
    end. Known limits: values of documents reach the template as JSON, and memory is bounded where the system can do so.
    """

    def __enter__(self) -> TemplateProcess:
        """Start the process."""
        self._process = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, str(Path(__file__).with_name("template_process.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            encoding="ascii",
        )
        self._read()  # it has started
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def fill(self, template: str, doc: Mapping[str, Any], where: str) -> str:
        """Return the template filled with the fields of ``doc``.

        Raises:
            NNDError: it reaches into Python, takes too long or makes too much text, or cannot be rendered.
        """
        assert self._process.stdin is not None
        timer = Timer(_SECONDS, self._process.kill)
        timer.start()
        try:
            print(json.dumps([template, dict(doc)], default=str), file=self._process.stdin, flush=True)
            answer = json.loads(self._read() or '{"unsafe": ""}')
        except BrokenPipeError:
            answer = {"unsafe": ""}
        finally:
            timer.cancel()
        if "text" in answer:
            return str(answer["text"])
        if "error" in answer:
            raise NNDError(f"{where}: {answer['error']}")
        raise NNDError(f"{where} is unsafe: {answer['unsafe'] or f'it takes more than {_SECONDS:g} seconds'}")


def doubles_space(prompt: str, continuation: str) -> bool:
    """Tell whether a prompt ends in a space, and what follows it begins with one."""
    return prompt[-1:] in _SPACES and continuation[:1] in _SPACES
