"""Fetch the files of a source from their publisher: checked, with progress and retries."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pooch
import requests

from nnd_tasks.datasets import nnd_home
from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_json
from nnd_tasks.sources.base import MAX_BYTES, Source, SourceFile

RETRIES = 3
TIMEOUT = 60  # seconds without an answer
_HASHES = "hashes.json"
#: What `zipfile` and its decompressors raise for bytes that are no good zip; a wrong name is a ValueError too.
_BROKEN_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    RuntimeError,
    ValueError,
    OverflowError,
    OSError,
)
_STEP = 1 << 20


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits.

    Raises:
        NNDError: it cannot be read.
    """
    try:
        return str(pooch.file_hash(str(path), alg="sha256"))
    except OSError as error:
        raise NNDError(f"{path}: cannot be read ({error.strerror or error})") from error


@dataclass(frozen=True)
class Fetched:
    """Files of a source in the download folder.

    Attributes:
        folder: the download folder.
        files: file name -> path.
        unverified: names of the files whose content nobody vouches for.
        fresh: those of them that were downloaded for the first time just now.
    """

    folder: Path
    files: dict[str, Path]
    unverified: list[str]
    fresh: list[str]

    def discard(self) -> None:
        """Forget the fresh unverified files, which turned out not to be what they should be.

        Publishers answer with a page instead of the file when a quota is used up; it must not become what is expected.
        """
        recorded = _read_hashes(self.folder)
        for name in self.fresh:
            self.files[name].unlink(missing_ok=True)
            recorded.pop(name, None)
        _write_hashes(self.folder, recorded)


def fetch(source: Source, *, progress: bool = True) -> Fetched:
    """Download the files of ``source``, or take them from an earlier download.

    A file whose hash is pinned must have it. Of another file the hash is recorded at the first download and checked
    from then on.

    Args:
        source: what to fetch.
        progress: show a progress bar.

    Raises:
        NNDError: no network, a changed file, or nowhere to write.
    """
    folder = nnd_home() / "downloads" / source.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        recorded = _read_hashes(folder)
        fetched = Fetched(folder, {}, [], [])
        for file in source.files:
            if file.member:
                # Its pinned hash vouches for the member; the archive around it may change.
                archive = _fetch_one(folder, file.url, Path(file.url).name, None, {}, source, progress)
                fetched.files[file.name] = _extract(archive, file, folder)
                continue
            known = file.name in recorded
            path = _fetch_one(folder, file.url, file.name, file.sha256, recorded, source, progress)
            fetched.files[file.name] = path
            if file.sha256 is None:
                fetched.unverified.append(file.name)
                if not known:
                    fetched.fresh.append(file.name)
                    recorded[file.name] = sha256_of(path)
                    _write_hashes(folder, recorded)
    except OSError as error:
        raise NNDError(
            f"{folder}: cannot be written ({error.strerror or error}); set NND_HOME to another place"
        ) from error
    return fetched


def _fetch_one(
    folder: Path,
    url: str,
    name: str,
    pinned: str | None,
    recorded: dict[str, str],
    source: Source,
    progress: bool,
) -> Path:
    """Return the path of one downloaded file, whose hash must be the pinned or the recorded one if there is any."""
    known = pinned or recorded.get(name)
    pooch.get_logger().setLevel(logging.WARNING)
    shelf = pooch.create(
        path=folder,
        base_url="",
        registry={name: f"sha256:{known}" if known else None},
        urls={name: url},
        retry_if_failed=RETRIES,
    )
    downloader = pooch.HTTPDownloader(progressbar=progress, timeout=TIMEOUT)
    way_out = f"download it by hand and pass it with: nnd build {source.name} --source FILE_OR_DIR"
    try:
        path = Path(shelf.fetch(name, downloader=downloader))
    except requests.RequestException as error:  # some are ValueErrors too, so they come first
        reason = type(error).__name__
        if error.response is not None:
            reason = f"HTTP {error.response.status_code}"
        raise NNDError(f"{url}: cannot be downloaded ({reason}); check the network, or {way_out}") from error
    except ValueError as error:
        if "hash of downloaded file" not in str(error):  # an address that urllib cannot read, behind a redirect
            raise NNDError(f"{url}: cannot be downloaded ({error}); check the network, or {way_out}") from error
        vouched = "pinned" if pinned else "recorded at the first download"
        raise NNDError(
            f"{url}: what was downloaded is not the file with the {vouched} hash (sha256 {known}); its publisher has "
            f"changed it, or the download was tampered with. To use it all the same, {way_out}"
        ) from error
    return path


def _extract(archive: Path, file: SourceFile, folder: Path) -> Path:
    """Take one member out of a zip to its plain name in ``folder``; its pinned hash must fit.

    No name in the archive says where anything is written.
    """
    try:
        with zipfile.ZipFile(archive) as bundle:
            member = bundle.getinfo(file.member)
            if member.file_size > MAX_BYTES:
                raise NNDError(
                    f"{archive}: {file.member} is larger than {MAX_BYTES >> 20} MiB; delete it and build again"
                )
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise zipfile.BadZipFile("the others cannot be unpacked step by step")
            with bundle.open(member) as stream:
                # In steps: read as a whole, a member that holds more than it says is cut only after all was unpacked.
                data = b"".join(iter(lambda: stream.read(_STEP), b""))
    except _BROKEN_ZIP as error:
        raise NNDError(f"{archive}: no zip with {file.member} in it; delete it and build again") from error
    if file.sha256 and hashlib.sha256(data).hexdigest() != file.sha256:
        raise NNDError(f"{archive}: {file.member} is not the file with the pinned hash (sha256 {file.sha256})")
    target = folder / file.name
    partial = folder / f".{file.name}.{os.getpid()}"
    partial.write_bytes(data)
    partial.replace(target)
    return target


def _read_hashes(folder: Path) -> dict[str, str]:
    path = folder / _HASHES
    if not path.exists():
        return {}
    try:
        data = read_json(path)
    except NNDError as error:
        raise NNDError(f"{path}: unreadable; delete it to accept the next download as it is") from error
    if not isinstance(data, dict):
        raise NNDError(f"{path}: unreadable; delete it to accept the next download as it is")
    return {str(name): str(value) for name, value in data.items()}


def _write_hashes(folder: Path, recorded: Mapping[str, str]) -> None:
    partial = folder / f".{_HASHES}.{os.getpid()}"
    partial.write_text(json.dumps(dict(sorted(recorded.items())), indent=2) + "\n", encoding="utf-8")
    partial.replace(folder / _HASHES)
