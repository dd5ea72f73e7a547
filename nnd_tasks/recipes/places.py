"""Find the files of a set in what the user names: a file, a folder, an archive."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.archives import is_archive, unpack
from nnd_tasks.recipes.readers import SUFFIXES
from nnd_tasks.recipes.recipe import File
from nnd_tasks.recipes.shelf import SetRecipe


def locate(found: SetRecipe, place: Path, stack: ExitStack) -> dict[str, Path]:
    """Return file name -> where it is, of a set's files in ``place``.

    Args:
        found: the set.
        place: a file, a folder, or an archive that holds them.
        stack: what an archive is unpacked to is removed when it is closed.

    Raises:
        NNDError: it does not exist, or a required file is missing.
    """
    try:
        if not place.exists():
            raise NNDError(f"{place}: no such file or folder")
        if place.is_file() and is_archive(place):
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="nnd-"))
            return _in_folder(found, unpack(place, Path(scratch)), place)
        return _one_file(found, place) if place.is_file() else _in_folder(found, place, place)
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise NNDError(f"{place}: cannot be read ({error.strerror or error})") from error


def _one_file(found: SetRecipe, place: Path) -> dict[str, Path]:
    recipe, files = found.recipe, found.recipe.files
    if not files or recipe.pattern:
        return {place.name: place}
    required = [file for file in files.values() if not file.optional]
    if any(file.config for file in files.values()):
        if place.name not in files:
            raise NNDError(f"{place}: its name must be {_either(files)}, it decides the config")
        return {place.name: place}  # a file that is named is the only one meant
    if place.name in files and (not required or not files[place.name].optional):
        return {place.name: place, **_beside(files.values(), place)}
    if place.name not in files and len(required) == 1:  # a renamed copy
        return {required[0].name: place, **_beside(files.values(), place)}
    wanted = _either(file.name for file in required or files.values())
    raise NNDError(f"{place}: set {found.name} is built from {wanted}; name that file, or its folder")


def _beside(files: object, place: Path) -> dict[str, Path]:
    """Return optional files that lie in the same folder as ``place``."""
    optional = [file for file in files if isinstance(file, File) and file.optional and file.name != place.name]  # type: ignore[attr-defined]
    return {file.name: path for file in optional if (path := place.parent / file.name).is_file()}


def _in_folder(found: SetRecipe, folder: Path, named: Path) -> dict[str, Path]:
    recipe, name = found.recipe, found.name
    places = (folder, folder / name)
    if recipe.pattern:
        for place in places:
            matching = {path.name: path for path in sorted(place.rglob(recipe.pattern)) if _plain(path)}
            if matching:
                return matching
        first = next(iter(recipe.files), recipe.pattern)
        raise NNDError(f"{named}: set {name} needs a file such as {first} there")
    wanted = recipe.files or {file: File(file) for file in recipe.sources}
    if not wanted:
        tables = {path.name: path for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES}
        if len(tables) != 1:
            raise NNDError(f"{named}: {len(tables)} tables are there; name the file, or list files in the recipe")
        return tables
    files = {file: path for file in wanted for place in places if (path := place / file).is_file()}
    missing = [file.name for file in wanted.values() if not file.optional and file.name not in files]
    if missing:
        raise NNDError(f"{named}: set {name} needs {' and '.join(missing)} there, or in {name}/")
    if not files:
        raise NNDError(f"{named}: set {name} needs {_either(wanted)} there")
    return files


def _plain(path: Path) -> bool:
    """Tell whether a file that fits a pattern is one of judgements; ``mqm_x.avg_seg_scores.tsv`` has averages."""
    return path.is_file() and ".avg" not in path.name


def _either(names: object) -> str:
    return " or ".join(str(name) for name in names)  # type: ignore[attr-defined]
