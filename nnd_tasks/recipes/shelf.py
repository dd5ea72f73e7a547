"""Where recipes are: those of the package, and those of sets that the user made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nnd_tasks.datasets import REPORT, built_sets, dataset_folder, is_name, read_report, tasks_dir, user_tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.recipes.parse import make_recipe, read_recipe
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.wording import did_you_mean

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
        sent: whether it was named by its path and is neither of the package nor the user's: somebody sent it.
    """

    name: str
    path: Path
    recipe: Recipe
    shipped: bool
    sent: bool = False

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


def load_recipe(path: Path, name: str, *, shipped: bool, sent: bool = False) -> SetRecipe:
    """Return the recipe in a file.

    Raises:
        NNDError: it cannot be read, is wrong, or names a step though it does not come with the package.
    """
    recipe = make_recipe(read_recipe(path), str(path))
    if recipe.step and not shipped:
        raise NNDError(f"{path}: step: only recipes of this package can name one; a recipe from elsewhere runs no code")
    if recipe.options and not shipped:
        raise NNDError(f"{path}: options: they are for steps, which only recipes of this package can name")
    return SetRecipe(name, path, recipe, shipped, sent)


def _of_built_set(name: str) -> SetRecipe | None:
    """Return the recipe in the build report of a set that was made before recipes had files of their own; None without one."""
    folder = dataset_folder(name)
    if name not in built_sets():
        return None
    for part in read_report(folder).values():
        if isinstance(part, dict) and isinstance(part.get("recipe"), dict):
            sources = {"sources": part["source_sha256"]} if isinstance(part.get("source_sha256"), dict) else {}
            recipe = make_recipe({**sources, **part["recipe"]}, str(folder / REPORT))
            return None if recipe.step else SetRecipe(name, user_tasks_dir() / name / RECIPE, recipe, shipped=False)
    return None


def find_recipe(name: str) -> SetRecipe:
    """Return the recipe of a set, or that in the file ``name``.

    Raises:
        NNDError: there is none; near matches are named.
    """
    known = recipe_paths()
    if name in known:
        return load_recipe(known[name][0], name, shipped=known[name][1])
    path = recipe_file(name)
    if path is not None:
        for own, (place, shipped) in known.items():
            if same_file(place, path):
                return load_recipe(place, own, shipped=shipped)
        return load_recipe(path, name_of(path), shipped=False, sent=True)
    if (made := _of_built_set(name)) is not None:
        return made
    hint = did_you_mean(name.removeprefix("nnd_"), known, at_most=3, cutoff=0.5) or f"known sets: {', '.join(known)}"
    raise NNDError(f"there is no set {name!r}; {hint}")


def recipe_file(name: str) -> Path | None:
    """Return the file that ``name`` is the path of: a recipe, or a folder with one; None where it is the name of a set.

    Raises:
        NNDError: symbolic links lead from it back to it.
    """
    path = expand(name)
    if not ("/" in name or path.suffix or path.name == RECIPE):
        return None
    try:
        return path / RECIPE if path.is_dir() else path
    except (OSError, ValueError):  # a name that no file can have: whoever opens it says so
        return path


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to one file that is there."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def name_of(path: Path) -> str:
    """Return what a set is called whose recipe somebody sent: as its folder, or as the file without its ending.

    Raises:
        NNDError: no set can be called so.
    """
    name = path.absolute().parent.name if path.name == RECIPE else path.stem
    if not is_name(name) or len(name) > 100:
        what = "its folder" if path.name == RECIPE else "the file"
        raise NNDError(
            f"{path}: a set is named by letters, digits, _, - and .; rename {what}, after which it is called"
        )
    return name
