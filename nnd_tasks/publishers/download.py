"""The files of a set: the user's copies or downloads, checked; or laid out from a file, folder or archive that the user names."""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import pooch

from nnd_tasks.errors import NNDError, reason_of, visible
from nnd_tasks.files import changing, expand, only_writer, parse_json, read_text, reading, write_text, writing
from nnd_tasks.publishers.wanted import File, Wanted
from nnd_tasks.show.console import warn
from nnd_tasks.store import list_source_folders, nnd_home, sources_folder
from nnd_tasks.tables.decode import check_unpacked, split_ending
from nnd_tasks.tables.read import SUFFIXES, TEXTS
from nnd_tasks.text import some_of

_HASHES = "hashes.json"
_ENDINGS = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")
RETRIES, WAIT = 3, 1800.0  # seconds that another build may download


@dataclass
class Source:
    """The files of a set in a folder.

    Attributes:
        folder: that holds them, as `rows` of a ``prepare.py`` gets it.
        files: name -> path.
        hashes: name -> SHA-256.
        notes: one line each for what the user should know.
        fresh: names of files without a published hash that were downloaded just now.
    """

    folder: Path
    files: dict[str, Path]
    hashes: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    fresh: list[str] = field(default_factory=list)


# ---------------------------------------------------------------- what the user names


@contextmanager
def open_source(wanted: Wanted, source: str | Path | None, *, progress: bool = True) -> Iterator[Source]:
    """Yield the files of a set: from ``source``, from beside the recipe, from `find_copy`, or downloaded.

    A download without a published hash is recorded if the block can read it, else deleted: a publisher may answer with a page
    when a quota is used up.

    Args:
        wanted: the files of the set.
        source: a file, a folder, a pattern such as ``'DIR/*.csv'``, or a zip or tar; None looks for them.
        progress: show the progress of downloads.

    Raises:
        NNDError: nothing is there, a required file is missing, or a download fails.
    """
    names = list(wanted.files)
    beside = wanted.folder
    if source is None and not (names and all((beside / name).is_file() for name in names)):
        downloaded = download(wanted, progress=progress)
        try:
            yield downloaded
        except NNDError:
            for name in downloaded.fresh:
                downloaded.files[name].unlink(missing_ok=True)
            raise
        if downloaded.fresh:
            hashes = _read_hashes(downloaded.folder)
            hashes |= {name: downloaded.hashes[name] for name in downloaded.fresh}
            write_text(downloaded.folder / _HASHES, json.dumps(hashes, indent=2) + "\n")
        return
    named = beside if source is None else expand(source)
    with reading(named), tempfile.TemporaryDirectory(prefix="nnd-") as scratch:
        if not named.is_dir():
            yield from _lay_out(wanted, named, Path(scratch))
            return
        below = named / wanted.name  # of a folder with several sets
        folder = below if below.is_dir() else named
        here = list_files(folder)
        deeper: dict[str, Path] = {}
        for name in sorted(wanted.files.keys() - here.keys()):
            file = wanted.files[name] or File()
            where = (wanted.name, file.member or urlsplit(file.url).path, [folder])
            copy = find_copy(name, file.sha256, *where) or find_copy(name, None, *where)
            deeper |= {name: copy} if copy else {}
        if deeper:  # of a clone of the publisher's repository; prepare.py asks for these names
            here = {name: path for name, path in {**here, **deeper}.items() if name in wanted.files}
            _link(here, Path(scratch))
        chosen = _choose(wanted, Path(scratch) if deeper else folder, here, named)
        _check_inside(wanted, chosen.files, folder)
        yield chosen


def _check_inside(wanted: Wanted, files: Mapping[str, Path], folder: Path) -> None:
    """Raise NNDError where a file of a set that somebody sent is a link out of its folder."""
    for path in files.values() if wanted.origin == "elsewhere" else ():
        if not path.resolve().is_relative_to(folder.resolve()):
            raise NNDError(f"{path}: is a link out of {folder}; name what it leads to with --source")


def _lay_out(wanted: Wanted, source: Path, folder: Path) -> Iterator[Source]:
    """Yield the files of a set in ``folder``, linked from a file or a pattern, or unpacked from an archive.

    An error of the block names what the user named.
    """
    matched = [] if source.exists() else sorted(glob.glob(str(source), recursive=True))  # noqa: PTH207
    paths = [path for path in map(Path, matched) if path.is_file()] or [source]
    if not paths[0].is_file():
        special = "is not a regular file; a device or a pipe may never end"
        raise NNDError(f"{source}: {special if source.exists() else 'no such file or folder'}")
    if source.name.lower().endswith(_ENDINGS):
        unpack_archive(source, folder)
        here = list_files(folder)
    else:
        above = os.path.commonpath([path.parent for path in paths])
        required = _list_required(wanted)
        here = {path.relative_to(above).as_posix(): path for path in paths}
        if len(paths) == len(required) == 1 and not wanted.any_table and not {*here} & {*wanted.files}:
            here = {required[0]: paths[0]}  # prepare.py asks for this name
        _link(here, folder)
    try:
        yield _choose(wanted, folder, here, source, alone=[*here.values()] == [source])
    except NNDError as error:
        text = str(error)
        required = _list_required(wanted)
        missing = [name for name in required if name not in here and str(folder / name) in text]
        if missing:
            names = some_of(required, show=str)
            raise NNDError(
                f"{source}: {missing[0]} is missing; --source names a folder or an archive with {names}"
            ) from error
        for name, path in here.items():
            text = text.replace(str(folder / name), str(path))
        error.args = (visible(text.replace(str(folder), str(source if source.exists() else source.parent))),)
        raise


def _link(files: Mapping[str, Path], folder: Path) -> None:
    for name, path in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(path.resolve())


def _choose(wanted: Wanted, folder: Path, here: dict[str, Path], named: Path, *, alone: bool = False) -> Source:
    """Choose those of some files that the recipe names, else all tables, or the file that a user names ``alone``.

    Raises:
        NNDError: there is none, or none that the recipe requires.
    """
    required = _list_required(wanted)
    free = not required or wanted.any_table
    files = {name: here[name] for name in wanted.files if name in here}
    if not files and (alone or free):
        tables = {name: path for name, path in here.items() if _is_table(path)}
        others = {name: path for name, path in here.items() if path.suffix.lower() == ".txt"}
        files = here if alone else tables or others
    if not files or not (free or {*files} - ({*wanted.files} - {*required})):
        needed = some_of(required, show=str) or f"a table ({', '.join(SUFFIXES)})"
        raise NNDError(f"{named}: set {wanted.name} needs {needed} there")
    lacking = [name for name in required if name not in files]
    source = Source(folder, files, {name: sha256_of(path) for name, path in sorted(files.items())})
    if lacking and len(required) > 1:
        source.notes.append(f"this is a part of the set: without {some_of(lacking, show=str)}")
    return source


def _list_required(wanted: Wanted) -> list[str]:
    """List the names of the files without which the set cannot be built."""
    return [name for name, file in wanted.files.items() if not (file and file.optional)]


def _is_table(path: Path) -> bool:
    """Tell whether a file holds a table, by its name; a ``.txt`` may, but most are notes."""
    ending, compression = split_ending(path)
    return ending in SUFFIXES and ending != ".txt" and (not compression or ending in TEXTS)


def unpack_archive(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar into ``folder``.

    Raises:
        NNDError: it is broken, unpacks to too much (`check_unpacked`), has a file twice, or a name in it leads out of the folder.
    """
    is_zip = archive.name.lower().endswith(".zip")
    names, size = set[str](), 0
    try:
        with zipfile.ZipFile(archive) if is_zip else tarfile.open(archive) as bundle:
            for name, bytes_in_it in _list_members(bundle):
                size += bytes_in_it
                check_unpacked(archive, size)  # before the next one, which takes long to find behind a huge one
                name = os.path.normpath(name)
                if name in names:
                    raise NNDError(f"{archive}: {name} is in it twice, and only one could be read; pack it anew")
                names.add(name)
            if isinstance(bundle, tarfile.TarFile):
                bundle.extractall(folder, filter="data")
            else:
                bundle.extractall(folder)  # noqa: S202 (zipfile keeps names inside the folder)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, ValueError, RuntimeError) as error:
        raise NNDError(f"{archive}: cannot be unpacked ({reason_of(error)}); is it a whole zip or tar?") from error


def _list_members(bundle: Any) -> Iterator[tuple[str, int]]:
    """Yield the name and the size of each file in a zip or tar."""
    if isinstance(bundle, zipfile.ZipFile):
        yield from ((info.filename, info.file_size) for info in bundle.infolist() if not info.is_dir())
    else:
        yield from ((member.name, member.size) for member in bundle if not member.isdir())


# ---------------------------------------------------------------- copies that the user has


def sha256_of(path: Path) -> str:
    """Hash a file: its SHA-256, 64 hex digits; raise NNDError where it cannot be read."""
    with reading(path):
        return str(pooch.file_hash(str(path), alg="sha256"))


def list_files(folder: Path) -> dict[str, Path]:
    """List path within the folder -> path of each file in it, at any depth, but for hidden ones."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "~$")))
    return {path.relative_to(folder).as_posix(): path for path in paths}


def find_copy(
    name: str, sha256: str | None, set_name: str, address: str = "", folders: Iterable[Path] | None = None
) -> Path | None:
    """Find a copy of a file: by its SHA-256, of those with the same ending; without one by its name or its address.

    Args:
        name: of the file, perhaps with folders before it.
        sha256: of the file, where it is known.
        set_name: of the set that it belongs to; of several files of one name, that in a folder called so is taken.
        address: that it has at its publisher's, or its path in an archive there: of several files of one name, that whose path
            shares most of its end is taken.
        folders: where to look, at any depth; None: those of ``NND_SOURCES``.

    Raises:
        NNDError: ``NND_SOURCES`` names no folder, a file cannot be read, or several files could be meant.
    """
    parts = address.split("/")[::-1]
    for folder in list_source_folders() if folders is None else folders:
        files = list_files(folder)
        ends = (f"/{name}", f"/{parts[0]}") if address else (f"/{name}",)
        alike = [path for within, path in files.items() if f"/{within}".endswith(ends)]
        if sha256:
            others = [path for path in files.values() if path.suffix == Path(name).suffix]
            alike = [path for path in [*alike, *others] if _hash_once(path, path.stat().st_mtime_ns) == sha256][:1]
        shared = {path: _count_shared(path.parts[::-1], parts) for path in alike}
        closest = [path for path in alike if shared[path] == max(shared.values())]
        chosen = [path for path in alike if set_name in path.relative_to(folder).parts] or closest
        if len(chosen) > 1:
            raise NNDError(
                f"{folder}: {len(chosen)} files are called {name}, and it has no published hash; move the one of "
                f"{set_name} into a folder {set_name} there"
            )
        if chosen:
            return chosen[0]
    return None


@lru_cache(maxsize=10_000)
def _hash_once(path: Path, changed: int) -> str:
    """Hash a file that was changed at that time (nanoseconds)."""
    return sha256_of(path)


# ---------------------------------------------------------------- downloads


def download(wanted: Wanted, *, progress: bool = True) -> Source:
    """Put the files of a set into ``$NND_HOME/downloads``, unless they are there: copies of the user's, else downloads.

    A file must have the hash of the recipe. The hash of a file without one is recorded when it first gets there, and checked
    from then on. An archive's name there has a hash of its address, so that two of one name are two files.

    Raises:
        NNDError: no copy and no address, no network, or another file than was expected.
    """
    name, files = wanted.name, {key: file or File() for key, file in wanted.files.items()}
    addresses = hashlib.sha256("\n".join(file.url for file in files.values()).encode()).hexdigest()[:16]
    folder = nnd_home() / "downloads" / (name if wanted.origin == "package" else f"{name}@{addresses}")
    with changing(folder, hint="set NND_HOME to another place"):
        folder.mkdir(parents=True, exist_ok=True)
        with only_writer(folder, WAIT, f"{folder}: another build is still downloading; try again when it is done"):
            source = _fetch_all(name, files, folder, progress)
    source.hashes = {key: sha256_of(path) for key, path in sorted(source.files.items())}
    if not source.files:
        raise NNDError(f"set {name}: its recipe has no address of its table; {_how_to_give('it', name)}")
    return source


def _fetch_all(name: str, files: dict[str, File], folder: Path, progress: bool) -> Source:
    recorded = _read_hashes(folder)
    hashes = {key: file.sha256 or recorded.get(key) for key, file in files.items()}
    lacking = [
        key for key in files if not (folder / key).is_file() or hashes[key] not in (None, sha256_of(folder / key))
    ]
    copies = {key: copy for key in lacking if (copy := _find_copy(name, key, files[key], hashes[key]))}
    downloads = [key for key in lacking if key not in copies and files[key].url]
    if copies:
        folders = dict.fromkeys(str(copy.parent) for copy in copies.values())
        warn(f"{name}: {some_of([*copies], 3, str)} from {some_of([*folders], 3, str)}")
    if downloads:
        hosts = dict.fromkeys(str(urlsplit(files[key].url).hostname) for key in downloads)
        warn(f"{name}: downloading {some_of(downloads, 3, str)} from {some_of([*hosts], 3, str)}")
    source = Source(folder, {})
    for key, file in files.items():
        try:
            if key in copies or key in downloads:
                _place_file(name, file, hashes[key], copies.get(key), folder / key, progress)
            elif key in lacking:
                raise NNDError(f"set {name}: its recipe has no address of {key}; {_how_to_give(key, name)}")
        except NNDError as error:
            if not file.optional:
                raise
            source.notes.append(f"without {key}, which is optional: {error}")
            continue
        source.files[key] = folder / key
        if file.sha256 is None:
            origin = "it was downloaded" if key in downloads else f"it is that of {folder}"
            if key in copies:
                origin = f"it was taken by its name from {copies[key].parent}"
            source.notes.append(f"unverified: {key} has no published hash; {origin}, and its hash is recorded")
            source.fresh += [key] if key not in recorded else []
    return source


def _read_hashes(folder: Path) -> dict[str, str]:
    path = folder / _HASHES
    return parse_json(read_text(path), str(path)) if path.exists() else {}


def _count_shared(first: Sequence[str], second: Sequence[str]) -> int:
    return len([*takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))])


def _find_copy(set_name: str, key: str, file: File, expected_hash: str | None) -> Path | None:
    """Find the user's copy of a file, or of the archive that has it."""
    copy = find_copy(key, expected_hash, set_name, file.member or urlsplit(file.url).path)
    return find_copy(_archive_name(file), None, set_name) if copy is None and file.member else copy


def _archive_name(file: File) -> str:
    return PurePosixPath(urlsplit(file.url).path).name


def _how_to_give(file: str, set_name: str) -> str:
    return f"put {file} into {sources_folder()} or {_name_it(set_name)}"


def _name_it(set_name: str) -> str:
    return f"name it: nnd build {set_name} --source FILE_OR_DIR"


def _place_file(set_name: str, file: File, sha256: str | None, copy: Path | None, target: Path, progress: bool) -> None:
    """Put a file into its place: a copy, or a download, or what is in the archive that one of them is."""
    in_archive = bool(file.member) and (copy is None or copy.name == _archive_name(file))
    origin = copy or target
    if copy is None and in_archive:
        origin = target.parent / f"{hashlib.sha256(file.url.encode()).hexdigest()[:8]}-{_archive_name(file)}"
        _retrieve(set_name, _archive_name(file), file.url, None, origin, progress)
    elif copy is None:
        named = f"{target.name} (sha256 {sha256})" if sha256 else target.name
        _retrieve(set_name, named, file.url, sha256, target, progress)
    if in_archive:
        try:
            _take_member(origin, file, target, sha256)
        except NNDError:
            if copy is None:
                origin.unlink(missing_ok=True)  # a publisher may answer with a page when a quota is used up
            raise
    elif copy is not None:
        with reading(copy), writing(target) as new:
            shutil.copyfile(copy, new)


def _retrieve(set_name: str, named: str, url: str, expected_hash: str | None, target: Path, progress: bool) -> None:
    import requests  # slow to import

    way_out = f"download it by hand and {_how_to_give(named, set_name)}"
    pooch.get_logger().setLevel(logging.WARNING)
    registry = {target.name: f"sha256:{expected_hash}" if expected_hash else None}
    shelf = pooch.create(target.parent, "", registry=registry, urls={target.name: url}, retry_if_failed=RETRIES)
    try:
        shelf.fetch(target.name, downloader=pooch.HTTPDownloader(progressbar=progress, timeout=60))
    except requests.RequestException as error:
        reason = type(error).__name__ if error.response is None else f"HTTP {error.response.status_code}"
        raise NNDError(f"{url}: cannot be downloaded ({reason}); check the network, or {way_out}") from error
    except ValueError as error:
        if "hash of downloaded file" not in str(error):
            raise NNDError(f"{url}: cannot be downloaded ({reason_of(error)}); {way_out}") from error
        raise NNDError(
            f"{url}: what was downloaded is not the file with the known hash (sha256 {expected_hash}); its publisher has changed "
            f"it. If that is right, {_name_it(set_name)}"
        ) from error


def _take_member(archive: Path, file: File, target: Path, expected_hash: str | None) -> None:
    with tempfile.TemporaryDirectory(prefix="nnd-") as scratch, writing(target) as new:
        member = Path(scratch) / file.member
        unpack_archive(archive, Path(scratch))
        if not member.is_file():
            raise NNDError(f"{archive}: no {file.member} is in it")
        if expected_hash and sha256_of(member) != expected_hash:
            raise NNDError(
                f"{archive}: {file.member} in it is not the file with the known hash (sha256 {expected_hash})"
            )
        shutil.copyfile(member, new)
