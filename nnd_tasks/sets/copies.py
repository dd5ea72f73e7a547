"""Publishers' files that the user has: in the folder that NND_SOURCES names, and in NND_HOME/sources."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import pooch

from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, reading
from nnd_tasks.store import nnd_home


def sha256_of(path: Path) -> str:
    """Hash a file: its SHA-256, 64 hex digits; raise NNDError where it cannot be read."""
    with reading(path):
        return str(pooch.file_hash(str(path), alg="sha256"))


def list_files(folder: Path) -> dict[str, Path]:
    """List path within the folder -> path of each file in it, at any depth, but for hidden ones."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {path.relative_to(folder).as_posix(): path for path in paths}


def sources_folder() -> Path:
    """Name the folder where a publisher's file can be put by hand."""
    return nnd_home() / "sources"


def _list_folders() -> list[Path]:
    named = os.environ.get("NND_SOURCES")
    if not named:
        return [sources_folder()]
    if not expand(named).is_dir():
        raise NNDError(f"NND_SOURCES={named}: there is no such folder")
    return [expand(named), sources_folder()]


def find_by_hash(name: str, sha256: str) -> Path | None:
    """Find a file by its SHA-256: first those called ``name``, then those with the same ending.

    Raises:
        NNDError: ``NND_SOURCES`` names no folder, or a file cannot be read.
    """
    wanted = Path(name)
    for folder in _list_folders():
        alike = [path for path in list_files(folder).values() if path.suffix == wanted.suffix]
        for path in sorted(alike, key=lambda path: path.name != wanted.name):
            if _hash_once(path, path.stat().st_mtime_ns) == sha256:
                return path
    return None


@lru_cache(maxsize=10_000)
def _hash_once(path: Path, changed: int) -> str:
    """Hash a file that was changed at that time (nanoseconds)."""
    return sha256_of(path)


def find_by_name(name: str, set_name: str) -> Path | None:
    """Find a file by its name; of several, the one that has a folder ``set_name`` above it.

    Args:
        name: of the file, perhaps with folders before it.
        set_name: of the set that it belongs to.

    Raises:
        NNDError: ``NND_SOURCES`` names no folder, or several files could be meant.
    """
    for folder in _list_folders():
        files = list_files(folder)
        alike = [path for within, path in files.items() if f"/{within}".endswith(f"/{name}")]
        of_set = [path for path in alike if set_name in path.relative_to(folder).parts]
        chosen = of_set or alike
        if len(chosen) > 1:
            raise NNDError(
                f"{folder}: {len(chosen)} files are called {name}, and it has no published hash; move the one of "
                f"{set_name} into a folder {set_name} there"
            )
        if chosen:
            return chosen[0]
    return None
