"""Where recipes are: those of the package, those of the user, and one that somebody sent."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal

from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, read_yaml
from nnd_tasks.schema import VARIANTS
from nnd_tasks.sets.recipe import PREPARE, RECIPE, RecipeFile, SetRecipe
from nnd_tasks.store import task_yamls, tasks_dir, user_tasks_dir
from nnd_tasks.text import did_you_mean


def find_prepare(recipe: Path) -> Path | None:
    """Find the ``prepare.py`` beside a recipe; only a file that is called as `RECIPE` has one."""
    prepare = recipe.with_name(PREPARE)
    return prepare if recipe.name == RECIPE and prepare.is_file() else None


def list_recipes() -> dict[str, RecipeFile]:
    """List set -> its recipe, of the package and of the user; where both have a name, the package's is taken."""
    recipes: dict[str, RecipeFile] = {}
    folders: dict[Path, Literal["package", "own"]] = {tasks_dir(): "package", user_tasks_dir(): "own"}
    for folder, origin in folders.items():
        for path in sorted(folder.glob(f"[!.]*/{RECIPE}")):
            name = path.parent.name
            recipes.setdefault(name, RecipeFile(name, path, origin, find_prepare(path)))
    return recipes


def find_recipe(name: str) -> SetRecipe:
    """Find the recipe of a set, as `find_recipe_file`, and read it; raise NNDError where it is wrong."""
    return find_recipe_file(name).read()


def find_recipe_file(name: str) -> RecipeFile:
    """Find the recipe of the set ``name``, or the recipe in the file or folder ``name``.

    Raises:
        NNDError: there is none; the error suggests similar names.
    """
    recipes = list_recipes()
    if name in recipes:
        return recipes[name]
    path = expand(name)
    if "/" in name or path.suffix or path.name == RECIPE:
        path = path / RECIPE if path.is_dir() else path
        if not path.is_file():
            raise NNDError(f"{path}: there is no such recipe")
        for recipe in recipes.values():
            if recipe.path.samefile(path):
                return recipe
        sent = path.absolute().parent.name if path.name == RECIPE else path.stem
        check_set_name(sent, f"{path}: rename its folder: ")
        check_free_name(sent, f"{path}: rename the folder of the recipe: ")
        return RecipeFile(sent, path, "elsewhere", find_prepare(path))
    similar = did_you_mean(name.removeprefix("nnd_"), recipes, at_most=3, cutoff=0.5)
    raise NNDError(f"there is no set {name!r}; {similar or 'known sets: ' + ', '.join(recipes)}")


def check_set_name(name: str, prefix: str = "") -> None:
    """Raise NNDError for a name that no set can have: it becomes the name of a folder and of a task."""
    if not (name.isidentifier() and name.isascii() and not name.startswith(("nnd_", "_")) and len(name) <= 100):
        raise NNDError(
            f"{prefix}a set is named by letters, digits and _, with a letter and not nnd_ first, not {name!r}"
        )


def check_free_name(name: str, prefix: str = "") -> None:
    """Raise NNDError for a name of a new set that a set, task, group or tag has, or that one of its tasks would have.

    No name of lm-eval itself begins with ``nnd_``, as the task of every set does.
    """
    wanted = {task.casefold() for task in (name, *_with_variants({f"nnd_{name}"}))}
    others = [path for path in task_yamls(user_tasks_dir()) if path.parent.name != name]
    places = {"that comes with the package": task_yamls(tasks_dir()), f"in {user_tasks_dir()}": others}
    for place, paths in places.items():
        taken = {"_base", *(path.parent.name for path in paths)} | _with_variants(_names_in(paths))
        if wanted & {task.casefold() for task in taken}:
            raise NNDError(f"{prefix}{name} is a set, task, group or tag {place}; take another name")


def _with_variants(names: set[str]) -> set[str]:
    return names | {f"{task}_{variant}" for task in names for variant in VARIANTS}


def _names_in(paths: list[Path]) -> set[str]:
    """The names of tasks, groups and tags in YAMLs of lm-eval."""
    names: set[str] = set()
    for path in paths:
        values = {}
        with suppress(NNDError):  # no task that lm-eval could load
            values = read_yaml(path)
        for key in ("task", "group", "tag") if isinstance(values, dict) else ():
            value = values.get(key) or []
            names |= {value} if isinstance(value, str) else {item for item in value if isinstance(item, str)}
    return names
