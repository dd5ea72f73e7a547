"""Find the files of a set in what the user names: a file, a folder, an archive."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.files import MAX_CONFIG_BYTES, expand, read_bytes, reading
from nnd_tasks.recipes.archives import is_archive, unpack
from nnd_tasks.recipes.readers import SUFFIXES
from nnd_tasks.recipes.recipe import FILE, FOLDER, File
from nnd_tasks.recipes.shelf import SetRecipe
from nnd_tasks.wording import some_of


def locate(found: SetRecipe, place: Path, stack: ExitStack) -> dict[str, Path]:
    """Return file name -> where it is, of a set's files in ``place``.

    Args:
        found: the set.
        place: a file, a folder, or an archive that holds them.
        stack: what an archive is unpacked to is removed when it is closed.

    Raises:
        NNDError: it does not exist, or a required file is missing.
    """
    with reading(place):  # a name that is too long, a folder that may not be read
        if not place.exists():
            raise NNDError(f"{place}: no such file or folder")
        if not (place.is_file() or place.is_dir()):
            raise NNDError(f"{place}: is no regular file; a device or a pipe may never end")
        if place.is_file() and is_archive(place):
            return _in_folder(found, stack.enter_context(_unpacked(place)), place)
        if place.is_file():
            return _one_file(found, place)
        files = _in_folder(found, place, place)
        if not found.shipped:
            _check_links(files, place)
        return files


@contextmanager
def _unpacked(archive: Path) -> Iterator[Path]:
    """Yield a folder with the tables of an archive, called as the archive is; errors within name the archive."""
    with tempfile.TemporaryDirectory(prefix="nnd-") as scratch:
        folder = Path(scratch) / (archive.name.split(".")[0] or "archive")
        try:
            yield unpack(archive, folder)
        except NNDError as error:
            raise NNDError(str(error).replace(str(folder), str(archive))) from error


def named_files(source: str, stack: ExitStack) -> dict[str, Path] | None:
    """Return name -> where it is, of the tables in what a user names; None where it is a dataset, for `datasets` to load.

    Args:
        source: a file; a folder of tables; a pattern such as ``ratings/*.csv``; a zip or tar, or one of its members as
            ``ARCHIVE:MEMBER``, which may be a pattern too.
        stack: what an archive is unpacked to is removed when it is closed.

    Raises:
        NNDError: no table is there, or it cannot be read.
    """
    place = expand(source)
    before, colon, member = source.rpartition(":")
    with reading(source):
        if place.is_file() and is_archive(place):
            return _tables_in(stack.enter_context(_unpacked(place)), source)
        if place.is_file():
            return {place.name: place}
        if colon and is_archive(archive := expand(before)) and archive.is_file():
            return _fitting(stack.enter_context(_unpacked(archive)), member, str(archive))
        if place.is_dir():
            return None if _is_dataset(place) else _tables_in(place, source)
        if (magic := next((i for i, part in enumerate(place.parts) if _MAGIC.search(part)), 0)) > 0:
            return _fitting(Path(*place.parts[:magic]), "/".join(place.parts[magic:]), source)
    if is_archive(place):
        raise NNDError(f"{place}: no such file")
    return None


_MAGIC = re.compile(r"[*?\[]")


def _tables_in(folder: Path, source: str) -> dict[str, Path]:
    found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))
             if path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith((".", "~$"))}  # fmt: skip
    if not found:
        raise NNDError(f"{source}: 0 tables are there ({', '.join(sorted(SUFFIXES))})")
    return found


def _fitting(folder: Path, pattern: str, source: str) -> dict[str, Path]:
    """Return the tables of a folder whose names fit a pattern, or that is named."""
    if (folder / pattern).is_file() and (folder / pattern).resolve().is_relative_to(folder.resolve()):
        return {pattern: folder / pattern}
    paths = [path for path in sorted(folder.glob(pattern)) if path.is_file()] if folder.is_dir() else []
    if not paths:
        known = list(_tables_in(folder, source)) if folder.is_dir() else []
        raise NNDError(f"{source}: no file {pattern!r} is there; there are: {some_of(known)}")
    return {path.relative_to(folder).as_posix(): path for path in paths}


def _is_dataset(folder: Path) -> bool:
    """Tell whether a folder is one that `datasets` wrote, or a copy of one of the hub, with splits and a card."""
    if any((folder / name).is_file() for name in ("dataset_info.json", "dataset_dict.json")):
        return True
    card = folder / "README.md"
    head = read_bytes(card, limit=MAX_CONFIG_BYTES) if card.is_file() else b""
    return bool(re.match(rb"---\s.*^(configs|dataset_info):", head, re.DOTALL | re.MULTILINE)) or any(
        folder.rglob("*-of-[0-9]*.parquet")
    )


def _one_file(found: SetRecipe, place: Path) -> dict[str, Path]:
    recipe, files = found.recipe, found.recipe.files
    if not files or recipe.pattern:
        return {place.name: place}
    required = [file for file in files.values() if not file.optional]
    if any(file.config for file in files.values()):
        if place.name not in files:
            raise NNDError(f"{place}: its name must be {_either(files)}, it decides the config")
        return {place.name: place}  # a file that is named is the only one meant
    # What a recipe from elsewhere calls a file of its own beside the one that the user named may be any file.
    beside = _beside(files.values(), place) if found.shipped else {}
    if place.name in files and (not required or not files[place.name].optional):
        return {place.name: place, **beside}
    if place.name not in files and len(required) == 1:  # a renamed copy
        return {required[0].name: place, **beside}
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
            matching = [path for path in sorted(place.rglob(recipe.pattern)) if _plain(path)]
            twice = len({path.name for path in matching}) < len(matching)  # one of a name in each of several folders
            if matching:
                return {path.relative_to(place).as_posix() if twice else path.name: path for path in matching}
        first = next(iter(recipe.files), recipe.pattern)
        raise NNDError(f"{named}: set {name} needs a file such as {first} there")
    wanted = recipe.files or {file: File(file) for file in recipe.sources}
    if not wanted:
        tables = _tables_in(folder, str(named))
        if len(tables) > 1 and not {FILE, FOLDER} & {*recipe.columns(), recipe.config}:
            raise NNDError(
                f"{named}: {len(tables)} tables are there; name the file, or say in the recipe which: files, a pattern, or @file "
                "as a column for all of them"
            )
        return tables
    files = {file: path for file in wanted for place in places if (path := place / file).is_file()}
    missing = [file.name for file in wanted.values() if not file.optional and file.name not in files]
    if missing:
        raise NNDError(f"{named}: set {name} needs {' and '.join(missing)} there, or in {name}/")
    if not files:
        raise NNDError(f"{named}: set {name} needs {_either(wanted)} there")
    return files


def _check_links(files: Mapping[str, Path], folder: Path) -> None:
    """Raise NNDError for a file that is a link out of the folder: who sent the folder may mean a file of the user's."""
    for path in files.values():
        if not path.resolve().is_relative_to(folder.resolve()):
            raise NNDError(f"{path}: is a link out of {folder}; if it is the file, name what it leads to with --source")


def _plain(path: Path) -> bool:
    """Tell whether a file that fits a pattern is one of judgements; ``mqm_x.avg_seg_scores.tsv`` has averages."""
    return path.is_file() and ".avg" not in path.name


def _either(names: object) -> str:
    return " or ".join(str(name) for name in names)  # type: ignore[attr-defined]
