"""Unpack a zip or tar that may come from a stranger: within limits, and never to a place outside the folder."""

from __future__ import annotations

import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import IO

from nnd_tasks.errors import NNDError
from nnd_tasks.files import writing
from nnd_tasks.recipes.readers import SUFFIXES

#: Bytes of all files that are taken out of one archive, and how many members it may list.
MAX_UNPACKED = 1 << 30
MAX_MEMBERS = 50_000
MAX_DIRECTORY_BYTES = 4 << 20  # of a zip's list of members, which is read as a whole; about 50,000 members
#: What the readers of archives raise for a broken archive; a name that no file can have is a ValueError too.
BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError, LookupError, RuntimeError,
    ValueError, OverflowError, OSError,
)  # fmt: skip
#: Bytes that a compressed tar unpacks to, with all members: those that are not wanted must be read to get past them.
MAX_STREAM = 4 << 30
_MAX_NAME = 1 << 16  # bytes of a tar's header for long names, which is read as a whole
_STEP = 1 << 20


_ENDINGS = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")


def is_archive(path: Path) -> bool:
    """Tell by its name whether a file is a zip or a tar, compressed or not."""
    return path.name.lower().endswith(_ENDINGS)


def unpacked_name(path: Path) -> str:
    """Return the name of an archive without its ending: ``a.tsv.tar.gz`` -> ``a.tsv``."""
    longest = max((end for end in _ENDINGS if path.name.lower().endswith(end)), key=len)
    return path.name[: -len(longest)]


class _Zip(FileIO):
    """A zip file that refuses to read a large piece at once: `zipfile` reads the list of members as a whole."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise NNDError(f"{self.name}: it has more members than an archive of annotations")
        return super().read(size) or b""


class _TooLargeError(Exception):
    pass


#: Headers of a tar that `tarfile` reads as a whole: long names and extended attributes.
_LONG = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


class _Member(tarfile.TarInfo):
    """A member of a tar; a long name that could fill the memory is refused."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        """Read a header."""
        member = super().frombuf(buf, encoding, errors)
        if member.type in _LONG and member.size > _MAX_NAME:
            raise _TooLargeError
        return member


def _members(archive: Path, wanted: str = "") -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yield name, size and content of each regular file, or only of the ``wanted`` one of a zip."""
    with archive.open("rb") as file:
        is_zip = file.read(2) == b"PK"
    if is_zip:
        with _Zip(archive) as raw, zipfile.ZipFile(raw) as bundle:
            for number, info in enumerate(bundle.infolist()):
                _count(archive, number)
                if wanted not in ("", info.filename):
                    continue
                if not info.is_dir() and info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    with bundle.open(info) as stream:
                        yield info.filename, info.file_size, stream
        return
    with tarfile.open(archive, "r|*", tarinfo=_Member) as bundle:
        for number, member in enumerate(bundle):
            _count(archive, number)
            if member.offset_data + member.size > MAX_STREAM:
                raise _TooLargeError
            content = bundle.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, member.size, content


def _count(archive: Path, number: int) -> None:
    if number >= MAX_MEMBERS:
        raise NNDError(
            f"{archive}: more than {MAX_MEMBERS:,} members; this cannot be the archive of a human evaluation"
        )


@contextmanager
def _explained(archive: Path, broken: str) -> Iterator[None]:
    """Turn what reading an archive raises into NNDError; ``broken`` is the message for a broken archive."""
    try:
        yield
    except _TooLargeError as error:
        raise NNDError(f"{archive}: it unpacks to more than {MAX_STREAM >> 30} GiB; this cannot be the file") from error
    except BROKEN as error:
        raise NNDError(broken) from error


def take(archive: Path, member: str, target: Path) -> None:
    """Write one member of an archive to ``target``; raise NNDError if it is broken, too large, or has no such member."""
    absent = f"{archive}: no zip or tar with {member} in it"
    with _explained(archive, absent):
        for name, size, stream in _members(archive, member):
            if name.removeprefix("./") == member:
                if size > MAX_UNPACKED:
                    raise NNDError(f"{archive}: {member} is larger than {MAX_UNPACKED >> 20:,} MiB")
                _copy(archive, stream, target, MAX_UNPACKED)
                return
    raise NNDError(absent)


def unpack(archive: Path, folder: Path) -> Path:
    """Write the tables of an archive into ``folder``, with their folders; return ``folder``.

    Raises:
        NNDError: the archive is broken or too large, holds no table, or a name in it leads out of the folder.
    """
    left, count = MAX_UNPACKED, 0
    with _explained(archive, f"{archive}: cannot be unpacked; is it a zip or tar?"):
        for name, _, stream in _members(archive):
            if Path(name).suffix.lower() not in SUFFIXES:
                continue
            target = (folder / name).resolve()
            if not target.is_relative_to(folder.resolve()):
                raise NNDError(f"{archive}: its member {name!r} leads out of the archive; it is not unpacked")
            left -= _copy(archive, stream, target, left)
            count += 1
    if not count:
        raise NNDError(f"{archive}: no table in it (.csv, .tsv, .jsonl, .json, .parquet, .xlsx)")
    return folder


def _copy(archive: Path, stream: IO[bytes], target: Path, most: int) -> int:
    """Write a stream to a file in pieces, at most ``most`` bytes; return its size."""
    size = 0
    with writing(target) as new, new.open("wb") as file:
        while piece := stream.read(_STEP):
            size += len(piece)
            if size > most:
                raise NNDError(
                    f"{archive}: it unpacks to more than {MAX_UNPACKED >> 20:,} MiB; this cannot be the file"
                )
            file.write(piece)
    return size
