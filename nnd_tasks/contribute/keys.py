"""What a recipe can say, and what a task can set, as Markdown: the attributes that the docstrings of their models describe."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import getdoc

from pydantic import BaseModel

from nnd_tasks.publishers.wanted import File
from nnd_tasks.sets.recipe import Facts, Recipe
from nnd_tasks.tables.columns import Columns, Spans

#: Title -> the model of these keys.
RECIPE: Mapping[str, type[BaseModel]] = {
    "The keys of a recipe": Recipe,
    "Which column is what": Columns,
    "Of each file under `files`": File,
    "Under `spans`": Spans,
    "Under `facts`": Facts,
}


def describe_keys(models: Mapping[str, type[BaseModel]]) -> str:
    """Describe the keys of models: a heading for each, with a list."""
    parts = []
    for title, model in models.items():
        text = (getdoc(model) or "").partition("Attributes:\n")[2].replace("``", "`")
        items = re.findall(r"^ {4}(\w+): (.*(?:\n {8,}.*)*)", text, re.MULTILINE)
        parts.append(
            "\n".join([f"### {title}\n", *(f"- `{key}`: {' '.join(meaning.split())}" for key, meaning in items)])
        )
    return "\n\n".join(parts)
