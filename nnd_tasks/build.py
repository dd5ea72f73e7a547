"""Build a set: recipe -> files -> tests -> dataset folder, with a build report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks import __version__
from nnd_tasks.baselines import SAMPLE, table_rates
from nnd_tasks.card_sections import set_card, set_header
from nnd_tasks.cleaning import clean_name
from nnd_tasks.dataset_writing import write_dataset
from nnd_tasks.datasets import dataset_folder, read_report, user_tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.harness.user_tasks import shipped_task
from nnd_tasks.pairing import Dropped
from nnd_tasks.recipes.download import Fetched, fetch, sha256_of
from nnd_tasks.recipes.make import config_of, make_tests, tables_of
from nnd_tasks.recipes.places import locate, named_files
from nnd_tasks.recipes.readers import Table, open_table
from nnd_tasks.recipes.recipe import FILE, Recipe
from nnd_tasks.recipes.shelf import RECIPE, SetRecipe, find_recipe, recipe_paths
from nnd_tasks.schema import language_pair, short_hash
from nnd_tasks.tables import ConfigSummary, summarize
from nnd_tasks.wording import counted, some_of

#: Tests up to which baselines are counted on all of them; above, on `SAMPLE`. All published sets are below.
_EXACT = 45_000


@dataclass(frozen=True)
class BuildResult:
    """What `build_set` made.

    Attributes:
        folder: the dataset folder.
        built: summaries of the configs of this build.
        kept: names of other configs that the folder had and still has.
        notes: one line each for what the user should know.
        report: per config, what is stored in ``build_report.json``.
    """

    folder: Path
    built: list[ConfigSummary]
    kept: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)


@dataclass
class Formed:
    """The tests of a set, not written yet.

    Attributes:
        tables: config -> its tests; each config is followed by its clean variant.
        report: config -> what ``build_report.json`` will hold.
        summaries: config -> counts and fingerprint of its tests.
        dropped: config -> what was left out.
        notes: one line each for what the user should know.
    """

    tables: dict[str, pa.Table] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    summaries: dict[str, ConfigSummary] = field(default_factory=dict)
    dropped: dict[str, Dropped] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def build_set(
    name: str,
    source: str | Path | None = None,
    out: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    *,
    progress: bool = True,
    replace: bool = False,
) -> BuildResult:
    """Build a set into a dataset folder.

    Args:
        name: of a set that `nnd list` shows, or the path of a recipe.
        source: the publisher's file, an archive or a folder that holds it; None downloads it.
        out: the dataset folder to write; None takes ``$NND_HOME/nnd/NAME``.
        options: options of the recipe, such as ``{"rows": "all"}`` for SummEval.
        progress: show progress of downloads.
        replace: the folder may hold a set of this name that another recipe made.

    Raises:
        NNDError: unknown set or option, a source that cannot be read, a folder that cannot be written, or one that holds the set
            of another recipe.
    """
    found = find_recipe(name)
    recipe = found.recipe
    folder = expand(out) if out is not None else dataset_folder(found.name)
    if not found.shipped:
        _check_name(found)
        if not replace:
            _check_same_recipe(found, folder)
    chosen = _options(found, options or {})
    fetched: Fetched | None = None
    notes: list[str] = []
    with ExitStack() as stack:
        files: dict[str, Path] | None = None
        if source is None:
            files = _embedded(found)
        elif found.shipped:
            files = locate(found, expand(source), stack)
        if source is None and files is None:
            try:
                fetched = fetch(found.name, recipe, place=_place(found), progress=progress)
            except NNDError as error:
                if not found.sent:
                    raise
                raise NNDError(str(error).replace(f"nnd build {found.name} ", f"nnd build {found.path} ")) from error
            files = fetched.files
            notes += [
                f"unverified: {file} has no published hash; its content at the first download is recorded"
                for file in fetched.unverified
            ]
        try:
            if files is not None:
                formed = form(found.name, recipe, files, chosen, shipped=found.shipped)
            else:
                formed = form_own(found, str(source), stack)
        except NNDError:
            if fetched is not None:
                fetched.discard()
            raise
    notes += formed.notes
    notes += [
        f"{file.name} is not there, so config {file.config} is not built from it"
        for file in recipe.files.values()
        if file.config and file.config not in formed.tables
    ]
    values = ", ".join(f"{column} {some_of(left)}" for column, left in recipe.leave_out.items())
    notes += [
        f"{config}: {counted(count, 'row')} left out, no judgements by the recipe ({values})"
        for config, dropped in formed.dropped.items()
        if (count := dropped.counts.get("by_recipe", 0))
    ]
    for config, table in formed.tables.items():
        expected = recipe.published.get(config, table.num_rows)
        if expected != table.num_rows:
            notes.append(
                f"{config}: {counted(table.num_rows, 'test')}, published are {expected:,}: another version of the file?"
            )
    notes += differences(recipe, formed)
    other = any(
        formed.tables[config].num_rows != count for config, count in recipe.published.items() if config in formed.tables
    )
    if fetched is not None and fetched.unsure and other:
        notes.append(
            f"{' and '.join(fetched.unsure)}: not kept, as it may be cut off; the next build downloads it again"
        )
        fetched.discard(fetched.unsure)
    summaries = write_formed(found.name, recipe, formed, folder, shipped=found.shipped)
    return BuildResult(
        folder=folder,
        built=[summary for summary in summaries if summary.name in formed.tables],
        kept=[summary.name for summary in summaries if summary.name not in formed.tables],
        notes=notes,
        report=formed.report,
    )


def _place(found: SetRecipe) -> str:
    """Return the name of the download folder of a recipe that somebody sent, ``""`` of another one.

    By its addresses: no name of a set has an ``@``, so it is that of no other.
    """
    if not found.sent:
        return ""
    return f"{found.name}@{short_hash(*(file.url for file in found.recipe.files.values()))}"


def differences(recipe: Recipe, formed: Formed) -> list[str]:
    """Return notes on what differs from the numbers of tests that a recipe was made with."""
    made: Counter[str] = Counter()
    for part in formed.report.values():
        if "cleaned_from" not in part:
            made.update(part["categories"])
    if not recipe.expected or made == Counter(recipe.expected):
        return []
    hashes = {file: digest for part in formed.report.values() for file, digest in part["source_sha256"].items()}
    other = [file for file, digest in hashes.items() if digest not in recipe.sources.values()]
    why = f"{other[0]} is another file than the recipe's" if other and recipe.sources else "the options are others"
    expected = sum(recipe.expected.values())
    return [f"{counted(sum(made.values()), 'test')}, the recipe expects {expected:,}, or others per category: {why}"]


def _embedded(found: SetRecipe) -> dict[str, Path] | None:
    """Return the files that lie beside a recipe, or None; one that is a link to another folder counts as absent."""
    folder = found.folder.resolve()
    files = {name: folder / name for name in found.recipe.files}
    inside = all(path.is_file() and path.resolve().is_relative_to(folder) for path in files.values())
    return files if files and inside else None


def _check_name(found: SetRecipe) -> None:
    """Check that a recipe from elsewhere does not pass for a set of the package, and can be the name of a task.

    Raises:
        NNDError: it cannot; names its file.
    """
    folder = found.path.parent.name
    if not (found.name.isidentifier() and found.name.isascii()) or found.name.startswith("nnd_"):
        raise NNDError(
            f"{found.path}: a set is named after the folder of its recipe, by letters, digits and _, without nnd_ before them; "
            f"rename the folder {folder!r}"
        )
    if recipe_paths().get(found.name, (None, False))[1] or shipped_task(f"nnd_{found.name}") is not None:
        raise NNDError(f"{found.path}: {found.name} is a set of this package; rename the folder of the recipe")


def _check_same_recipe(found: SetRecipe, folder: Path) -> None:
    """Check that a dataset folder holds nothing, or what the same recipe made; the user's own recipe may have changed.

    Raises:
        NNDError: another recipe made it.
    """
    if not folder.exists() or found.path.absolute() == (user_tasks_dir() / found.name / RECIPE).absolute():
        return
    before = [part.get("recipe") for part in read_report(folder).values() if isinstance(part, dict)]
    if before and _judging(found.recipe) not in before:
        raise NNDError(
            f"{folder}: holds a set that another recipe made; rename the folder of yours, or --replace what is there"
        )


def _judging(recipe: Recipe) -> dict[str, Any]:
    """Return what a recipe says, without what it says of the files that it was made with."""
    return {key: value for key, value in recipe.dump().items() if key not in ("sources", "expected")}


def form(
    name: str, recipe: Recipe, files: Mapping[str, Path], options: Mapping[str, str], *, shipped: bool = True
) -> Formed:
    """Make the tests of a set out of its files, without writing anything.

    Args:
        name: of the set.
        recipe: of it.
        files: file name -> where it is.
        options: of the recipe, each with a value.
        shipped: whether the recipe comes with the package; else the report keeps it.

    Raises:
        NNDError: a file that is not as the recipe says, or no test comes out.
    """
    origin = origin_of(recipe, files, options, shipped=shipped)
    formed = Formed()
    for config, table in tables_of(name, recipe, files, options).items():
        add_config(formed, config, table, recipe, origin)
    return formed


def form_own(found: SetRecipe, source: str | Path, stack: ExitStack) -> Formed:
    """Make the tests of a set of the user's own out of what ``--source`` names, without writing anything.

    Args:
        found: the set.
        source: as for `build_set`, or a dataset for `datasets`: ``PATH``, ``PATH:SPLIT`` or ``PATH:CONFIG:SPLIT``.
        stack: what an archive is unpacked to is removed when it is closed.

    Raises:
        NNDError: as `form`.
    """
    recipe = found.recipe
    named = recipe.files or recipe.pattern or any(_is_there(str(Path(source) / file)) for file in recipe.sources)
    # What is there and no folder is a file, or a pipe, which `locate` refuses.
    folder = not _is_there(str(expand(source))) or expand(source).is_dir()
    if folder and not named and named_files(str(source), stack) is None:
        formed = Formed()
        table = open_table(str(source), recipe)
        add_config(formed, recipe.config or "default", table, recipe, origin_of(recipe, {}, {}, shipped=False))
        return formed
    return form(found.name, recipe, locate(found, expand(source), stack), {}, shipped=False)


def origin_of(
    recipe: Recipe, files: Mapping[str, Path], options: Mapping[str, str], *, shipped: bool
) -> dict[str, Any]:
    """Return what the report of every config says of where it comes from."""
    # A report travels with the data: of a local folder it keeps the name, not the place.
    shown = {key: Path(value).name if _is_there(value) else value for key, value in options.items()}
    return {
        **({} if shipped else {"recipe": _judging(recipe)}),
        "source_sha256": {file: sha256_of(path) for file, path in sorted(files.items())},
        "options": shown,
        "nnd_tasks": __version__,
    }


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def add_config(formed: Formed, config: str, table: Table, recipe: Recipe, origin: Mapping[str, Any]) -> None:
    """Make the tests of one config and its clean variant, and what the report says of them.

    Raises:
        NNDError: as `form`, or another config has this name.
    """
    made = make_tests(table, recipe)
    formed.notes += table.notes
    dropped = made.dropped
    details = {
        **made.counts,
        "dropped": dropped.counts,
        "dropped_rows": dropped.rows,
        **({"unranked_labels": dropped.labels} if dropped.labels else {}),
        **({"cleaning": made.cleaning} if made.cleaning else {}),
    }
    formed.dropped[config] = dropped
    _add(formed, config, made.table, {**details, **origin})
    if made.clean is not None:
        _add(formed, clean_name(config), made.clean, {"cleaned_from": config, **origin})
    elif recipe.has_clean:
        formed.notes.append(f"{config}: no test is left for {clean_name(config)}, so there is none")


def _add(formed: Formed, config: str, table: pa.Table, details: Mapping[str, Any]) -> None:
    if config in formed.tables:
        files = ", ".join(details.get("source_sha256", ()))
        raise NNDError(f"two configs would be called {config!r}; rename one of {files}")
    summary = formed.summaries[config] = summarize(config, table)
    counts = {key: value for key, value in asdict(summary).items() if key != "name"}
    sampled = {"trivial_rules_sample": SAMPLE} if table.num_rows > _EXACT else {}
    rates = table_rates(table, SAMPLE if sampled else None)
    formed.tables[config] = table
    formed.report[config] = {**details, **counts, "trivial_rules": rates, **sampled}


def write_formed(
    name: str,
    recipe: Recipe,
    formed: Formed,
    folder: Path,
    *,
    shipped: bool,
    obsolete: set[str] | frozenset[str] = frozenset(),
) -> list[ConfigSummary]:
    """Write the tests of a set as configs of its dataset folder, beside those that it has; return summaries of all.

    Args:
        name: of the set.
        recipe: of it.
        formed: its tests.
        folder: the dataset folder.
        shipped: whether the recipe comes with the package; else the card has it.
        obsolete: configs that the folder must not keep.

    Raises:
        NNDError: the folder holds something else, or cannot be written.
    """
    facts = recipe.facts(name, shown=not shipped)
    columns = list(dict.fromkeys(column for table in formed.tables.values() for column in table.column_names))

    def body(summaries: list[ConfigSummary], reports: Mapping[str, Any]) -> str:
        return set_card(facts, summaries, columns, reports).body()

    default = next(iter(formed.tables))
    if recipe.config == FILE and recipe.files:
        first = next(iter(recipe.files))
        default = config_of(name, recipe, first, Path(first))
    elif recipe.config and not recipe.config.startswith("@"):
        default = recipe.config
    return write_dataset(
        folder,
        formed.tables,
        header=lambda all_summaries: {
            **set_header(facts),
            **_languages(recipe, [summary.name for summary in all_summaries]),
        },
        body=body,
        default=default,
        report=formed.report,
        known=formed.summaries,
        obsolete=(({clean_name(config) for config in formed.tables} - set(formed.tables)) | obsolete),
    )


def _languages(recipe: Recipe, configs: list[str]) -> dict[str, list[str]]:
    """Return the languages that the names of configs say, such as ``ende``; nothing where they say none."""
    pairs = [pair for name in configs if recipe.config == "@file" and (pair := language_pair(name))]
    return {"language": sorted({code for pair in pairs for code in pair})} if pairs else {}


def _options(found: SetRecipe, given: Mapping[str, str]) -> dict[str, str]:
    """Return every option of a recipe with its value.

    Raises:
        NNDError: an option that the recipe does not have, or a value that is none of it.
    """
    known = found.recipe.options
    for key, value in given.items():
        if key not in known:
            raise NNDError(f"set {found.name} has no option --{key}")
        if len(known[key]) > 1 and value not in known[key]:
            raise NNDError(f"--{key}: expected {' or '.join(known[key])}, found {value!r}")
    return {key: given.get(key, values[0]) for key, values in known.items()}
