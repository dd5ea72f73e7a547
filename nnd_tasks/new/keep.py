"""Build a recipe, and keep one of the user's own with a task, so that `nnd list` and `nnd run` know its set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from nnd_tasks.build import BuildResult, build_set
from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.harness.user_tasks import UserTask, remove_user_task, shipped_task, write_task
from nnd_tasks.new.own_task import check_prompt, task_fields, write_recipe
from nnd_tasks.recipes.parse import KEYS
from nnd_tasks.recipes.shelf import find_recipe

#: Options of `nnd new` in an error; a recipe has them as keys.
_OPTION = re.compile(rf"--({'|'.join(key.replace('_', '-') for key in sorted(KEYS, key=len, reverse=True))})\b(?!-)")


def build_recipe(
    name: str,
    source: str | Path | None = None,
    out: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    *,
    progress: bool = True,
    replace: bool = False,
) -> tuple[BuildResult, UserTask | None]:
    """Build a set as `nnd_tasks.build.build_set` does; return what it made, and the task of a set of the user's own.

    A recipe from elsewhere is copied to ``$NND_HOME/task_yamls/NAME/_recipe``, and its task is written anew from it: YAMLs that
    came with it are not taken, as lm-eval runs code that they name. With ``out``, only the dataset folder is written.

    Raises:
        NNDError: as `build_set`.
    """
    found = find_recipe(name)
    if not found.shipped:
        check_prompt(found.recipe)
    try:
        result = build_set(name, source, out, options, progress=progress, replace=replace)
    except NNDError as error:
        text = str(error)
        if (said := _OPTION.sub(lambda option: f"`{option[1].replace('-', '_')}:`", text)) == text or found.shipped:
            raise
        raise NNDError(said) from error
    if found.shipped or out is not None or shipped_task(f"nnd_{found.name}") is not None:
        return result, None
    fields = task_fields(found.name, found.recipe, read_table(result.folder))
    if replace:
        remove_user_task(f"nnd_{found.name}")
    task = write_task(f"nnd_{found.name}", fields)
    write_recipe(found.name, found.recipe.dump())
    return result, task
