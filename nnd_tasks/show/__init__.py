"""All that people see: a `Report` on the terminal, and as Markdown, CSV, JSON, LaTeX and HTML."""

from typing import Literal, TypeAlias

#: Values of ``--format``; ``text`` is drawn on a terminal, and Markdown elsewhere.
Form: TypeAlias = Literal["text", "markdown", "csv", "json", "latex", "html"]
