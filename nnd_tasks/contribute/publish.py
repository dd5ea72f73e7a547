"""Publish a set on the Hugging Face hub: `make_plan` checks it and lists its files, `upload` commits and tags them."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml
from jinja2 import Template

from nnd_tasks.contribute.check.checking import find_todos
from nnd_tasks.errors import NNDError, cut_middle
from nnd_tasks.files import dump_yaml, read_text
from nnd_tasks.markdown import fenced
from nnd_tasks.publishers.licences import Terms, is_open, licence_names, terms_of, texts_may_go
from nnd_tasks.redact import MARK, hide
from nnd_tasks.schema import OPTIONAL_COLUMNS, RESERVED_COLUMNS, SCHEMA_VERSION, SPANS_COLUMN, fingerprint
from nnd_tasks.sets.build import make_set
from nnd_tasks.sets.catalogue import list_recipes
from nnd_tasks.sets.first_use import provide_set
from nnd_tasks.sets.recipe import PREPARE, RECIPE, SetRecipe
from nnd_tasks.store import (
    CARD,
    JUDGEMENTS,
    REPORT,
    SPLIT,
    config_names,
    how_to_build,
    judgements_name,
    list_configs,
    parse_card,
    read_card,
    read_judgements,
    read_report,
    read_table,
    without_preferences,
)
from nnd_tasks.task.task_files import Function, read_task_yaml
from nnd_tasks.text import some_of

_QUOTED = 40  # first characters of a text that do not occur elsewhere by coincidence
#: Columns that are published with the ids: labels, but no texts and no names of people.
_LABELS = ("category", "high_first", *(name for name in OPTIONAL_COLUMNS if name != "rater"), SPANS_COLUMN)
#: Describes a set to inspect_ai, in the root of its repository (https://huggingface.co/docs/hub/eval-results).
EVALUATION = "eval.yaml"
_INSTALL = "from a clone of its repository, `pip install .` there; it is on no package index yet"


@dataclass(frozen=True)
class UploadPlan:
    """What `nnd publish` would upload.

    Attributes:
        name: of the set.
        repo: of the hub, with its namespace.
        files: path -> content; the card comes first.
        version: the tag; it changes with the data, not with the card.
        ids_only: whether ids are published, and no texts.
        notes: lines that the user should read.
    """

    name: str
    repo: str
    files: Mapping[str, bytes]
    version: str
    ids_only: bool
    notes: tuple[str, ...] = ()

    def list_files(self) -> str:
        """A line per file: size in bytes, SHA-256, path."""
        return "\n".join(
            f"{len(data):>12,}  {hashlib.sha256(data).hexdigest()}  {path}" for path, data in self.files.items()
        )


def make_plan(
    name: str, repo: str, *, source: str | None = None, ids_only: bool = False, dry_run: bool = False
) -> UploadPlan:
    """Check a set that is built here, and list what would be uploaded.

    Args:
        name: of the set, or its dataset folder.
        repo: of the hub, with its namespace.
        source: the publisher's files, to build the set again from; None downloads them.
        ids_only: publish ids and a recipe although the texts might be published.
        dry_run: without a source, a set that cannot be built again gives a note instead of an error.

    Raises:
        NNDError: no repository can have this name, there is no such set, its card lacks something, its licence forbids it, or
            a new build gives other data.
    """
    _check_repo(repo)
    folder = provide_set(name)
    header, body = _read_complete_card(folder)
    name = header.setdefault("nnd_set", folder.resolve().name)
    reports = read_report(folder)
    tables = {config: read_table(folder, config) for config in list_configs(folder)[0]}
    for config, table in tables.items():
        if reports.get(config, {}).get("fingerprint") != fingerprint(table):
            raise NNDError(f"{folder}: the data of config {config} is not what its build wrote; build the set again")
    terms = terms_of(name, reports)
    may_go = texts_may_go(terms)
    ids_only = ids_only or not may_go
    licences = [licence for licence in licence_names(header["license"]) if licence != "other" or not terms]
    # Labels of synthetic errors are ours.
    licences = (licences or ["apache-2.0"]) if ids_only else _join_licences(folder, licences, terms)
    header["license"] = licences[0] if len(licences) == 1 else licences
    recipe_file = list_recipes().get(name)
    recipe = recipe_file.read() if recipe_file else None
    notes = _build_again(name, recipe, tables, reports, source, dry_run=dry_run)
    texts = _read_recipe_texts(name, repo, recipe, ids_only) if recipe and recipe.origin != "package" else {}
    body = _load_from_hub(without_preferences(body), repo)
    # Preference data are not uploaded; whoever has the tests builds them. Single judgements are texts.
    kinds = ("",) if ids_only else ("", JUDGEMENTS)
    header["configs"] = [entry for entry in header["configs"] if entry["config_name"] in config_names(header, *kinds)]
    if ids_only:
        header["nnd_published"] = "ids"
        header.pop("nnd_schema_version")  # a clone of the repository must not be taken for a set to score models on
        body = _say_how_to_build(body, _list_commands(name, repo, recipe, reports), may_go=may_go)
        data = {config: make_ids(table) for config, table in tables.items()}
    else:
        body += _SCORE.format(name=name, repo=repo) if f"nnd_{name}.yaml" in texts else ""
        texts |= _describe_for_inspect(name, tables)
        data = tables | _read_all_judgements(folder, tables)
    report = json.dumps(reports, indent=2, ensure_ascii=False) + "\n"
    texts = {CARD: f"---\n{dump_yaml(header)}---\n{body}", REPORT: report, **texts}
    if ids_only:
        _check_no_texts(tables.values(), texts)
    files = {path: content.encode("utf-8") for path, content in texts.items()}
    files |= {f"{path}/{SPLIT}-00000-of-00001.parquet": _pack(table) for path, table in data.items()}
    return UploadPlan(name, repo, files, _version(tables if ids_only else data, ids_only), ids_only, tuple(notes))


def _join_licences(folder: Path, licences: Iterable[str], terms: Iterable[Terms]) -> list[str]:
    """Join the licences of a card with those of the texts; raise NNDError for one that may not allow to publish them."""
    joined = list(dict.fromkeys([*licences, *(licence for term in terms for licence in term.licences)]))
    if closed := [licence for licence in joined if not is_open(licence)]:
        raise NNDError(
            f"{folder / CARD}: licence {closed[0]} is not known to let you publish pairs that are made of the texts; write "
            "its identifier of the hub, such as cc-by-4.0, or publish ids and a recipe instead with --ids-only"
        )
    return joined


def _load_from_hub(body: str, repo: str) -> str:
    """Let the code of a card load the set from the hub."""
    use = rf'from datasets import load_dataset\n\ntests = load_dataset("{repo}", \1, split="test")'
    return re.sub(r'import nnd_tasks\n\ntests = nnd_tasks\.load\("[^"]*", ("[^"]*")\)', use, body)


def _say_how_to_build(body: str, commands: Sequence[str], *, may_go: bool) -> str:
    """Put a section before the others of a card: why there are no texts, and the commands that build them."""
    why = "The texts of this set are not published." if may_go else "The terms of the texts do not let us publish them."
    section = "\n".join([_IDS.format(why=why), *(["", *fenced("sh", *commands)] if commands else [])])
    return body.replace("\n## ", f"\n{section}\n\n## ", 1)


def _describe_for_inspect(name: str, tables: Mapping[str, pa.Table]) -> dict[str, str]:
    """Write `EVALUATION`, if inspect_ai can ask: it does with one column, so prompts must have a context, and nothing else."""
    asked = [
        config
        for config, table in tables.items()
        if RESERVED_COLUMNS.issuperset(table.column_names) and pc.min(pc.utf8_length(table["context"])).as_py()
    ]
    page = Path(__file__).with_name("eval.yaml.j2").read_text("utf-8")
    return {EVALUATION: Template(page, trim_blocks=True).render(name=name, configs=asked)} if asked else {}


def _read_all_judgements(folder: Path, configs: Iterable[str]) -> dict[str, pa.Table]:
    """Read the single judgements of each config that has some, by their paths."""
    found = {f"{JUDGEMENTS}/{judgements_name(config)}": read_judgements(folder, config) for config in configs}
    return {path: table for path, table in found.items() if table is not None}


def _pack(table: pa.Table) -> bytes:
    """Write a table as parquet."""
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd")
    return bytes(buffer.getvalue().to_pybytes())


def _check_repo(repo: str) -> None:
    """Raise NNDError for a name that no repository with a namespace can have."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise NNDError(f"--repo {repo}: {' '.join(str(error).split())}") from error
    if "/" not in repo:
        raise NNDError(f"--repo {repo}: expected NAMESPACE/NAME, such as nnd/quiz_design")


def _read_complete_card(folder: Path) -> tuple[dict[str, Any], str]:
    """The header and the Markdown of a card; raise NNDError where a person has to add something.

    A link in a stranger's folder may lead to any file of the user, so files outside of the folder are refused, too.
    """
    places = (f"*/{SPLIT}-*.parquet", f"{JUDGEMENTS}/*/{SPLIT}-*.parquet")
    for path in (folder / CARD, folder / REPORT, *(path for place in places for path in folder.glob(place))):
        if not path.resolve().is_relative_to(folder.resolve()):
            raise NNDError(f"{path}: is a link to a place outside of the folder; put the file itself there")
    header, body = parse_card(read_text(folder / CARD), str(folder / CARD))
    missing = [key for key in ("license", "language") if not header.get(key)]
    missing += find_todos(header, body)
    if missing:
        name = folder.resolve().name
        recipe_file = list_recipes().get(name)
        place = recipe_file.path if recipe_file else f"task_yamls/{name}/_recipe"
        raise NNDError(
            f"{folder / CARD}: it lacks {' and '.join(missing)}; write that under `facts` in the recipe, {place}, and build "
            "the set again"
        )
    return header, body


def _version(tables: Mapping[str, pa.Table], ids_only: bool) -> str:
    """The tag: it changes with the data of any config, and with whether only ids are published."""
    parts = [f"{config} {fingerprint(table)}" for config, table in sorted(tables.items())]
    digest = hashlib.sha256("\n".join([f"ids {ids_only}", *parts]).encode("utf-8")).hexdigest()
    return f"v{SCHEMA_VERSION}-{digest[:8]}"


def _read_recipe_texts(name: str, repo: str, recipe: SetRecipe, ids_only: bool) -> dict[str, str]:
    """Path -> text of the recipe of a user's own set and, where texts are published, of a task that reads them."""
    folder = recipe.path.parent
    texts = {f"{name}/{file}": read_text(folder / file) for file in (RECIPE, PREPARE) if (folder / file).is_file()}
    task = folder / f"nnd_{name}.yaml"
    if task.is_file() and not ids_only:
        settings, foreign = read_task_yaml(task)
        if foreign:
            raise NNDError(f"{task}: it names {', '.join(foreign)}, which cannot be published with a set; take it out")
        texts[task.name] = f"# Needs the package nnd-tasks.\n{dump_task_yaml({**settings, 'dataset_path': repo})}"
    return texts


def _build_again(
    name: str,
    recipe: SetRecipe | None,
    tables: Mapping[str, pa.Table],
    reports: Mapping[str, Any],
    source: str | None,
    *,
    dry_run: bool,
) -> list[str]:
    """Build a set again, and return notes; raise NNDError where that fails or other tests come out."""
    if recipe is None:
        return [f"there is no recipe of {name} here: it was not built again"]
    try:
        rebuilt = make_set(recipe, source)
    except NNDError as error:
        if dry_run and source is None:
            return [f"{name} was not built again: {error}"]
        raise NNDError(
            f"{name} cannot be built again, so it is not published: {error}; name its files with --source"
        ) from error
    for config, table in tables.items():
        again = rebuilt.tables.get(config)
        if again is not None and fingerprint(again) == fingerprint(table):
            continue
        before = reports.get(config, {}).get("source_sha256", {})
        now = rebuilt.report.get(config, {}).get("source_sha256", {})
        changed = [file for file in now if now[file] != before.get(file)]
        reason = f"{' and '.join(changed)} is another file than it was built from; " if changed else ""
        raise NNDError(
            f"{name}: a new build gives {'other tests' if again is not None else 'no tests'} for config {config} than the folder "
            f"holds; {reason}build the set again, then publish"
        )
    return []


# ---------------------------------------------------------------- ids


def make_ids(table: pa.Table) -> pa.Table:
    """The ids and labels of tests and the SHA-256 of each text, one row per test in the same order.

    Columns that the schema does not know are prompt fields, texts like the context.
    """
    columns: dict[str, Any] = {name: table.column(name) for name in ("test_id", "cluster_id")}
    fields = [name for name in table.column_names if name not in RESERVED_COLUMNS]
    for name in ("context", "high", "low", *fields):
        texts = table.column(name).to_pylist()
        columns[f"{name}_sha256"] = [hashlib.sha256(str(text).encode("utf-8")).hexdigest() for text in texts]
    columns |= {name: table.column(name) for name in _LABELS if name in table.column_names}
    return pa.table(columns)


def _list_commands(name: str, repo: str, recipe: SetRecipe | None, reports: Mapping[str, Any]) -> list[str]:
    """The commands that build a set of which only ids are published."""
    report = next(iter(reports.values()))
    if recipe is None:
        if "levels" not in report:
            return []
        options = (
            f"--texts {report['texts']} --seeds {report['seeds']} --errors {shlex.quote(','.join(report['levels']))}"
        )
        return [f"nnd stress build {name} --corpus {shlex.quote(report['corpus'])} --source FOLDER {options}"]
    with_address = {file for file, facts in recipe.recipe.files.items() if facts and facts.url}
    lacking = [file for file in report.get("source_sha256", {}) if file not in with_address]
    lacking = [file for file in lacking if not (recipe.origin == "package" and recipe.path.with_name(file).is_file())]
    source = f" --source {shlex.quote(lacking[0]) if len(lacking) == 1 else 'FOLDER'}" if lacking else ""
    if recipe.origin == "package":
        return [f"{how_to_build(name)}{source}"]
    return [
        f"hf download {repo} --repo-type dataset --include '{name}/*' --local-dir .",
        f"nnd build ./{name}{source}{' --trust' if recipe.prepare else ''}",
    ]


def _check_no_texts(tables: Iterable[pa.Table], files: Mapping[str, str]) -> None:
    """Raise NNDError for a file that quotes the beginning of a text."""
    texts: set[str] = set()
    for table in tables:
        for column in ("context", "high", "low"):
            texts.update(text[:_QUOTED] for text in table.column(column).to_pylist() if len(text) >= _QUOTED)
    for name, content in files.items():
        quoted = next((text for text in texts if text in content), None)
        if quoted:
            raise NNDError(f"{name}: it quotes a text that may not be published ({quoted[:20]}…); take it out")


# ---------------------------------------------------------------- what the card says besides

_IDS = f"""## Ids and a recipe, no texts

{{why}} This repository holds the identifiers and labels of the tests; column `NAME_sha256` has the SHA-256 of the UTF-8 bytes \
of column `NAME`. A model cannot be scored on these. To have the set itself, build it from the publisher's files with \
nnd-tasks ({_INSTALL}). It is the same where its fingerprints are those on this card."""

_SCORE = f"""
## Score a model

With nnd-tasks ({_INSTALL}):

```sh
hf download {{repo}} nnd_{{name}}.yaml --repo-type dataset --local-dir tasks
nnd run --include_path tasks --model hf --model_args pretrained=MODEL --tasks nnd_{{name}}
```

lm-eval runs whatever code a task YAML names after `!function`, as soon as it reads the file: look into it first. All that it \
should name there begins with `nnd_tasks.`
"""


#: Files of earlier versions of a published set, which are removed; all others in the repository are left.
_OURS = re.compile(
    rf"({JUDGEMENTS}/)?[\w.-]+/test-\d+-of-\d+\.parquet|\w+/(_recipe|prepare\.py)|recipe\.(json|yaml)|build_report\.json"
)
_SHOWN = 500  # characters of an error of the hub


@dataclass(frozen=True)
class UploadResult:
    """What `upload` did.

    Attributes:
        url: of the repository.
        changed: whether there was anything to commit.
        removed: files of an earlier version that are gone.
    """

    url: str
    changed: bool
    removed: tuple[str, ...]


class _TaskDumper(yaml.SafeDumper):
    """Writes `Function` as it was read."""


_TaskDumper.add_representer(Function, lambda dumper, name: dumper.represent_scalar("!function", str(name)))


def dump_task_yaml(settings: Mapping[str, Any]) -> str:
    """Return the settings from `read_task_yaml` as one YAML, without ``include``."""
    return str(yaml.dump(dict(settings), Dumper=_TaskDumper, sort_keys=False, allow_unicode=True))


def find_token() -> str:
    """The token that `huggingface_hub` finds; raise NNDError where there is none."""
    from huggingface_hub import get_token

    token = get_token()
    if not token:
        raise NNDError("no token of the hub: run `hf auth login`, or set HF_TOKEN (with write access)")
    return token


def upload(plan: UploadPlan, *, private: bool = False, replace: bool = False) -> UploadResult:
    """Make a repository of the hub hold the files of a plan, with one commit on top of the state that was looked at.

    The hub is that of ``HF_ENDPOINT``; the token is the one of `huggingface_hub`, and is neither printed nor stored.

    Args:
        plan: from `make_plan`.
        private: make a new repository private.
        replace: write even into a repository that holds something else than an earlier version of the set.

    Raises:
        NNDError: no token, the repository holds something else, or the hub cannot be reached or refuses.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

    token = find_token()
    api = HfApi(token=token, library_name="nnd-tasks")
    repository = f"{plan.repo} of {api.endpoint}"
    with _asking(repository, "read", token):
        exists = api.repo_exists(plan.repo, repo_type="dataset")
    if not exists:
        with _asking(repository, "created", token):
            api.create_repo(plan.repo, repo_type="dataset", private=private)
    with _asking(repository, "read", token):
        info = api.dataset_info(plan.repo)
    if private and not info.private:
        raise NNDError(f"{plan.repo} is public already; leave out --private, or change its settings on the hub first")
    files = {entry.rfilename for entry in info.siblings or []}
    removed = sorted(path for path in files - plan.files.keys() if _OURS.fullmatch(path))
    card = None
    if CARD in files:
        with _asking(repository, "read", token):
            card = Path(api.hf_hub_download(plan.repo, CARD, repo_type="dataset", revision=info.sha))
    foreign = "" if replace else _find_foreign_content(plan.name, card, files)
    if foreign:
        lost = {"replace": sorted(files & plan.files.keys()), "delete": removed}
        would = " and ".join(f"{verb} {some_of(paths, 10, str)}" for verb, paths in lost.items() if paths)
        raise NNDError(
            f"{plan.repo}: {foreign}, so it is left alone; publishing would {would or 'add files to it'}; name another "
            "repository with --repo, or add --replace"
        )
    with _asking(repository, "changed", token):
        done = api.create_commit(
            plan.repo,
            [
                *(CommitOperationAdd(path_in_repo=path, path_or_fileobj=data) for path, data in plan.files.items()),
                *(CommitOperationDelete(path_in_repo=path) for path in removed),
            ],
            repo_type="dataset",
            commit_message=f"{plan.name} {plan.version}",
            parent_commit=info.sha,  # the hub refuses it where somebody else has committed since
        )
    with _asking(repository, "tagged, though its files are up to date", token):
        api.create_tag(plan.repo, repo_type="dataset", tag=plan.version, revision=done.oid, exist_ok=True)
    return UploadResult(f"{api.endpoint}/datasets/{plan.repo}", done.oid != info.sha, tuple(removed))


def _find_foreign_content(name: str, card: Path | None, files: set[str]) -> str:
    """What a repository holds that is not the set; ``""`` where it holds the set or nothing."""
    if card is None:
        return "it has files and no card" if files - {".gitattributes"} else ""
    try:
        held = read_card(card.parent)[0].get("nnd_set")
    except NNDError:
        return "its card cannot be read"
    return "" if held == name else f"it holds the set {held}" if held else "its card names no nnd_set"


@contextmanager
def _asking(repository: str, done: str, token: str) -> Iterator[None]:
    """Turn what the hub and the network raise into one line, in their own words."""
    try:
        yield
    except Exception as error:  # of many kinds, of several libraries
        line = hide(f"{repository} could not be {done}: {' '.join(str(error).split()) or type(error).__name__}")
        line = line.replace(token, MARK)
        # Without its cause, because a traceback shows that, and it may quote the request with the token.
        raise NNDError(cut_middle(line, _SHOWN)) from None
