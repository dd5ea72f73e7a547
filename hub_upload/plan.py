"""What goes to the hub: the files of a set, its card and its version."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hub_upload.checks import check_data, check_no_texts, check_rebuild
from hub_upload.ids import ids_card, ids_table, own_recipes, recipe, without_quotes
from hub_upload.known_limits import add_missing
from hub_upload.published_card import lacking, sources_section, terms_section
from hub_upload.published_task import how_to_score, published_task
from nnd_tasks.card import Card, read_card
from nnd_tasks.card_sections import cleaning_section, use_section
from nnd_tasks.datasets import CARD, REPORT, SPLIT, find_set, is_name, list_configs, read_report, read_table
from nnd_tasks.errors import NNDError, visible
from nnd_tasks.files import changing, reading
from nnd_tasks.folders import replacing
from nnd_tasks.licences import Terms, check_licences, licence_names, terms_of, texts_may_go
from nnd_tasks.recipes.shelf import find_recipe, recipe_paths
from nnd_tasks.schema import SCHEMA_VERSION
from nnd_tasks.tables import fingerprint, summarize

RECIPE = "recipe.json"
_DTYPES = {pa.string(): "string", pa.bool_(): "bool", pa.float64(): "float64", pa.int64(): "int64"}


@dataclass(frozen=True, slots=True)
class RepositoryFile:
    """A file of a dataset repository."""

    path: str
    data: bytes

    @property
    def sha256(self) -> str:
        """Hash of the content, as git LFS names it; 64 hex digits."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def blob(self) -> str:
        """Hash of the content, as git names it; 40 hex digits."""
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class UploadPlan:
    """What `nnd publish` would upload.

    Attributes:
        name: of the set.
        repo: of the hub, with its namespace.
        files: all of them, the card first.
        version: the tag; it changes with the data, not with the card.
        ids_only: whether only ids are published, and no texts.
        notes: lines that the user should read.
    """

    name: str
    repo: str
    files: tuple[RepositoryFile, ...]
    version: str
    ids_only: bool
    notes: tuple[str, ...] = ()

    @property
    def card(self) -> str:
        """The card's text."""
        return self.files[0].data.decode("utf-8")

    @property
    def task(self) -> str | None:
        """The YAML of the task that is published with the set, or None."""
        return next((file.data.decode("utf-8") for file in self.files if file.path == f"nnd_{self.name}.yaml"), None)

    def write(self, folder: Path) -> None:
        """Write all files into a new or empty folder: all of them, or none.

        Raises:
            NNDError: there is something already, or the folder cannot be written.
        """
        check_out(folder)
        with changing(f"--out {folder}"), replacing(folder) as new:
            for file in self.files:
                path = new / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.data)
            if folder.exists():
                folder.rmdir()  # fails where something was put into it meanwhile

    def listing(self) -> str:
        """Return a line per file: size in bytes, SHA-256, path."""
        return "\n".join(f"{len(file.data):>12,}  {file.sha256}  {file.path}" for file in self.files)


def check_out(folder: Path) -> None:
    """Check that `UploadPlan.write` can use a folder.

    Raises:
        NNDError: it is a file, holds files, or cannot be read.
    """
    with reading(f"--out {folder}"):
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if taken:
        raise NNDError(f"--out {folder}: something is there already; name a new folder, or an empty one")


def set_to_publish(name: str) -> tuple[str, Path]:
    """Return the name and the folder of a set that is built here.

    Args:
        name: of a set, or a dataset folder.

    Raises:
        NNDError: there is none.
    """
    folder = find_set(name)
    _check_inside(folder, CARD)
    own = str(read_card(folder).header.get("nnd_set") or folder.resolve().name)
    if not is_name(own):
        raise NNDError(f"{folder / CARD}: a set is named by letters, digits, _, - and ., not {own!r}")
    return own, folder


def _check_inside(folder: Path, *files: str) -> None:
    """Check that files of a dataset folder lie in it: a link in a stranger's folder may lead to any file of the user.

    Raises:
        NNDError: one is a link to a place outside of the folder.
    """
    for file in files:
        try:
            inside = (folder / file).resolve().is_relative_to(folder.resolve())
        except (OSError, RuntimeError):  # a loop of links
            inside = False
        if not inside:
            raise NNDError(f"{folder / file}: is a link to a place outside of the folder; put the file itself there")


def make_plan(
    name: str, repo: str, *, source: str | Path | None = None, ids_only: bool = False, dry_run: bool = False
) -> UploadPlan:
    """Check a set and say what would be uploaded.

    Args:
        name: of a set, or a dataset folder.
        repo: of the hub, with its namespace.
        source: the publisher's files, to build the set again from; None downloads them.
        ids_only: publish ids and a recipe, although the texts might be published.
        dry_run: a set of `nnd new` need not be built again where no source is named.

    Raises:
        NNDError: there is no such set, its card lacks something, its licence forbids it, or its data is not what a build
            gives.
    """
    name, folder = set_to_publish(name)
    missing = lacking(folder)
    if missing:
        raise NNDError(f"{folder / CARD}: not complete, it lacks {'; '.join(missing)}; fill it in, then publish")
    configs = list_configs(folder)[0]
    for config in configs:
        if not is_name(config):
            raise NNDError(f"{folder / CARD}: config {config!r}: a config is named by letters, digits, _, - and .")
    parquet = [f"{path.parent.name}/{path.name}" for config in configs for path in _parquet_files(folder, config)]
    _check_inside(folder, REPORT, *configs, *parquet)
    reports = read_report(folder)
    tables = {config: read_table(folder, config) for config in configs}
    check_data(folder, tables, reports)
    terms = terms_of(name, next(iter(reports.values())))
    must = not texts_may_go(terms)
    ids_only = ids_only or must
    card = read_card(folder)
    named = _licences(card, terms, ids_only)
    if not ids_only:
        check_licences(named, str(folder / CARD))
    notes = check_rebuild(name, tables, reports, source, must=not dry_run)
    card.header["license"] = named[0] if len(named) == 1 else named
    card.header.setdefault("nnd_set", name)  # by which the next version knows the repository
    data = _data_files(folder, tables, ids_only)
    digest = _digest(tables, ids_only)
    version = f"v{SCHEMA_VERSION}-{digest[:8]}"
    _describe(card, tables, data)
    if ids_only:
        ids_card(card, name, repo, next(iter(data.values()))[0], reports, must=must)
    else:
        card.put("Use", use_section(name, [summarize(config, table) for config, table in tables.items()], repo))
    if cleaning := cleaning_section(reports, examples=not ids_only, note=_clean_note(name)):
        card.put("Clean configs", cleaning)
    task = None if ids_only else published_task(name, repo)
    if task is not None:
        card.put("Score a model", how_to_score(name, repo))
    add_missing(card, tables, reports)
    card.put("Terms of the texts", terms_section(terms, ids_only))
    card.put("Sources", sources_section(reports))
    card.put("Build signature", _signature(name, version, digest, reports))
    texts = (RepositoryFile(CARD, card.text().encode("utf-8")), *_others(name, tables, reports, ids_only))
    if ids_only:
        check_no_texts(tables.values(), {file.path: file.data.decode("utf-8") for file in texts})
    if task is not None:
        texts = (*texts, RepositoryFile(f"nnd_{name}.yaml", task.encode("utf-8")))
    files = (*texts, *(RepositoryFile(path, content) for path, (_, content) in data.items()))
    return UploadPlan(name, repo, files, version, ids_only, tuple(notes))


def _clean_note(name: str) -> str:
    """Return what the recipe of a set changes for its clean configs."""
    return (find_recipe(name).recipe.clean_note or "") if name in recipe_paths() else ""


def _licences(card: Card, terms: tuple[Terms, ...], ids_only: bool) -> list[str]:
    """Return the licences that the published card names."""
    own = [item for item in licence_names(card.header["license"]) if item != "other" or not terms]
    if ids_only:
        return own or ["apache-2.0"]  # labels of synthetic errors are ours
    return list(dict.fromkeys([*own, *(item for term in terms for item in term.licences)]))


# ---------------------------------------------------------------- data


def _data_files(folder: Path, tables: Mapping[str, pa.Table], ids_only: bool) -> dict[str, tuple[pa.Table, bytes]]:
    """Return path -> the table that is published and its parquet file, one per config in their order."""
    files: dict[str, tuple[pa.Table, bytes]] = {}
    for config, table in tables.items():
        if ids_only:
            ids = ids_table(table)
            files[f"{config}/{SPLIT}-00000-of-00001.parquet"] = ids, _parquet(ids)
            continue
        paths = _parquet_files(folder, config)
        if len(paths) != 1:
            raise NNDError(
                f"{folder}: config {config} has {len(paths)} parquet files, expected one; build the set again"
            )
        files[f"{config}/{paths[0].name}"] = table, paths[0].read_bytes()
    return files


def _parquet_files(folder: Path, config: str) -> list[Path]:
    return sorted((folder / config).glob(f"{SPLIT}-*.parquet"))


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def _digest(tables: Mapping[str, pa.Table], ids_only: bool) -> str:
    """Return 16 hex digits that change with the data of any config, and with whether only ids are published."""
    parts = [f"{config} {fingerprint(table)}" for config, table in sorted(tables.items())]
    return hashlib.sha256("\n".join([f"ids {ids_only}", *parts]).encode("utf-8")).hexdigest()[:16]


# ---------------------------------------------------------------- beside the data


def _others(
    name: str, tables: Mapping[str, pa.Table], reports: Mapping[str, Any], ids_only: bool
) -> list[RepositoryFile]:
    """Return the build report and, where only ids are published, the recipe."""
    if not ids_only:
        return [_json(REPORT, reports)]
    files = [_json(REPORT, without_quotes(dict(reports))), _json(RECIPE, recipe(name, tables, reports))]
    return files + [RepositoryFile(path, text.encode("utf-8")) for path, text in own_recipes(name, reports).items()]


def _json(path: str, value: Mapping[str, Any]) -> RepositoryFile:
    return RepositoryFile(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode("utf-8"))


def _signature(name: str, version: str, digest: str, reports: Mapping[str, Any]) -> list[str]:
    """Return the section on what identifies the build."""
    hashes = json.dumps([part.get("source_sha256", {}) for part in reports.values()])
    sources = hashlib.sha256(hashes.encode("utf-8")).hexdigest()[:16]
    built = ",".join(sorted({str(part.get("nnd_tasks", "?")) for part in reports.values()}))
    return [
        f"`set:{name}|schema:{SCHEMA_VERSION}|data:{digest}|sources:{sources}|nnd-tasks:{visible(built).replace('`', '')}`",
        "",
        f"Version `{version}`, a tag of this repository: it changes with the data of any config, not with this card. "
        "`data` is a hash over the fingerprints of the configs, `sources` over those of the source files.",
    ]


def _describe(card: Card, tables: Mapping[str, pa.Table], data: Mapping[str, tuple[pa.Table, bytes]]) -> None:
    """Put features, splits and sizes in bytes into a card's header, in the hub's words."""
    infos = []
    for config, (table, content) in zip(tables, data.values(), strict=True):
        known = [{"name": field.name, "dtype": _DTYPES.get(field.type)} for field in table.schema]
        features = {"features": known} if all(item["dtype"] for item in known) else {}
        split = {"name": SPLIT, "num_bytes": table.nbytes, "num_examples": table.num_rows}
        sizes = {"download_size": len(content), "dataset_size": table.nbytes}
        infos.append({"config_name": config, **features, "splits": [split], **sizes})
    card.header["dataset_info"] = infos
