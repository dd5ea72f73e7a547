"""Where recipes are: those of the package, and those of sets that the user made."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nnd_tasks.datasets import tasks_dir, user_tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.parse import make_recipe, read_recipe
from nnd_tasks.recipes.recipe import Recipe

#: In the folder of a set; without .yaml, which lm-eval would take for a task.
RECIPE = "_recipe"


@dataclass(frozen=True)
class SetRecipe:
    """The recipe of a set.

    Attributes:
        name: of the set.
        path: of its YAML.
        recipe: what it says.
        shipped: whether it comes with the package; only then it may name a step.
    """

    name: str
    path: Path
    recipe: Recipe
    shipped: bool

    @property
    def folder(self) -> Path:
        """The folder of the set's task YAMLs."""
        return self.path.parent


def recipe_paths() -> dict[str, tuple[Path, bool]]:
    """Return set -> its recipe, and whether that comes with the package; the package's go first."""
    found: dict[str, tuple[Path, bool]] = {}
    for parent, shipped in ((tasks_dir(), True), (user_tasks_dir(), False)):
        for path in sorted(parent.glob(f"*/{RECIPE}")) if parent.is_dir() else []:
            found.setdefault(path.parent.name, (path, shipped))
    return found


def load_recipe(path: Path, name: str, *, shipped: bool) -> SetRecipe:
    """Return the recipe in a file.

    Raises:
        NNDError: it cannot be read, is wrong, or names a step though it does not come with the package.
    """
    recipe = make_recipe(read_recipe(path), str(path))
    if recipe.step and not shipped:
        raise NNDError(f"{path}: step: only recipes of this package can name one; a recipe from elsewhere runs no code")
    return SetRecipe(name, path, recipe, shipped)


def all_recipes() -> Iterator[SetRecipe | NNDError]:
    """Yield every recipe of the package and the user; where one cannot be read, its error."""
    for name, (path, shipped) in recipe_paths().items():
        try:
            yield load_recipe(path, name, shipped=shipped)
        except NNDError as error:
            yield error


def find_recipe(name: str) -> SetRecipe:
    """Return the recipe of a set, or that in the file ``name``.

    Raises:
        NNDError: there is none; near matches are named.
    """
    known = recipe_paths()
    if name in known:
        return load_recipe(known[name][0], name, shipped=known[name][1])
    path = Path(name)
    if path.name == RECIPE and path.parent.name:
        path = path.parent / RECIPE
    if "/" in name or path.suffix or path.name == RECIPE:
        path = path / RECIPE if path.is_dir() else path
        own = path.resolve().parent.name if path.name == RECIPE else path.stem
        return load_recipe(path, own, shipped=False)
    near = difflib.get_close_matches(name.removeprefix("nnd_").lower(), known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known sets: {', '.join(known)}"
    raise NNDError(f"there is no set {name!r}; {hint}")
