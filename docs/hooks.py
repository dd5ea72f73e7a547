"""MkDocs hooks: make pages of files beside docs/ (a README per set, reference rates), and point links at those pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
#: Page of the site -> the file beside docs/ that it shows.
SHOWN = {"reference.md": "benchmarks/reference.md", "contributing.md": "CONTRIBUTING.md"}


def on_files(files: Files, config: Any) -> Files:
    """Add ``sets/NAME.md`` for every folder of ``task_yamls`` that has a README, and the pages of `SHOWN`."""
    for page, source in SHOWN.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for readme in sorted((ROOT / "task_yamls").glob("*/README.md")):
        text = readme.read_text(encoding="utf-8")
        text = re.sub(r"^(#{3,4}) ", lambda match: match[1][1:] + " ", text, flags=re.MULTILINE)  # levels without gaps
        files.append(File.generated(config, f"sets/{readme.parent.name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Replace links to files beside docs/ by links to their pages, and to files without a page by their text."""
    for shown, source in SHOWN.items():
        markdown = markdown.replace(f"](../{source}", f"]({shown}")
    markdown = re.sub(r"\]\((?:\.\./)?task_yamls/(\w+)/README\.md", r"](sets/\1.md", markdown)
    markdown = re.sub(r"\]\((?:\.\./)?docs/", "](", markdown)
    if page.file.src_uri in SHOWN:
        markdown = re.sub(
            r"\[([^\]]+)\]\((?!\w+\.md|sets/|https?:|#)[^)]*\)|\[([^\]]+)\]\((?:CHANGELOG|README)\.md\)",
            r"\1\2",
            markdown,
        )
    return markdown
