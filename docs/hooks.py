"""MkDocs hooks: make one page per set from the README of its tasks, and point links to a README at that page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent


def on_files(files: Files, config: Any) -> Files:
    """Add ``sets/NAME.md`` for every folder of ``task_yamls`` that has a README."""
    for readme in sorted((ROOT / "task_yamls").glob("*/README.md")):
        text = readme.read_text(encoding="utf-8")
        text = re.sub(r"^(#{3,4}) ", lambda match: match[1][1:] + " ", text, flags=re.MULTILINE)  # levels without gaps
        files.append(File.generated(config, f"sets/{readme.parent.name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Replace links to the README of a set by links to the page that `on_files` makes from it."""
    return re.sub(r"\]\(\.\./task_yamls/(\w+)/README\.md", r"](sets/\1.md", markdown)
