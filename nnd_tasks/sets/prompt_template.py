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

    class NothingWorkedOut(SandboxedEnvironment):
        """Compiles templates without the values of constants, which may be too large, such as ``10**10**10``."""

        intercepted_binops = frozenset(["+", "*", "**", "%"])

    environment = NothingWorkedOut()
    # lm-eval adds one filter. Those of constants would be called here.
    environment.filters = dict.fromkeys([*environment.filters, "regex_replace"], lambda *_, **__: "")
    try:
        environment.compile(prompt)
        unknown = sorted(meta.find_undeclared_variables(environment.parse(prompt)) - {*fields})
    except TemplateError as error:
        yield f"prompt: no valid template ({error})"
        return
    if unknown:
        yield f"prompt: there is no {unknown[0]!r}; a prompt can name {', '.join(fields)}"
