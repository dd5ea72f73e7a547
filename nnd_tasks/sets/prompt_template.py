"""Check the template of a prompt without rendering it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def find_prompt_mistakes(prompt: str, fields: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with the template of a prompt: its Jinja, a filter that is not known, or a field that is not there.

    Args:
        prompt: the template.
        fields: what it can name.
    """
    from jinja2 import TemplateError, meta
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment()
    environment.filters["regex_replace"] = str.replace  # lm-eval adds this filter; nothing is rendered here
    try:
        environment.compile(prompt)
        unknown = sorted(meta.find_undeclared_variables(environment.parse(prompt)) - {*fields})
    except TemplateError as error:
        yield f"prompt: no valid template ({error})"
        return
    if unknown:
        yield f"prompt: there is no {unknown[0]!r}; a prompt can name {', '.join(fields)}"
