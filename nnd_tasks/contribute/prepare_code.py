"""How the records of a file become rows of judged texts, and the ``prepare.py`` that says so."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nnd_tasks.sets.recipe import Recipe
from nnd_tasks.text import some_of

#: Stands in an expression of Python for what the user has to complete.
TO_COMPLETE = "[...]"


_ORDER = (
    *("context", "candidate", "label", "score", "attribute", "system", "rater", "group", "category", "subcategory"),
    *("severity", "where"),
)
_SAYS = {
    "context": "what a model is given",
    "candidate": "the text that was judged",
    "label": 'what people said of it (or "score": a number)',
    "score": 'a number, or a list of them (or "label": what people said)',
}


#: What the code uses -> the line that imports it.
_IMPORTS = {
    "ElementTree.": "from xml.etree import ElementTree",
    "unpack(": "from nnd_tasks.sets.cells import unpack",
    "read_json(": "from nnd_tasks.sets.read import read_json",
    "read_records(": "from nnd_tasks.sets.read import read_records",
    "read_table(": "from nnd_tasks.sets.read import read_table",
    "Recipe(": "from nnd_tasks.sets.recipe import Recipe",
}


@dataclass
class Layout:
    """How the records of a file become rows of judged texts.

    Attributes:
        seen: what was recognised, for the user.
        roles: role -> expression of Python; ``[...]`` in it is for the user to complete.
        loops: the loops over the texts of one record, and conditions.
        columns: rows of the constant ``COLUMNS``, over which a loop goes.
        reader: the loop over records of ``{path}``; None takes the one for the kind of file.
        fields: names that the user can put for ``[...]``.
        better: the labels of the rule, where the code gives labels of its own.
    """

    seen: str
    roles: dict[str, str] = field(default_factory=dict)
    loops: list[str] = field(default_factory=list)
    columns: list[tuple[str, ...]] = field(default_factory=list)
    reader: str | None = None
    fields: list[str] = field(default_factory=list)
    better: str | None = None

    def write_code(self, name: str, files: Sequence[str], recipe: Recipe, columns: Sequence[str]) -> str:
        """The ``prepare.py`` that reads files so.

        Args:
            name: of the set.
            files: names of the files of the set.
            recipe: how they are read, and which rows are left out.
            columns: of the table, for the user.
        """
        suffix = Path(files[0]).suffix
        is_json = suffix.lower() in (".json", ".jsonl", ".ndjson")
        encoding = f"encoding={quote(recipe.encoding)}" if recipe.encoding else ""
        path, loops = f"folder / {quote(files[0])}", []
        if len(files) > 1:
            path, loops = "path", [f"for path in sorted(folder.rglob({quote(f'*{suffix}')}))"]
        if self.reader:
            loops.append(self.reader.replace("{path}", path))
        elif is_json:
            loops.append(f"for record in read_records({', '.join(filter(None, [path, encoding]))})")
        else:
            loops.append(f'for record in read_table({path}, Recipe({encoding})).to_dict("records")')
        for column, values in recipe.leave_out.items():
            loops.append(f"if str(record[{quote(column)}]) not in {literal(values)}")
        roles = {"where": "record.where" if is_json else "f\"row {record['@row']}\"", **self.roles}
        lines = ["def rows(folder: Path) -> pd.DataFrame:", '    """A row per judged text."""']
        if any(TO_COMPLETE in code for code in (*roles.values(), *loops)):
            fields = [*(f"record[{quote(column)}]" for column in columns), *self.fields]
            lines.append(f"    # [...] is to be completed; there are: {some_of(fields, 40, str)}")
        lines += ["    return pd.DataFrame(", "        {"]
        for role in sorted(roles, key=_ORDER.index):
            says = f"  # {_SAYS[role]}" if role in _SAYS else ""
            lines.append(f"            {quote(role)}: {roles[role]},{says}")
        lines += ["        }", *(f"        {loop}" for loop in [*loops, *self.loops]), "    )"]
        if self.columns:
            titles = self.loops[0].removeprefix("for ").removesuffix(" in COLUMNS")
            rows = [f"    {literal(row)}," for row in self.columns]
            lines = [f"COLUMNS = (  # {titles}", *rows, ")", "", "", *lines]
        body = "\n".join(lines)
        imports = [line for used, line in _IMPORTS.items() if used in body]
        standard = ["from pathlib import Path", *(line for line in imports if "nnd_tasks" not in line)]
        ours = [line for line in imports if "nnd_tasks" in line]
        seen = re.sub(r'[\\"]', "'", self.seen)
        parts = [
            f'"""{name}: {seen}."""',
            "\n".join(standard),
            "import pandas as pd",
            *(["\n".join(ours)] if ours else []),
        ]
        return "\n\n".join(parts) + ("\n\n" if self.columns else "\n\n\n") + body + "\n"


def quote(text: str) -> str:
    """A text as a literal of Python."""
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else repr(text)


def literal(names: Sequence[str]) -> str:
    """Names as a tuple of Python."""
    return f"({', '.join(map(quote, names))}{',' if len(names) == 1 else ''})"
