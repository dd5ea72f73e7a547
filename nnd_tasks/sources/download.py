"""Fetch the files of a source from their publisher: checked, with progress and retries."""

from __future__ import annotations

import hashlib
import json
import logging
import struct
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import pooch
import requests
from filelock import Timeout
from tqdm import tqdm

from nnd_tasks.datasets import nnd_home, only_writer
from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_json, umask, write_text, writing
from nnd_tasks.sources.base import MAX_BYTES, Source, SourceFile

RETRIES = 3
TIMEOUT = 60  # seconds without an answer
PATIENCE = 1800.0  # seconds for one file, all tries together: a server that sends a byte now and then never times out
MAX_DIRECTORY_BYTES = 4 << 20  # of a zip's list of members, which is read as a whole; about 50,000 members
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
        unsure: those of the fresh ones that came without a length, so that a file cut off looks like a whole one.
    """

    folder: Path
    files: dict[str, Path]
    unverified: list[str]
    fresh: list[str]
    unsure: list[str]

    def discard(self, names: Iterable[str] | None = None) -> None:
        """Forget fresh unverified files, all or those named, which turned out not to be what they should be.

        Publishers answer with a page instead of the file when a quota is used up, or break off; that must not become what is
        expected.
        """
        recorded = _read_hashes(self.folder)
        for name in self.fresh if names is None else names:
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
        # One build at a time: two would record the hashes of different downloads.
        with only_writer(folder, PATIENCE):
            return _fetch_all(source, folder, progress)
    except Timeout as error:
        raise NNDError(f"{folder}: another build is still downloading; try again when it is done") from error
    except OSError as error:
        raise NNDError(
            f"{folder}: cannot be written ({error.strerror or error}); set NND_HOME to another place"
        ) from error


def _fetch_all(source: Source, folder: Path, progress: bool) -> Fetched:
    recorded = _read_hashes(folder)
    fetched = Fetched(folder, {}, [], [], [])
    for file in source.files:
        if file.member:
            # Its pinned hash vouches for the member; the archive around it may change.
            archive, _ = _fetch_one(folder, file.url, Path(file.url).name, None, {}, source, progress)
            fetched.files[file.name] = _extract(archive, file, folder, _way_out(source))
            continue
        known = file.name in recorded
        path, unsure = _fetch_one(folder, file.url, file.name, file.sha256, recorded, source, progress)
        fetched.files[file.name] = path
        if file.sha256 is None:
            fetched.unverified.append(file.name)
            if not known:
                fetched.fresh.append(file.name)
                if unsure:
                    fetched.unsure.append(file.name)
                recorded[file.name] = sha256_of(path)
                _write_hashes(folder, recorded)
    return fetched


def _way_out(source: Source) -> str:
    return f"download it by hand and pass it with: nnd build {source.name} --source FILE_OR_DIR"


class _Download:
    """A downloader for pooch with limits on the size of a file, and on the time of all tries together.

    Attributes:
        unsure: the last answer told no length, so that a file cut off looks like a whole one.
    """

    def __init__(self, refuse: Callable[[str], NNDError], progress: bool) -> None:
        self.unsure = False
        self._refuse, self._progress = refuse, progress
        self._end = time.monotonic() + PATIENCE
        self._given_up = False

    def __call__(self, url: str, target: str, shelf: Any) -> None:
        """Download ``url`` to the file ``target``."""
        failed: list[BaseException] = []

        def work() -> None:
            try:
                self._get(url, target)
            except BaseException as error:  # handed over to the thread that waits
                failed.append(error)

        # In a thread, as nothing else ends a read that gets a byte before each timeout.
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(max(0.0, self._end - time.monotonic()))
        if thread.is_alive():
            self._given_up = True
            raise self._refuse(f"the download takes longer than {PATIENCE / 60:,.0f} minutes")
        if failed:
            raise failed[0]

    def _get(self, url: str, target: str) -> None:
        with requests.get(url, timeout=TIMEOUT, stream=True) as response, Path(target).open("wb") as file:
            response.raise_for_status()
            Path(target).chmod(0o666 & ~umask())  # pooch makes it private
            length = response.headers.get("Content-Length")
            self.unsure = length is None and "Transfer-Encoding" not in response.headers
            # The length says nothing of what a compressed answer unpacks to.
            size = 0
            with tqdm(
                total=int(length) if length and length.isdecimal() else None,
                unit="B",
                unit_scale=True,
                disable=not self._progress,
            ) as bar:
                for chunk in response.iter_content(_STEP >> 4):
                    size += len(chunk)
                    if self._given_up or size > MAX_BYTES:
                        raise self._refuse(f"is larger than {MAX_BYTES >> 20} MiB, this cannot be the annotation file")
                    file.write(chunk)
                    bar.update(len(chunk))


def _fetch_one(
    folder: Path,
    url: str,
    name: str,
    pinned: str | None,
    recorded: dict[str, str],
    source: Source,
    progress: bool,
) -> tuple[Path, bool]:
    """Return the path of one file, and whether it was downloaded just now without a word on its length.

    Its hash must be the pinned or the recorded one if there is any.
    """
    known = pinned or recorded.get(name)
    pooch.get_logger().setLevel(logging.WARNING)
    shelf = pooch.create(
        path=folder,
        base_url="",
        registry={name: f"sha256:{known}" if known else None},
        urls={name: url},
        retry_if_failed=RETRIES,
    )
    way_out = _way_out(source)

    def refuse(why: str) -> NNDError:
        return NNDError(f"{url}: {why}; {way_out}")

    download = _Download(refuse, progress)
    try:
        path = Path(shelf.fetch(name, downloader=download))
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
    return path, download.unsure


class _Archive(FileIO):
    """A zip file of which no large piece is read at once: `zipfile` takes the list of members as a whole."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MAX_DIRECTORY_BYTES:
            raise _TooManyMembersError
        return super().read(size) or b""


class _TooManyMembersError(Exception):
    pass


def _extract(archive: Path, file: SourceFile, folder: Path, way_out: str) -> Path:
    """Take one member out of a zip to its plain name in ``folder``; its pinned hash must fit.

    No name in the archive says where anything is written. An archive that is not what it should be is removed: publishers
    answer with a page when a quota is used up, and the next build must not find it.
    """
    try:
        data = _unpack(archive, file)
    except NNDError as error:
        archive.unlink(missing_ok=True)
        raise NNDError(f"{error}, so the archive is not kept; build again, or {way_out}") from error
    target = folder / file.name
    with writing(target) as new:
        new.write_bytes(data)
    return target


def _unpack(archive: Path, file: SourceFile) -> bytes:
    try:
        with _Archive(archive) as raw, zipfile.ZipFile(raw) as bundle:
            member = bundle.getinfo(file.member)
            if member.file_size > MAX_BYTES:
                raise NNDError(f"{archive}: {file.member} is larger than {MAX_BYTES >> 20} MiB")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise zipfile.BadZipFile("the others cannot be unpacked step by step")
            with bundle.open(member) as stream:
                # In steps: read as a whole, a member that holds more than it says is cut only after all was unpacked.
                data = b"".join(iter(lambda: stream.read(_STEP), b""))
    except _TooManyMembersError as error:
        raise NNDError(f"{archive}: it has more members than an archive of annotations") from error
    except _BROKEN_ZIP as error:
        raise NNDError(f"{archive}: no zip with {file.member} in it") from error
    if file.sha256 and hashlib.sha256(data).hexdigest() != file.sha256:
        raise NNDError(f"{archive}: {file.member} is not the file with the pinned hash (sha256 {file.sha256})")
    return data


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
    write_text(folder / _HASHES, json.dumps(dict(sorted(recorded.items())), indent=2) + "\n")
