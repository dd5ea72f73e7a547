"""The table of sets by task and language in docs/sets.md, and the numbers of tests in README.md, from the recipes.

    python benchmarks/set_table.py            # name what no longer comes out
    python benchmarks/set_table.py --write    # write both again

Tests are those of the configs that have a task, as published. Minutes, and the ceiling where there is one, are those of
docs/which_set.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from nnd_tasks.languages import LANGUAGES
from nnd_tasks.sets.catalogue import list_recipes
from nnd_tasks.task.task_files import read_task_yaml

ROOT = Path(__file__).resolve().parent.parent
README, SETS, WHICH = ROOT / "README.md", ROOT / "docs" / "sets.md", ROOT / "docs" / "which_set.md"
BEGIN, END = "<!-- benchmarks/set_table.py writes what follows. -->\n", "<!-- It wrote what precedes. -->\n"


def count_tests() -> dict[str, int]:
    """Return set -> published tests of the configs that a task of it reads."""
    counts = {}
    for name, found in list_recipes().items():
        recipe = found.read().recipe
        configs = {
            read_task_yaml(path)[0].get("dataset_name", recipe.config) for path in found.path.parent.glob("*.yaml")
        }
        published = recipe.published or {recipe.config: sum(recipe.expected.values())}
        counts[name] = sum(number for config, number in published.items() if config in configs)
    return counts


def write_table(counts: dict[str, int]) -> str:
    """Return the table: a row per set, by task and language."""
    minutes = dict(re.findall(r"\| \[`(\w+)`\].*? \| ([<\d]+/[<\d]+/[<\d]+) \|", WHICH.read_text("utf-8")))
    rows = []
    for name, found in list_recipes().items():
        facts = found.read().recipe.facts
        languages = ", ".join(LANGUAGES.get(code, code) for code in facts.language)
        number = f"{counts[name]:,}" if counts[name] else ""
        rows.append((facts.kind or "", languages, f"`{name}`", number, minutes.get(name, ""), facts.license or ""))
    lines = ["| task | languages | set | tests | minutes | licence |", "|---|---|---|---:|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in sorted(rows)), ""])


def fill_readme(text: str, counts: dict[str, int]) -> str:
    """Return the README with the sum of the tests in each row that names several sets."""

    def add(row: re.Match[str]) -> str:
        return f"{row[1]}{sum(counts[name] for name in re.findall('`([a-z0-9_]+)`', row[1])):,} |"

    return re.sub(r"(?m)^(\| `\w+`, .*\| )[\d,]+ \|$", add, text)


def main() -> None:
    """Read the command line, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    counts = count_tests()
    page = SETS.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    texts = {
        SETS: f"{before}{BEGIN}\n{write_table(counts)}\n{END}{rest.partition(END)[2]}",
        README: fill_readme(README.read_text("utf-8"), counts),
    }
    old = [path.name for path, text in texts.items() if path.read_text("utf-8") != text]
    if options.write:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    elif old:
        sys.exit(f"to be written again: {', '.join(old)}")


if __name__ == "__main__":
    main()
