"""MkDocs hooks: pages of sets made of recipes, pages of files beside docs/, and what commands print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Template
from mkdocs.structure.files import File, Files

from nnd_tasks.publishers.licences import licence_columns, terms_of
from nnd_tasks.sets.catalogue import list_recipes

ROOT = Path(__file__).parent.parent
#: Page of the site -> the file beside docs/ that it shows.
SHOWN = {
    "reference.md": "benchmarks/reference.md",
    "benchmarks.md": "benchmarks/README.md",
    "small_model.md": "benchmarks/small_model.md",
    "contributing.md": "CONTRIBUTING.md",
}
#: Counts of the tests of each config, which the tests of the package compare with what is built.
COUNTS = ROOT / "tests" / "sets" / "pins.json"
SET_PAGE = Template(
    """# {{ facts.title }}

{{ facts.summary }}

- Errors are {{ "judged" if facts.errors == "judged" else "made on purpose" }}. {{ facts.judges }}
- From {{ facts.homepage or "this package" }}. {{ facts.license_note or "" }}
{% for name, value in licence.items() %}
- {{ name | capitalize }}: {{ value }}
{% endfor %}

## Tests

| config | tests | categories |
|---|---:|---|
{% for config, counts in configs.items() %}
| `{{ config }}` | {{ "{:,}".format(counts.tests) }} |
{%- for name, count in counts.categories.items() %} {{ name }} {{ "{:,}".format(count) }}{{ "," if not loop.last }}{% endfor %} |
{% endfor %}

`nnd build {{ name }}` makes them, `nnd show {{ name }}` prints some.

## Tasks

{% for task in tasks %}
- `{{ task.task }}`{% if task.doc_to_text %}: `{{ task.doc_to_text | string | replace("\\n", "\\\\n") }}`{% endif %}
{%- if task.variants %} (endings: {{ task.variants | join(", ") }}){% endif %}

{% endfor %}

{% if facts.notes %}
## Good to know

{% for note in facts.notes %}
- {{ note }}
{% endfor %}
{% endif %}

## Citation

```bibtex
{{ facts.citation }}
```
""",
    trim_blocks=True,
    lstrip_blocks=True,
)


def read_tasks(folder: Path) -> list[dict[str, Any]]:
    """Read the YAMLs of the tasks of a set."""
    yamls = [yaml.safe_load(path.read_text("utf-8")) for path in sorted(folder.glob("nnd_*.yaml"))]
    return [one for one in yamls if isinstance(one.get("task"), str)]  # a group has a list


def write_set_page(name: str) -> str:
    """Write the page of a set from its recipe, its tasks and the counts of its tests.

    Args:
        name: of a set of the package.
    """
    facts = list_recipes()[name].read().recipe.facts
    return SET_PAGE.render(
        name=name,
        facts=facts,
        licence=licence_columns(facts.license or "", terms_of(name, {})),
        configs=json.loads(COUNTS.read_text("utf-8")).get(name, {}),
        tasks=read_tasks(ROOT / "task_yamls" / name),
    )


def on_files(files: Files, config: Any) -> Files:
    """Add ``sets/NAME.md`` for every set of the package, and the pages of `SHOWN`."""
    for page, source in SHOWN.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for name, found in list_recipes().items():
        if found.origin == "package":
            files.append(File.generated(config, f"sets/{name}.md", content=write_set_page(name)))
    return files


def show_output(link: re.Match[str]) -> str:
    """Return what a command prints, in place of the link to it."""
    return f"````text\n{(ROOT / 'docs' / link[1]).read_text(encoding='utf-8')}````"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Show what commands print; let links to files beside docs/ lead to their pages, and drop those that have none."""
    markdown = re.sub(r"^\[.* prints\]\((outputs/\w+\.txt)\)$", show_output, markdown, flags=re.MULTILINE)
    for shown, source in SHOWN.items():
        markdown = markdown.replace(f"](../{source}", f"]({shown}")
    markdown = re.sub(r"\]\((?:\.\./)?task_yamls/(\w+)/_recipe", r"](sets/\1.md", markdown)
    markdown = re.sub(r"\]\((?:\.\./)?docs/", "](", markdown)
    if page.file.src_uri in SHOWN:
        markdown = re.sub(
            r"\[([^\]]+)\]\((?!\w+\.md|sets/|https?:|#)[^)]*\)|\[([^\]]+)\]\((?:CHANGELOG|README)\.md\)",
            r"\1\2",
            markdown,
        )
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", markdown)  # code is in the repository alone
