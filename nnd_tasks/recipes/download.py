"""Download the files of a set from their publisher, with checked hashes, progress and retries."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urljoin, urlsplit

import pooch
import requests
from tqdm import tqdm

from nnd_tasks.datasets import is_name, nnd_home
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import changing, reading, umask, write_text
from nnd_tasks.folders import only_writer
from nnd_tasks.recipes.archives import take
from nnd_tasks.recipes.limits import check_url
from nnd_tasks.recipes.recipe import File, Recipe
from nnd_tasks.recipes.records import MAX_BYTES
from nnd_tasks.schema import short_hash
from nnd_tasks.yaml_json import read_json

RETRIES = 3
TIMEOUT = 60  # seconds without an answer
PATIENCE = 1800.0  # seconds for one file with all tries: a server that sends a byte now and then never times out
_HASHES = "hashes.json"
_STEP = 1 << 20


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hex digits.

    Raises:
        NNDError: it cannot be read.
    """
    with reading(path):
        return str(pooch.file_hash(str(path), alg="sha256"))


@dataclass(frozen=True)
class Fetched:
    """Files of a set in the download folder.

    Attributes:
        folder: the download folder.
        files: file name -> path.
        downloads: file name -> path of what was downloaded for it: the file itself, or its archive.
        unverified: names of the files without a published hash.
        fresh: those of the unverified files that were downloaded for the first time just now.
        unsure: those of the fresh files that came without a length, so that they may be cut off unnoticed.
    """

    folder: Path
    files: dict[str, Path]
    downloads: dict[str, Path]
    unverified: list[str]
    fresh: list[str]
    unsure: list[str]

    def discard(self, names: Iterable[str] | None = None) -> None:
        """Delete fresh files, all or those named, and their recorded hashes: they are not what they should be.

        A publisher may answer with a page when a quota is used up, or break off; the next build must not expect that content.
        """
        recorded = _read_hashes(self.folder)
        for name in self.fresh if names is None else names:
            for path in (self.files[name], self.downloads[name]):
                path.unlink(missing_ok=True)
            recorded.pop(name, None)
        _write_hashes(self.folder, recorded)


def fetch(name: str, recipe: Recipe, *, place: str = "", progress: bool = True) -> Fetched:
    """Download the files of a set, or take them from an earlier download.

    A file must have the hash that the recipe pins. The hash of a file without one is recorded at the first download and checked
    from then on.

    Args:
        name: of the set.
        recipe: of the set.
        place: name of the download folder; ``""`` takes ``name``. A recipe that somebody sent needs its own, so that its files
            are not taken for those of another set of this name.
        progress: show a progress bar.

    Raises:
        NNDError: no network, a changed file, or nowhere to write.
    """
    _check_addresses(name, recipe)
    folder = nnd_home() / "downloads" / (place or name)
    with changing(folder, hint="set NND_HOME to another place"):
        folder.mkdir(parents=True, exist_ok=True)
        # One build at a time: two would record the hashes of different downloads.
        with only_writer(folder, PATIENCE, f"{folder}: another build is still downloading; try again when it is done"):
            return _fetch_all(name, recipe, folder, progress)


def _fetch_all(name: str, recipe: Recipe, folder: Path, progress: bool) -> Fetched:
    """Download the files of a set into a folder that no other build writes to."""
    recorded = _read_hashes(folder)
    fetched = Fetched(folder, {}, {}, [], [], [])
    for file in recipe.files.values():
        if not file.url:
            continue
        known = file.name in recorded
        if file.member:
            # The hash is that of the member; the archive around it may change.
            source, unsure = _fetch_one(folder, file.url, _archive_name(file.url), None, {}, name, progress)
            path = _extract(source, file, folder, recorded, _way_out(name))
        else:
            source, unsure = _fetch_one(folder, file.url, file.name, file.sha256, recorded, name, progress)
            path = source
        fetched.files[file.name], fetched.downloads[file.name] = path, source
        if file.sha256 is None:
            fetched.unverified.append(file.name)
            if not known:
                fetched.fresh.append(file.name)
                if unsure:
                    fetched.unsure.append(file.name)
                recorded[file.name] = sha256_of(path)
                _write_hashes(folder, recorded)
    return fetched


def _archive_name(url: str) -> str:
    """Return the file name for the archive of an address; many archives have one name, such as GitHub's ``main.zip``."""
    name = PurePosixPath(urlsplit(url).path).name
    return f"{short_hash(url)}-{name if is_name(name) and len(name) <= 100 else 'archive'}"


def _check_addresses(name: str, recipe: Recipe) -> None:
    """Raise NNDError where a required file has no address."""
    lacking = [file.name for file in recipe.files.values() if not file.url and not file.optional]
    if lacking or not any(file.url for file in recipe.files.values()):
        what = " and ".join(lacking or recipe.sources) or "its table"
        raise NNDError(f"set {name}: its recipe has no address of {what}; name it: nnd build {name} --source FILE")


def _way_out(name: str) -> str:
    return f"download it by hand and pass it with: nnd build {name} --source FILE_OR_DIR"


class _Session(requests.Session):
    """Follows no redirect from https to another scheme, nor to this machine or its own network."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return where an answer leads, or None."""
        place = super().get_redirect_target(resp)
        if place is not None and resp.url.startswith("https:"):
            check_url(urljoin(resp.url, place), f"{resp.url}: its answer leads elsewhere")
        return place


class _Download:
    """A downloader for pooch with limits on the size of a file, and on the time of all tries together.

    Attributes:
        unsure: whether the last answer gave no length, so that the file may be cut off unnoticed.
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

        # In a thread, as nothing else ends a read that receives a byte before each timeout.
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(max(0.0, self._end - time.monotonic()))
        if thread.is_alive():
            self._given_up = True
            raise self._refuse(f"the download takes longer than {PATIENCE / 60:,.0f} minutes")
        if failed:
            raise failed[0]

    def _get(self, url: str, target: str) -> None:
        with (
            _Session() as session,
            session.get(url, timeout=TIMEOUT, stream=True) as response,
            Path(target).open("wb") as file,
        ):
            response.raise_for_status()
            Path(target).chmod(0o666 & ~umask())  # pooch makes it private
            length = response.headers.get("Content-Length")
            self.unsure = length is None and "Transfer-Encoding" not in response.headers
            # The length does not limit what a compressed answer unpacks to.
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
    folder: Path, url: str, name: str, pinned: str | None, recorded: dict[str, str], set_name: str, progress: bool
) -> tuple[Path, bool]:
    """Return the path of one file, and whether it was downloaded just now without a given length.

    Its hash must be the pinned one, else the recorded one, if there is any.
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
    way_out = _way_out(set_name)

    def refuse(why: str) -> NNDError:
        return NNDError(f"{url}: {why}; {way_out}")

    download = _Download(refuse, progress)
    try:
        path = Path(shelf.fetch(name, downloader=download))
    except requests.RequestException as error:  # some are ValueErrors too, so they come first
        reason = type(error).__name__ if error.response is None else f"HTTP {error.response.status_code}"
        raise NNDError(f"{url}: cannot be downloaded ({reason}); check the network, or {way_out}") from error
    except ValueError as error:
        if "hash of downloaded file" not in str(error):  # an address that urllib cannot read, behind a redirect
            raise NNDError(
                f"{url}: cannot be downloaded ({reason_of(error)}); check the network, or {way_out}"
            ) from error
        raise NNDError(
            f"{url}: what was downloaded is not the file with the {_vouched(pinned)} hash (sha256 {known}); its publisher has "
            f"changed it, or the download was tampered with. To use it all the same, {way_out}"
        ) from error
    return path, download.unsure


def _extract(archive: Path, file: File, folder: Path, recorded: Mapping[str, str], way_out: str) -> Path:
    """Write one member of an archive to ``folder`` under its plain name; it must have the pinned or recorded hash.

    No name in the archive decides where anything is written. A wrong archive is deleted: a publisher may answer with a page
    when a quota is used up, and the next build must not find that page.
    """
    target = folder / file.name
    try:
        take(archive, file.member, target)
        known = file.sha256 or recorded.get(file.name)
        if known and sha256_of(target) != known:
            target.unlink()
            raise NNDError(
                f"{archive}: {file.member} is not the file with the {_vouched(file.sha256)} hash (sha256 {known})"
            )
    except NNDError as error:
        archive.unlink(missing_ok=True)
        raise NNDError(f"{error}, so the archive is not kept; build again, or {way_out}") from error
    return target


def _vouched(pinned: str | None) -> str:
    return "pinned" if pinned else "recorded at the first download"


def _read_hashes(folder: Path) -> dict[str, str]:
    """Return file name -> hash recorded at its first download."""
    path = folder / _HASHES
    if not path.exists():
        return {}
    broken = NNDError(f"{path}: unreadable; delete it to accept the next download as it is")
    try:
        data = read_json(path)
    except NNDError as error:
        raise broken from error
    if not isinstance(data, dict):
        raise broken
    return {str(name): str(value) for name, value in data.items()}


def _write_hashes(folder: Path, recorded: Mapping[str, str]) -> None:
    write_text(folder / _HASHES, json.dumps(dict(sorted(recorded.items())), indent=2) + "\n")
