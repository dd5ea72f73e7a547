"""Where recipes are: those of the package, and those of sets that the user made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nnd_tasks.datasets import REPORT, built_sets, dataset_folder, read_report, tasks_dir, user_tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.recipes.parse import make_recipe, read_recipe, with_keys
from nnd_tasks.recipes.recipe import FILE, FOLDER, Recipe
from nnd_tasks.wording import did_you_mean

#: In the folder of a set; without .yaml, which lm-eval would take for a task.
RECIPE = "_recipe"


@dataclass(frozen=True)
class SetRecipe:
    """A recipe, the set that it makes, and where it comes from.

    Attributes:
        name: of the set.
        path: of the recipe's YAML.
        recipe: what the YAML says.
        shipped: whether it comes with the package; only such a recipe may name a step.
        sent: whether the user named it by its path, and it is neither of the package nor one of the user's: somebody sent it.
    """

    name: str
    path: Path
    recipe: Recipe
    shipped: bool
    sent: bool = False

    @property
    def has_translations(self) -> bool:
        """Whether each file of a set of the package is a config of its own, with translations from and into other languages."""
        return self.shipped and self.recipe.task_category == "translation" and self.recipe.config in (FILE, FOLDER)


def recipe_paths() -> dict[str, tuple[Path, bool]]:
    """Return set -> its recipe, and whether it comes with the package; of one name the package's recipe counts."""
    paths: dict[str, tuple[Path, bool]] = {}
    for parent, shipped in ((tasks_dir(), True), (user_tasks_dir(), False)):
        for path in sorted(parent.glob(f"*/{RECIPE}")) if parent.is_dir() else []:
            paths.setdefault(path.parent.name, (path, shipped))
    return paths


def load_recipe(path: Path, name: str, *, shipped: bool, sent: bool = False) -> SetRecipe:
    """Return the recipe in a file.

    Raises:
        NNDError: it cannot be read, is wrong, or names a step though it does not come with the package.
    """
    keys = read_recipe(path)
    try:
        recipe = make_recipe(keys, str(path))
    except NNDError as error:
        message = with_keys(str(error))
        raise NNDError(message if message.startswith(str(path)) else f"{path}: {message}") from error
    if recipe.step and not shipped:
        raise NNDError(f"{path}: step: only recipes of this package can name one; a recipe from elsewhere runs no code")
    if recipe.options and not shipped:
        raise NNDError(f"{path}: options: they are for steps, which only recipes of this package can name")
    return SetRecipe(name, path, recipe, shipped, sent)


def _of_built_set(name: str) -> SetRecipe | None:
    """Return the recipe in the build report of a set, as older versions of the package kept it there; None without one."""
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
    """Return the recipe of the set ``name``, or the recipe in the file ``name``.

    Raises:
        NNDError: there is none; the error suggests similar names.
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
    """Return the recipe whose path, or folder, ``name`` is; None where it is the name of a set.

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
    """Tell whether two paths lead to one existing file."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def name_of(path: Path) -> str:
    """Return the name of a set whose recipe somebody sent: that of the recipe's folder, or of the file without its ending.

    Raises:
        NNDError: no set can have this name.
    """
    name = path.absolute().parent.name if path.name == RECIPE else path.stem
    check_set_name(name, path)
    return name


def check_set_name(name: str, path: Path | None = None) -> None:
    """Raise NNDError for a name that no set can have: it becomes the name of a folder and of a task.

    Args:
        name: the name.
        path: the recipe that got its name from its folder or file; named in the error.
    """
    if name.isidentifier() and name.isascii() and not name.startswith("nnd_") and len(name) <= 100:
        return
    message = f"a set is named by letters, digits and _, without nnd_ before them, not {name!r}"
    if path is None:
        raise NNDError(message)
    raise NNDError(f"{path}: {message}; rename {'the folder of the recipe' if path.name == RECIPE else 'the file'}")
