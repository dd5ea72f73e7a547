"""Folders: only one process writes a folder at a time, and a folder is replaced as a whole or not at all.

A process that is killed may leave hidden folders beside the one that it wrote: ``.NAME.new-*``, which was not complete, and
``.NAME.old-*``, which is the folder as it was before. The next `rewriting` removes the first and puts the second back.
"""

from __future__ import annotations

import glob
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nnd_tasks.errors import NNDError
from nnd_tasks.files import umask


def lock_file(folder: Path) -> Path:
    """Return the file that `only_writer` locks: it lies beside ``folder``, as the folder itself may be replaced."""
    return folder.with_name(f".{folder.name}.lock")


@contextmanager
def only_writer(folder: Path, timeout: float, busy: str) -> Iterator[None]:
    """Let one process at a time write ``folder``; the lock file beside it is removed in the end.

    Args:
        folder: what is written.
        timeout: seconds to wait for another writer.
        busy: the error message where another process still writes after that time.

    Raises:
        NNDError: another process writes for longer than ``timeout``.
        OSError: the place takes no files.
    """
    path = lock_file(folder)
    path.open("a").close()  # where no file can be made this fails at once; FileLock may wait
    lock = FileLock(path, timeout=timeout)
    try:
        lock.acquire()
    except Timeout as error:
        raise NNDError(busy) from error
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before the lock is released: a process that waits sees this, and makes a new file
        lock.release()


@contextmanager
def new_folder(beside: Path) -> Iterator[Path]:
    """Yield a new folder next to ``beside``, with the mode that the user's umask asks for; removed unless moved away."""
    beside.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{beside.name}.new-", dir=beside.parent))
    try:
        folder.chmod(0o777 & ~umask())  # mkdtemp makes it private
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield a new folder that takes the place of ``folder`` when the block ends; when it fails, nothing changes."""
    with new_folder(folder) as new:
        old = folder.with_name(f".{folder.name}.old-{secrets.token_hex(4)}")
        try:
            yield new
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
        finally:
            if old.exists() and not folder.exists():  # stopped between the two moves
                old.rename(folder)
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def rewriting(folder: Path, timeout: float = 60.0) -> Iterator[Path]:
    """Do what `replacing` does as the one writer of ``folder``, and first remove what killed processes left beside it.

    Raises:
        NNDError: another process writes for longer than ``timeout`` seconds.
        OSError: the place takes no files.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with only_writer(folder, timeout, f"{folder}: another command is still writing it; try again when it is done"):
        clear(folder)
        with replacing(folder) as new:
            yield new


def leftovers(folder: Path, kind: str) -> list[Path]:
    """Return the folders that a killed process left beside ``folder``, the latest last; ``kind`` is ``new`` or ``old``."""
    try:
        paths = list(folder.parent.glob(f".{glob.escape(folder.name)}.{kind}-*"))
        return sorted(paths, key=lambda path: path.stat().st_mtime_ns)
    except OSError:
        return []


def recover(folder: Path, *, locked: bool = False) -> None:
    """Put the earlier ``folder`` back where a process was killed after it had moved that away.

    Args:
        folder: what was to be replaced.
        locked: whether the caller is the one writer; otherwise this waits a little for another writer.
    """
    if not leftovers(folder, "old"):
        return
    with suppress(OSError, NNDError), nullcontext() if locked else only_writer(folder, 10.0, f"{folder}: is locked"):
        earlier = leftovers(folder, "old")
        if earlier and not folder.exists():
            earlier[-1].rename(folder)


def clear(folder: Path) -> None:
    """Recover ``folder`` and remove what killed processes left beside it; only for the one writer."""
    recover(folder, locked=True)
    for path in [*leftovers(folder, "new"), *leftovers(folder, "old")]:
        shutil.rmtree(path, ignore_errors=True)
