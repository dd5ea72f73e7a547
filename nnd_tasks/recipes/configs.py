"""The tests of a set, config by config: made from its files, with what the build report says, and written as a dataset."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks import __version__
from nnd_tasks.baselines import SAMPLE, favourite, table_rates, writers_of
from nnd_tasks.card_sections import set_card, set_header
from nnd_tasks.cleaning import clean_name
from nnd_tasks.dataset_writing import write_dataset
from nnd_tasks.datasets import read_report
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.judgements import Dropped
from nnd_tasks.languages import language_pair
from nnd_tasks.recipes.base_table import Table
from nnd_tasks.recipes.cells import short_repr
from nnd_tasks.recipes.download import sha256_of
from nnd_tasks.recipes.make import config_of, make_tests, tables_of
from nnd_tasks.recipes.places import locate, named_files
from nnd_tasks.recipes.readers import open_table
from nnd_tasks.recipes.recipe import FILE, FOLDER, Recipe
from nnd_tasks.recipes.shelf import SetRecipe
from nnd_tasks.schema import fold
from nnd_tasks.tables import ConfigSummary, summarize
from nnd_tasks.wording import counted

#: Tests up to which baselines are counted on all of them; above, on `SAMPLE`. All published sets are below.
_EXACT = 45_000
CONFIG = "default"
_LIST = re.compile(r"\[.*\]", re.DOTALL)


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

    def add(self, config: str, table: Table, recipe: Recipe, origin: Mapping[str, Any]) -> None:
        """Make the tests of one config and of its clean variant.

        Args:
            config: its name.
            table: what the tests are made of.
            recipe: how they are made.
            origin: what `origin_of` returns.

        Raises:
            NNDError: as `form`, or another config has this name.
        """
        made = make_tests(table, recipe)
        self.notes += [note if config == CONFIG else f"{config}: {note}" for note in table.notes]
        self.dropped[config] = dropped = made.dropped
        details = {
            **made.counts,
            "dropped": dropped.counts,
            "dropped_rows": {reason: [table.shown(row) for row in rows] for reason, rows in dropped.rows.items()},
            **({"unranked_labels": dropped.labels} if dropped.labels else {}),
            **({"cleaning": made.cleaning} if made.cleaning else {}),
        }
        self._add(config, made.table, {**details, **origin})
        if (count := self.report[config].get("space_only", 0)) and not recipe.fold_space:
            where = "" if config == CONFIG else f"{config}: "
            self.notes.append(
                f"{where}{counted(count, 'test')} of texts that differ in white space only; they are kept, "
                "`fold_space: true` in the recipe takes such texts for equal"
            )
        if made.clean is not None:
            self._add(clean_name(config), made.clean, {"cleaned_from": config, **origin})
        elif recipe.has_clean:
            self.notes.append(f"{config}: no test is left for {clean_name(config)}, so there is none")

    def _add(self, config: str, table: pa.Table, details: Mapping[str, Any]) -> None:
        lists = [name for name in dict.fromkeys(table["category"].to_pylist()) if "\n" in name or _LIST.fullmatch(name)]
        if lists and "cleaned_from" not in details:
            where = "" if config == CONFIG else f"{config}: "
            self.notes.append(
                f"{where}categories are lists, such as {short_repr(lists[0])}; `list_category` in the recipe names the category "
                "of a list of several"
            )
        if config in self.tables:
            files = ", ".join(details.get("source_sha256", ()))
            raise NNDError(f"two configs would be called {config!r}; rename one of {files}")
        summary = self.summaries[config] = summarize(config, table)
        counts = {key: value for key, value in asdict(summary).items() if key != "name"}
        sampled = {"trivial_rules_sample": SAMPLE} if table.num_rows > _EXACT else {}
        rates = table_rates(table, SAMPLE if sampled else None)
        self.tables[config] = table
        texts = zip(table["high"].to_pylist(), table["low"].to_pylist(), strict=True)
        spaces = sum(high != low and fold(high) == fold(low) for high, low in texts)
        space_only = {"space_only": spaces} if spaces else {}
        best = {"trivial_system": name} if (name := favourite(writers_of(table))) else {}
        self.report[config] = {**details, **counts, "trivial_rules": rates, **sampled, **best, **space_only}

    @property
    def files(self) -> set[str]:
        """Names of the files that the tests are made of."""
        return {file for part in self.report.values() for file in part["source_sha256"]}

    def unlike_published(self, recipe: Recipe) -> list[str]:
        """Return the configs whose number of tests is not the published one."""
        tests = {config: table.num_rows for config, table in self.tables.items()}
        return [config for config, count in tests.items() if recipe.published.get(config, count) != count]

    def differences(self, recipe: Recipe) -> list[str]:
        """Return a note where the numbers of tests are not those that the recipe was made with."""
        made: Counter[str] = Counter()
        for part in self.report.values():
            if "cleaned_from" not in part:
                made.update(part["categories"])
        if not recipe.expected or made == Counter(recipe.expected):
            return []
        hashes = {file: digest for part in self.report.values() for file, digest in part["source_sha256"].items()}
        other = [file for file, digest in hashes.items() if digest not in recipe.sources.values()]
        why = f"{other[0]} is another file than the recipe's" if other and recipe.sources else "the options are others"
        expected = sum(recipe.expected.values())
        return [
            f"{counted(sum(made.values()), 'test')}, the recipe expects {expected:,}, or others per category: {why}"
        ]


def form(
    name: str, recipe: Recipe, files: Mapping[str, Path], options: Mapping[str, str], *, shipped: bool = True
) -> Formed:
    """Make the tests of a set from its files, without writing anything.

    Args:
        name: of the set.
        recipe: of the set.
        files: file name -> where it is.
        options: the recipe's options, each with a value.
        shipped: whether the recipe comes with the package; otherwise the report keeps it.

    Raises:
        NNDError: a file that is not as the recipe says, or no test comes out.
    """
    origin = origin_of(recipe, files, options, shipped=shipped)
    formed = Formed()
    for config, table in tables_of(name, recipe, files, options).items():
        formed.add(config, table, recipe, origin)
    return formed


def form_own(set_recipe: SetRecipe, source: str | Path, stack: ExitStack) -> Formed:
    """Make the tests of a user's own set from what ``--source`` names, without writing anything.

    Args:
        set_recipe: the set.
        source: as for `nnd_tasks.build.build_set`, or a dataset for `datasets`: ``PATH``, ``PATH:SPLIT`` or
            ``PATH:CONFIG:SPLIT``.
        stack: removes what an archive is unpacked to when it is closed.

    Raises:
        NNDError: as `form`.
    """
    recipe, place = set_recipe.recipe, expand(source)
    named = recipe.files or recipe.pattern or any(_is_there(str(Path(source) / file)) for file in recipe.sources)
    # A path that exists and is not a folder is a file, or a pipe, which `locate` refuses.
    folder = not _is_there(str(place)) or place.is_dir()
    files = named_files(str(source), stack) if folder and not named else {}
    if files is None:
        formed = Formed()
        table = open_table(str(source), recipe)
        formed.add(recipe.config or CONFIG, table, recipe, origin_of(recipe, {}, {}, shipped=False))
        return formed
    if files and not _is_there(str(place)):  # a pattern, or a member of an archive
        return form(set_recipe.name, recipe, files, {}, shipped=False)
    return form(set_recipe.name, recipe, locate(set_recipe, place, stack), {}, shipped=False)


def origin_of(
    recipe: Recipe, files: Mapping[str, Path], options: Mapping[str, str], *, shipped: bool
) -> dict[str, Any]:
    """Return what the report of every config says about its recipe, files and options."""
    # A report travels with the data: of a local folder it keeps the name, not the place.
    shown = {key: Path(value).name if _is_there(value) else value for key, value in options.items()}
    return {
        **({} if shipped else {"recipe": judging_part(recipe)}),
        "source_sha256": {file: sha256_of(path) for file, path in sorted(files.items())},
        "options": shown,
        "errors": recipe.errors,
        "nnd_tasks": __version__,
    }


def judging_part(recipe: Recipe) -> dict[str, Any]:
    """Return what a recipe says, without what it says about the files that it was made with."""
    return {key: value for key, value in recipe.dump().items() if key not in ("sources", "expected")}


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def write_formed(
    name: str,
    recipe: Recipe,
    formed: Formed,
    folder: Path,
    *,
    shipped: bool,
    obsolete: set[str] | frozenset[str] = frozenset(),
    replace: bool = False,
) -> list[ConfigSummary]:
    """Write the tests of a set as configs of its dataset folder, beside those that it has; return summaries of all.

    Args:
        name: of the set.
        recipe: of the set.
        formed: its tests.
        folder: the dataset folder.
        shipped: whether the recipe comes with the package; otherwise the card shows it.
        obsolete: configs that the folder must not keep.
        replace: write the card anew; otherwise what people wrote on it stays.

    Raises:
        NNDError: the folder holds something else, or cannot be written.
    """
    facts = recipe.facts(name, shown=not shipped)
    columns = list(dict.fromkeys(column for table in formed.tables.values() for column in table.column_names))
    default = next(iter(formed.tables))
    if recipe.config in (FILE, FOLDER) and recipe.files:
        first = next(iter(recipe.files))
        default = config_of(name, recipe, first, Path(first))
    elif recipe.config and not recipe.config.startswith("@"):
        default = recipe.config
    known = {**read_report(folder), **formed.report}
    return write_dataset(
        folder,
        formed.tables,
        header=lambda summaries: {**set_header(facts), **_languages(recipe, summaries, known)},
        body=lambda summaries, reports: set_card(facts, summaries, columns, reports).body(),
        default=default,
        report=formed.report,
        known=formed.summaries,
        replace=replace,
        obsolete=(({clean_name(config) for config in formed.tables} - set(formed.tables)) | obsolete),
    )


def _languages(recipe: Recipe, configs: Sequence[ConfigSummary], report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the languages of configs as a field of the card: those said at the build, or in a name such as ``newstest_ende``."""
    if recipe.config not in (FILE, FOLDER):
        return {}
    pairs = [report.get(config.name, {}).get("languages") or language_pair(config.name) or () for config in configs]
    codes = sorted({str(code) for pair in pairs for code in pair})
    return {"language": codes} if codes else {}
