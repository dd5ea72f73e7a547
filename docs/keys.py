"""Write the kinds of files, the keys of recipes, the settings of tasks and the columns of sets into docs/contribute.md.

python docs/keys.py            # exit status 1 where they are not as the page says
python docs/keys.py --write
"""

from __future__ import annotations

import sys
from importlib import import_module
from inspect import getdoc
from pathlib import Path

from nnd_tasks import schema
from nnd_tasks.contribute import exports
from nnd_tasks.contribute.keys import RECIPE, describe_keys
from nnd_tasks.task.settings import Settings

PAGE = Path(__file__).with_name("contribute.md")
SETTINGS = {"Under `metadata` of a task, or in `--metadata`": Settings}
BEGIN, END = "<!-- written by docs/keys.py: {} -->\n", "<!-- end -->\n"


def list_kinds() -> str:
    """Return a table of the kinds of files, of the docstrings of their modules."""
    lines = ["| kind | what `nnd new` says of it |", "|---|---|"]
    for name in ("wide", "two_headers", "appraise_ranking", *exports.KINDS):
        text = " ".join((getdoc(import_module(f"{exports.__name__}.{name}")) or "").split())
        lines.append(f"| `{name}` | {text} |")
    return "\n".join(lines)


def write_page(text: str) -> str:
    """Return the text of the page with what stands between each two marks made anew."""
    columns = (getdoc(schema) or "").partition("\n\n")[2].replace("``", "`")
    made = {
        "kinds": list_kinds(),
        "keys": f"{describe_keys(RECIPE)}\n\n{describe_keys(SETTINGS)}\n\n## Files and columns of a set\n\n{columns}",
    }
    for name, part in made.items():
        before, begin, rest = text.partition(BEGIN.format(name))
        text = f"{before}{begin}\n{part}\n\n{END}{rest.partition(END)[2]}"
    return text


if __name__ == "__main__":
    page = PAGE.read_text("utf-8")
    made = write_page(page)
    if "--write" in sys.argv:
        PAGE.write_text(made, "utf-8")
    sys.exit(made != page and "--write" not in sys.argv)
