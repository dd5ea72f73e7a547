"""Fetch the files of a set from their publisher: checked, with progress and retries."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pooch
import requests

from nnd_tasks.datasets import nnd_home
from nnd_tasks.errors import NNDError
from nnd_tasks.files import read_json, write_text
from nnd_tasks.recipes.archives import take
from nnd_tasks.recipes.recipe import File, Recipe

RETRIES = 3
TIMEOUT = 60  # seconds without an answer
_HASHES = "hashes.json"


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
    """Files of a set in the download folder.

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


def fetch(name: str, recipe: Recipe, *, progress: bool = True) -> Fetched:
    """Download the files of a set, or take them from an earlier download.

    A file whose hash is pinned must have it. Of another file the hash is recorded at the first download and checked
    from then on.

    Args:
        name: of the set.
        recipe: of it.
        progress: show a progress bar.

    Raises:
        NNDError: no address, no network, a changed file, or nowhere to write.
    """
    _check_addresses(name, recipe)
    folder = nnd_home() / "downloads" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        recorded = _read_hashes(folder)
        fetched = Fetched(folder, {}, [], [])
        for file in recipe.files.values():
            if not file.url:
                continue
            if file.member:
                fetched.files[file.name] = _fetch_member(folder, file, name, progress)
                continue
            known = file.name in recorded
            path = _fetch_one(folder, file.url, file.name, file.sha256, recorded, name, progress)
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


def _check_addresses(name: str, recipe: Recipe) -> None:
    """Raise NNDError where a file that is needed has no address."""
    lacking = [file.name for file in recipe.files.values() if not file.url and not file.optional]
    if lacking or not any(file.url for file in recipe.files.values()):
        what = " and ".join(lacking or recipe.sources) or "its table"
        raise NNDError(f"set {name}: its recipe has no address of {what}; name it: nnd build {name} --source FILE")


def _fetch_member(folder: Path, file: File, name: str, progress: bool) -> Path:
    """Return one member of an archive; its pinned hash vouches for it, and the archive around it may change."""
    archive = _fetch_one(folder, file.url, Path(file.url).name, None, {}, name, progress)
    target = folder / file.name
    take(archive, file.member, target)
    if file.sha256 and sha256_of(target) != file.sha256:
        target.unlink()
        raise NNDError(f"{archive}: {file.member} is not the file with the pinned hash (sha256 {file.sha256})")
    return target


def _fetch_one(
    folder: Path,
    url: str,
    name: str,
    pinned: str | None,
    recorded: dict[str, str],
    set_name: str,
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
    way_out = f"download it by hand and pass it with: nnd build {set_name} --source FILE_OR_DIR"
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


def _read_hashes(folder: Path) -> dict[str, str]:
    path = folder / _HASHES
    if not path.exists():
        return {}
    try:
        data = read_json(path)
    except NNDError:
        data = None
    if not isinstance(data, dict):
        raise NNDError(f"{path}: unreadable; delete it to accept the next download as it is")
    return {str(name): str(value) for name, value in data.items()}


def _write_hashes(folder: Path, recorded: Mapping[str, str]) -> None:
    write_text(folder / _HASHES, json.dumps(dict(sorted(recorded.items())), indent=2) + "\n")
