"""Files: written whole or not at all, read with a bound and one clear error.

A file is written under a temporary name beside its target and renamed when it is complete, so that an interruption or a
full disk leaves the earlier file. Files that are read may come from a stranger: only regular files of bounded size are
taken.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from nnd_tasks.errors import NNDError, reason_of

#: Bytes that a configuration file (YAML, JSON, a card) may have; the largest of ours has 20 kB.
MAX_CONFIG_BYTES = 5_000_000


def expand(path: str | Path) -> Path:
    """Return ``path`` with ``~`` replaced by the home directory.

    Raises:
        NNDError: it names an unknown user, is too long, or its symbolic links form a loop.
    """
    try:
        place = Path(path).expanduser()
    except RuntimeError as error:
        raise NNDError(f"{path}: the home directory that it names is not known") from error
    try:
        place.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NNDError(f"{path}: its symbolic links form a loop; name another place") from error
        if error.errno == errno.ENAMETOOLONG:
            raise NNDError(f"{path}: this name is longer than a file can have") from error
    except ValueError:  # a NUL in the name: opening the file will raise an error for it
        pass
    return place


# ---------------------------------------------------------------- errors


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Turn what goes wrong while the block reads ``path`` into one error that names it.

    Raises:
        NNDError: the block raised an `OSError`, or a `ValueError` (no UTF-8, a NUL in the name).
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise NNDError(f"{path}: cannot be read ({reason_of(error)})") from error


@contextmanager
def changing(place: object, *, hint: str = "", done: str = "written") -> Iterator[None]:
    """Turn what goes wrong while the block changes files or folders into one error that names them.

    Args:
        place: what is changed, as the error names it.
        hint: ends the error: what the user can do.
        done: what could not be done: ``written``, ``removed``, ``replaced``.

    Raises:
        NNDError: the block raised an `OSError`, such as for a lack of permission or a full disk.
    """
    try:
        yield
    except OSError as error:
        raise NNDError(f"{place}: cannot be {done} ({reason_of(error)}){f'; {hint}' if hint else ''}") from error


# ---------------------------------------------------------------- writing


def umask() -> int:
    """Return the process's file mode creation mask."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def writing(path: Path, *, hint: str = "") -> Iterator[Path]:
    """Yield a new, empty file beside ``path`` that takes its place when the block ends, and is removed when it fails.

    Args:
        path: the file to write; its folder is made.
        hint: ends the error: what the user can do.

    Raises:
        NNDError: it cannot be written (no permission, a full disk, a folder of that name).
    """
    with writing_all([path], hint=hint) as (new,):
        yield new


#: What `writing_all` calls its temporary files: ``.NAME.``, eight characters of `tempfile`, ``.tmp``.
_TEMPORARY = re.compile(r"\..*\.[a-z0-9_]{8}\.tmp")


def _lock(handle: int, *, wait: bool) -> None:
    """Lock an open file until it is closed; raise OSError where another process has it, or files cannot be locked."""
    if sys.platform == "win32":
        raise OSError("no such locks")
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _open_temporary(target: Path) -> tuple[int, Path]:
    """Make an empty file beside ``target``; return a handle that locks it until it is closed, and its path."""
    while True:
        # What a killed process leaves must have no ending that somebody searches for, such as lm-eval for .yaml.
        handle, name = tempfile.mkstemp(prefix=f".{target.stem[:100]}.", suffix=".tmp", dir=target.parent)
        with suppress(OSError):  # not every file system has locks
            _lock(handle, wait=True)
        if os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # another process took it for a left-over before it was locked


def clear_left_overs(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder: those that no process has locked."""
    with suppress(OSError), os.scandir(folder) as entries:
        for path in [entry.path for entry in entries if _TEMPORARY.fullmatch(entry.name)]:
            with suppress(OSError):
                handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    _lock(handle, wait=False)
                    Path(path).unlink()
                finally:
                    os.close(handle)


@contextmanager
def writing_all(paths: Iterable[Path], *, hint: str = "") -> Iterator[list[Path]]:
    """Yield a new, empty file beside each path; all take their places when the block ends, or none does.

    What killed processes left in the folders is removed first.

    Args:
        paths: the files to write; their folders are made.
        hint: ends the error: what the user can do.

    Raises:
        NNDError: one cannot be written; the earlier files stay.
    """
    targets = list(paths)
    files: list[Path] = []
    handles: list[int] = []
    current = Path()
    try:
        for target in targets:
            current = target
            if target.is_dir():
                raise IsADirectoryError(0, "is a folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            clear_left_overs(target.parent)
            handle, file = _open_temporary(target)
            handles.append(handle)
            files.append(file)
            file.chmod(0o666 & ~umask())  # mkstemp makes it private
        current = targets[0] if len(targets) == 1 else targets[0].parent
        yield files
        for file in files:
            with file.open("rb") as written:
                os.fsync(written.fileno())  # some systems report a full disk only here
        for current, file in zip(targets, files, strict=True):
            file.replace(current)
    except OSError as error:
        where = f"{current}: " if current.name else ""
        raise NNDError(f"{where}cannot be written ({reason_of(error)}){f'; {hint}' if hint else ''}") from error
    finally:
        for file in files:
            with suppress(OSError):
                file.unlink(missing_ok=True)
        for handle in handles:
            os.close(handle)


def write_text(path: Path, text: str, *, hint: str = "") -> None:
    """Write a text file as UTF-8, whole or not at all; raises as `writing` does."""
    with writing(path, hint=hint) as new:
        new.write_text(text, encoding="utf-8")


def write_texts(files: Mapping[Path, str], *, hint: str = "") -> None:
    """Write several text files as UTF-8, all or none; raises as `writing_all` does."""
    with writing_all(files, hint=hint) as new:
        for path, text in zip(new, files.values(), strict=True):
            path.write_text(text, encoding="utf-8")


def read_bytes(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> bytes:
    """Return the content of a regular file.

    Args:
        path: the file; a device, a FIFO or a socket is refused, as reading it may never end.
        limit: bytes that it may have.

    Raises:
        NNDError: it is absent, no regular file, too large or unreadable.
    """
    with reading(path):
        # O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NNDError(f"{path}: is not a regular file")
            content = file.read(limit + 1)
    if len(content) > limit:
        raise NNDError(f"{path}: is larger than {limit / 1e6:,.0f} MB, which is more than such a file should have")
    return content


def read_text(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> str:
    """Return a UTF-8 text file; raises as `read_bytes` does, and where it is not UTF-8."""
    content = read_bytes(path, limit=limit)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NNDError(f"{path}: is not UTF-8 (byte {error.start:,}); save it as UTF-8") from error
