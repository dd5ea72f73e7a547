"""The sandbox in which the templates of a task's YAML are rendered, with one clear error for whatever is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.languages import language_pair, translation_prompt

#: A comment in a template that says which languages its words are for, such as ``{# languages: en-de #}``. It is part of
#: the template, so a YAML that includes another one and sets its own prompt does not inherit it.
_LANGUAGES = re.compile(r"\{#-?\s*languages:\s*(\w+)-(\w+)\s*-?#\}")
#: White space within a line, with the no-break space.
_SPACES = (" ", "\t", "\u00a0")

#: Renders every template of an NND task: an environment as lm-eval's, without access from a template to Python's internals.
SANDBOX = ImmutableSandboxedEnvironment(
    loader=jinja2.BaseLoader(), undefined=jinja2.StrictUndefined, keep_trailing_newline=True
)
#: The one filter of lm-eval that Jinja lacks.
SANDBOX.filters["regex_replace"] = lambda string, pattern, repl, count=0: re.sub(pattern, repl, string, count=count)


@lru_cache(maxsize=64)
def _compiled(template: str) -> jinja2.Template:
    return SANDBOX.from_string(template)


def render(template: Any, doc: Mapping[str, Any], where: str) -> Any:
    """Return the field of ``doc`` that ``template`` names, or else the template filled with the fields of ``doc``.

    Args:
        template: as the YAML has it.
        doc: a document.
        where: which template of which task this is, for errors.

    Raises:
        NNDError: the template is not text, reaches into Python, or names a field that the set does not have.
    """
    if not isinstance(template, str):
        raise NNDError(f"{where} is {template!r}; expected text")
    if template in doc:
        return doc[template]
    try:
        return str(_compiled(template).render(**doc))
    except SecurityError as error:
        raise NNDError(f"{where} is unsafe, it reaches into Python: {error}") from error
    except Exception as error:  # a template can raise anything, for example by dividing by zero
        names = ", ".join(name for name in doc if name not in ("tests", "candidates"))
        raise NNDError(f"{where}: {reason_of(error)} (fields of this set: {names})") from error


def doubles_space(prompt: str, continuation: str) -> bool:
    """Tell whether a prompt ends in a space, and what follows it begins with one."""
    return prompt[-1:] in _SPACES and continuation[:1] in _SPACES


def check_languages(template: Any, config: str, task: str | None, where: str) -> None:
    """Raise NNDError when a prompt template is written for other languages than those of the data.

    Args:
        template: the prompt template; one without a comment that names its languages fits all data.
        config: the config of the data; its name may end in a language pair, such as ``ende``.
        task: name of the task.
        where: where the data comes from.
    """
    declared = _LANGUAGES.search(template) if isinstance(template, str) else None
    languages = language_pair(config)
    if declared is None or languages is None or languages == declared.groups():
        return
    raise NNDError(
        f"task {task}: its prompt is for {'-'.join(declared.groups())}, {where} config {config} is {'-'.join(languages)}; "
        f"take the task that `nnd build` wrote for this config, or set doc_to_text in the YAML: {translation_prompt(languages)!r}"
    )
