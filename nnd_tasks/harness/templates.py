"""A task whose templates are rendered in the sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval.api.task import ConfigurableTask

from nnd_tasks.harness.sandbox import render


class SandboxedTask(ConfigurableTask):  # type: ignore[misc]
    """A task of lm-eval that renders all templates of its YAML in `SANDBOX`; lm-eval itself has no sandbox."""

    def check_templates(self, doc: Mapping[str, Any]) -> None:
        """Render every template for one document, as some of them would else fail only after the model is loaded.

        Raises:
            NNDError: a template cannot be rendered.
        """
        self.doc_to_text(doc)
        self.doc_to_text(doc, self.fewshot_cfg.doc_to_text)
        self.doc_to_prefix(doc)
        for template in (self.config.description, self.fewshot_cfg.gen_prefix):
            self.resolve_field(doc, template)

    def doc_to_text(self, doc: Mapping[str, Any], doc_to_text: Any = None) -> str:
        """Render the prompt. Unlike lm-eval, never turn a prompt of digits into a number."""
        template = self.config.doc_to_text if doc_to_text is None else doc_to_text
        if not isinstance(template, str):
            return str(super().doc_to_text(doc, doc_to_text))
        key = "doc_to_text" if template == self.config.doc_to_text else "fewshot_config.doc_to_text"
        return str(render(template, doc, self._where(key)))

    def doc_to_prefix(self, doc: Mapping[str, Any]) -> Any:
        """Render ``gen_prefix``, what the answer begins with; None when the YAML has none."""
        template = self.config.gen_prefix
        return None if template is None else render(template, doc, self._where("gen_prefix"))

    def resolve_field(self, doc: Mapping[str, Any], field: str | None = None) -> Any:
        """Render a description, or the ``gen_prefix`` of an exemplar; None if the YAML does not set it."""
        if not field:
            return None
        keys = [key for key in ("description", "gen_prefix") if field == getattr(self.config, key)]
        return render(field, doc, self._where([*keys, "fewshot_config.gen_prefix"][0]))

    def _where(self, key: str) -> str:
        return f"task {self.config.task}: {key}"
