"""Find the files of a set in what the user names: a file, a folder, an archive."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import MAX_CONFIG_BYTES, expand, read_bytes, reading
from nnd_tasks.recipes.archives import is_archive, unpack, unpacked_name
from nnd_tasks.recipes.readers import SUFFIXES
from nnd_tasks.recipes.recipe import FILE, FOLDER, File
from nnd_tasks.recipes.shelf import SetRecipe
from nnd_tasks.wording import some_of


def locate(set_recipe: SetRecipe, place: Path, stack: ExitStack) -> dict[str, Path]:
    """Return file name -> path for the files of a set in ``place``.

    Args:
        set_recipe: the set.
        place: a file, or a folder or an archive that holds the files.
        stack: removes what an archive is unpacked to when it is closed.

    Raises:
        NNDError: it does not exist, or a required file is missing.
    """
    with reading(place):  # a name that is too long, a folder without permission
        if not place.exists():
            raise NNDError(f"{place}: no such file or folder")
        if not (place.is_file() or place.is_dir()):
            raise NNDError(f"{place}: is not a regular file; a device or a pipe may never end")
        if place.is_file() and is_archive(place):
            return _in_folder(set_recipe, stack.enter_context(_unpacked(place)), place, stack)
        if place.is_file():
            return _one_file(set_recipe, place)
        files = _in_folder(set_recipe, place, place, stack)
        if not set_recipe.shipped:
            _check_links([path for path in files.values() if path.is_relative_to(place)], place)  # others were packed
        return files


@contextmanager
def _unpacked(archive: Path) -> Iterator[Path]:
    """Yield a folder of the archive's name with its tables; errors within the block name the archive."""
    with tempfile.TemporaryDirectory(prefix="nnd-") as scratch:
        folder = Path(scratch) / (archive.name.split(".")[0] or "archive")
        try:
            yield unpack(archive, folder)
        except NNDError as error:
            raise NNDError(str(error).replace(str(folder), str(archive))) from error


def named_files(source: str, stack: ExitStack) -> dict[str, Path] | None:
    """Return name -> path for the tables in what a user names; None where it is a dataset for `datasets` to load.

    Args:
        source: a file; a folder of tables; a pattern such as ``ratings/*.csv``; a zip or tar, or one of its members as
            ``ARCHIVE:MEMBER``, which may be a pattern too.
        stack: removes what an archive is unpacked to when it is closed.

    Raises:
        NNDError: no table is there, or it cannot be read.
    """
    place = expand(source)
    before, colon, member = source.rpartition(":")
    try:
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
    except (OSError, ValueError) as error:
        raise NNDError(f"{source}: cannot be read ({reason_of(error)})") from error
    if is_archive(place):
        raise NNDError(f"{place}: no such file")
    return None


_MAGIC = re.compile(r"[*?\[]")


def _tables_in(folder: Path, source: str) -> dict[str, Path]:
    """Return the tables in a folder and the folders below it, without hidden and temporary files."""
    tables = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))
              if path.suffix.lower() in SUFFIXES and path.is_file() and not path.name.startswith((".", "~$"))}  # fmt: skip
    if not tables:
        raise NNDError(f"{source}: 0 tables are there ({', '.join(sorted(SUFFIXES))})")
    return tables


def _fitting(folder: Path, pattern: str, source: str) -> dict[str, Path]:
    """Return the files of a folder whose names fit a pattern, or the one that it names."""
    if (folder / pattern).is_file() and (folder / pattern).resolve().is_relative_to(folder.resolve()):
        return {pattern: folder / pattern}
    paths = [path for path in sorted(folder.glob(pattern)) if path.is_file()] if folder.is_dir() else []
    if not paths:
        known = list(_tables_in(folder, source)) if folder.is_dir() else []
        raise NNDError(f"{source}: no file {pattern!r} is there; there are: {some_of(known)}")
    return {path.relative_to(folder).as_posix(): path for path in paths}


def _is_dataset(folder: Path) -> bool:
    """Tell whether `datasets` wrote a folder, or it is a copy of a dataset of the hub, with splits and a card."""
    if any((folder / name).is_file() for name in ("dataset_info.json", "dataset_dict.json")):
        return True
    card = folder / "README.md"
    head = read_bytes(card, limit=MAX_CONFIG_BYTES) if card.is_file() else b""
    return bool(re.match(rb"---\s.*^(configs|dataset_info):", head, re.DOTALL | re.MULTILINE)) or any(
        folder.rglob("*-of-[0-9]*.parquet")
    )


def _one_file(set_recipe: SetRecipe, place: Path) -> dict[str, Path]:
    """Return the files of a set where the user named one file."""
    recipe, files = set_recipe.recipe, set_recipe.recipe.files
    if not files or recipe.pattern:
        return {place.name: place}
    required = [file for file in files.values() if not file.optional]
    if any(file.config for file in files.values()):
        if place.name not in files:
            raise NNDError(f"{place}: its name must be {_either(files)}, it decides the config")
        return {place.name: place}  # the user means this file only
    # Optional files are taken from the same folder; a recipe from elsewhere could name any file of the user there.
    optional = [
        file.name for file in files.values() if set_recipe.shipped and file.optional and file.name != place.name
    ]
    beside = {name: path for name in optional if (path := place.parent / name).is_file()}
    if place.name in files and (not required or not files[place.name].optional):
        return {place.name: place, **beside}
    if place.name not in files and len(required) == 1:  # a renamed copy
        return {required[0].name: place, **beside}
    wanted = _either(file.name for file in required or files.values())
    raise NNDError(f"{place}: set {set_recipe.name} is built from {wanted}; name that file, or its folder")


def _in_folder(set_recipe: SetRecipe, folder: Path, named: Path, stack: ExitStack) -> dict[str, Path]:
    """Return the files of a set in a folder, or in a folder of the set's name in it; errors name ``named``.

    A set whose recipe names its files is also found in the one other folder there that holds all of them.
    """
    recipe, name = set_recipe.recipe, set_recipe.name
    places = (folder, folder / name)
    if recipe.pattern:
        for place in reversed(places):  # a folder of the set's name has the files of this set alone
            matching = _matching(set_recipe, place, stack)
            twice = len({path.name for path in matching}) < len(matching)  # one name in several folders
            if matching:
                return {file if twice else path.name: path for path, file in matching.items()}
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
    files, missing = _wanted_in(wanted, *places)
    if missing or not files:
        inner = [one for one in sorted(folder.iterdir()) if one.is_dir()]
        whole = [one for one in inner if (found := _wanted_in(wanted, one))[0] and not found[1]]
        if len(whole) > 1:
            raise NNDError(f"{named}: {some_of([one.name for one in whole])} hold the files of set {name}; name one")
        if whole:
            files, missing = _wanted_in(wanted, whole[0])
    if missing:
        raise NNDError(f"{named}: set {name} needs {' and '.join(missing)} there, or in {name}/")
    if not files:
        raise NNDError(f"{named}: set {name} needs {_either(wanted)} there")
    return files


def _wanted_in(wanted: Mapping[str, File], *places: Path) -> tuple[dict[str, Path], list[str]]:
    """Return the wanted files that lie in places, of one name that in the last; and the names of those that lack."""
    files = {file: path for file in wanted for place in places if (path := place / file).is_file()}
    return files, [file.name for file in wanted.values() if not file.optional and file.name not in files]


def _matching(set_recipe: SetRecipe, place: Path, stack: ExitStack) -> dict[Path, str]:
    """Return path -> path below ``place`` of the files that fit a set's pattern, plain or packed as ``NAME.tar.gz`` and so on."""

    def fitting(pattern: str) -> list[Path]:
        # mqm_x.avg_seg_scores.tsv has averages, not judgements.
        return [path for path in sorted(place.rglob(pattern)) if path.is_file() and ".avg" not in path.name]

    pattern = str(set_recipe.recipe.pattern)
    matching = {path: path.relative_to(place).as_posix() for path in fitting(pattern)}
    archives = [path for path in fitting(f"{pattern}.*") if is_archive(path)]
    packed = [path for path in archives if path.with_name(unpacked_name(path)) not in matching]
    if not set_recipe.shipped:
        _check_links(packed, place)
    for path in packed:
        within = sorted(stack.enter_context(_unpacked(path)).rglob(pattern))
        matching |= {one: (path.parent / one.name).relative_to(place).as_posix() for one in within}
    return matching


def _check_links(files: Iterable[Path], folder: Path) -> None:
    """Raise NNDError for a file that is a link out of the folder: its sender may have aimed at a file of the user's."""
    for path in files:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise NNDError(f"{path}: is a link out of {folder}; if it is the file, name what it leads to with --source")


def _either(names: Iterable[str]) -> str:
    return " or ".join(names)
