"""Build a recipe; a user's own recipe is stored with a task, so that `nnd list` and `nnd run` know its set."""

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

#: An option of `nnd new` in an error; in a recipe it is a key.
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

    A recipe from elsewhere is copied to ``$NND_HOME/task_yamls/NAME/_recipe``, and its task is made from it. Task YAMLs that
    came with it are ignored, because lm-eval runs code that they name. With ``out``, only the dataset folder is written.

    Raises:
        NNDError: as `build_set`.
    """
    set_recipe = find_recipe(name)
    name, recipe = set_recipe.name, set_recipe.recipe
    if not set_recipe.shipped:
        check_prompt(recipe)
    try:
        result = build_set(set_recipe, source, out, options, progress=progress, replace=replace)
    except NNDError as error:
        if set_recipe.shipped:
            raise
        raise NNDError(_OPTION.sub(lambda option: f"`{option[1].replace('-', '_')}:`", str(error))) from error
    task = f"nnd_{name}"
    if set_recipe.shipped or out is not None or shipped_task(task) is not None:
        return result, None
    fields = task_fields(name, recipe, read_table(result.folder))
    if replace:
        remove_user_task(task)
    written = write_task(task, fields)
    write_recipe(name, recipe.dump())
    return result, written
