"""The pages of a board: a front page, a page per set and per model, failed tests, and all numbers as JSON."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnd_tasks import __version__
from nnd_tasks.analysis.board.board_columns import OF_CATEGORIES, OF_MODELS, beaten, size_text
from nnd_tasks.analysis.board.standings import Standing, standings_of
from nnd_tasks.analysis.compare.output import few
from nnd_tasks.analysis.compare.power import LARGEST_MDE, is_underpowered
from nnd_tasks.analysis.html_pages import policy_hash, templates
from nnd_tasks.analysis.report.html_examples import failed_examples
from nnd_tasks.analysis.report.html_report import command_of
from nnd_tasks.analysis.results import Run, read_results
from nnd_tasks.baselines import ALL
from nnd_tasks.errors import NNDError, visible
from nnd_tasks.files import changing, expand, read_text, reading
from nnd_tasks.folders import rewriting
from nnd_tasks.formats import json_text, number
from nnd_tasks.secrets import hide, without_secrets
from nnd_tasks.statistics import FEW
from nnd_tasks.wording import counted, some_of

if TYPE_CHECKING:
    import jinja2

#: In a folder that `write_board` wrote: the names of its files, which the next board may replace.
MARKER = ".nnd-board"
#: Failed tests of each run that are shown.
FAILED = 10
#: Files that could not be used, of which the front page names at most so many.
SKIPPED = 100
#: Upper ends of the classes of size in the filter, in parameters.
_SIZES = (1e6, 1e7, 1e8, 1e9, 1e10, 1e11)
#: Which texts of failed tests a board shows: those whose terms let anyone publish them, all, or none.
TEXTS = ("free", "all", "none")


def write_board(
    places: Sequence[str | Path], output: str | Path, select: Sequence[str] = (), texts: str = "free"
) -> tuple[Path, list[str]]:
    """Write a board about the runs in some places.

    Args:
        places: as `nnd_tasks.analysis.results.read_results` takes them; of many people, some may be damaged.
        output: the folder; where it is there, it must be empty or an earlier board, which is replaced as a whole.
        select: as for `read_results`.
        texts: of the failed tests.

    Returns:
        The front page, and a line for each file that could not be used.

    Raises:
        NNDError: no run can be used, or the folder is not a board or cannot be written.
    """
    folder = expand(output).resolve()
    _check_output(folder)
    if texts not in TEXTS:
        raise NNDError(f"--texts {texts}: expected {', '.join(TEXTS)}")
    skipped: list[str] = []
    standings = standings_of(read_results(places, select, skipped), skipped)
    if not standings:
        raise NNDError(f"{', '.join(map(str, places))}: no results can be used: {some_of(skipped, 3, str)}")
    pages = Board(standings, [Path(expand(place)).resolve() for place in places], skipped, texts).pages()
    with changing(folder), rewriting(folder) as new:
        for name, content in pages.items():
            (new / name).write_bytes(content.encode("utf-8", "replace"))
        (new / MARKER).write_text("\n".join(sorted(pages)) + "\n", encoding="utf-8")
    return folder / "index.html", skipped


def _check_output(folder: Path) -> None:
    """Raise NNDError where something lies that is not ours: a board replaces its whole folder."""
    if folder.exists() and not folder.is_dir():
        raise NNDError(f"{folder}: is a file; name a folder for the board")
    if not folder.is_dir():
        return
    with reading(folder):
        there = {path.name for path in folder.iterdir()}
    if there and MARKER not in there:
        raise NNDError(f"{folder}: is not empty, and not a board of nnd board; name another folder")
    ours = {MARKER, *read_text(folder / MARKER).splitlines()} if there else set()
    if others := sorted(there - ours):
        raise NNDError(
            f"{folder}: nnd board did not write {some_of(others, 3)}; move that away, or name another folder"
        )


def file_names(kind: str, names: Sequence[str]) -> dict[str, str]:
    """Return name -> a file name of plain letters, digits and hyphens, whatever a name from outside holds.

    Names that would get the same file, also where case makes no difference, get a digest each.
    """
    slugs = {name: re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80].strip("-") for name in names}
    counts = Counter(slugs.values())
    return {
        name: f"{kind}-{slug}.html"
        if slug and counts[slug] == 1
        else f"{kind}-{slug or 'x'}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:10]}.html"
        for name, slug in slugs.items()
    }


class Board:
    """All pages of a board.

    Attributes:
        standings: groups of runs that were asked the same.
        sets: set and config -> its groups, the main one first.
        models: name -> (group, run) of each of its runs; by name.
    """

    def __init__(self, standings: Sequence[Standing], places: Sequence[Path], skipped: Sequence[str], texts: str):
        self.standings = standings
        self.sets: dict[str, list[Standing]] = {}
        names = {run.model for standing in standings for run in standing.runs}
        self.models: dict[str, list[tuple[Standing, Run]]] = {
            name: [] for name in sorted(names, key=lambda name: (name.lower(), name))
        }
        for standing in standings:
            self.sets.setdefault(standing.paired.set, []).append(standing)
            for run in standing.runs:
                self.models[run.model].append((standing, run))
        self._places = places
        self._skipped = [self._shortened(line) for line in skipped]
        self._texts = texts
        self._set_files = file_names("set", sorted(self.sets))
        self._model_files = file_names("model", sorted(self.models))
        ids = {self._id(standing, run): (standing, run) for standing in standings for run in standing.runs}
        self._failed_files = file_names("failed", list(ids))

    def pages(self) -> dict[str, str]:
        """Return name -> content of each file."""
        folder = Path(__file__).parent
        style = (folder.parent / "report" / "report.css").read_text(encoding="utf-8")
        style += (folder / "board.css").read_text(encoding="utf-8")
        script = (folder / "board.js").read_text(encoding="utf-8")
        runs = [run for standing in self.standings for run in standing.runs]
        known: dict[str, Any] = {
            "board": self,
            "version": __version__,
            "style": style,
            "script": script,
            # A page runs this script and takes this style only, whatever a text of the data contains, and loads nothing.
            "style_hash": policy_hash(f"\n{style}\n"),
            "script_hash": policy_hash(script),
            "newest": max(run.date[:10] for run in runs),
            "of_models": OF_MODELS,
            "of_categories": OF_CATEGORIES,
            "constants": {"few": FEW, "largest_mde": LARGEST_MDE, "failed": FAILED},
            "texts": self._texts,
        }
        environment = _environment()

        def page(template: str, **more: Any) -> str:
            return environment.get_template(f"{template}.html.j2").render(**known, **more)

        main = [standings[0] for standings in self.sets.values() if not standings[0].differs]
        apart = [standing for standing in self.standings if standing.differs]
        pages = {
            "index.html": page("index", main=main, apart=apart, options=self._options(), skipped=self._skipped[:SKIPPED],
                               more_skipped=len(self._skipped[SKIPPED:])),
            "board.json": json_text(self.as_data()) + "\n",
        }  # fmt: skip
        for name, standings in self.sets.items():
            pages[self._set_files[name]] = page("set", name=name, standings=standings)
        for model, rows in self.models.items():
            pages[self._model_files[model]] = page("model", model=model, rows=rows)
        for standing in self.standings:
            free = self._texts == "all" or (self._texts == "free" and standing.free)
            failed: dict[str, list[Any]] = {run.model: [] for run in standing.runs}
            for example in failed_examples(standing.paired, FAILED):
                failed[example.model].append(example)
            for run in standing.runs:
                more = {"standing": standing, "run": run, "examples": failed[run.model], "free": free}
                pages[self.failed_page(standing, run)] = page("failed", **more)
        return pages

    # ------------------------------------------------------------ for the templates

    def set_page(self, standing: Standing) -> str:
        """Return the file of a group's set."""
        return self._set_files[standing.paired.set]

    def place(self, standing: Standing) -> str:
        """Return the id of a group on the page of its set."""
        return f"g{self.sets[standing.paired.set].index(standing) + 1}"

    def model_page(self, model: str) -> str:
        """Return the file of a model."""
        return self._model_files[model]

    def failed_page(self, standing: Standing, run: Run) -> str:
        """Return the file with the failed tests of a run."""
        return self._failed_files[self._id(standing, run)]

    def older(self, standing: Standing, run: Run) -> list[tuple[str, str]]:
        """Return date and file of the earlier runs in whose place a run counts."""
        return [(date[:10], self._shortened(str(path))) for date, path in standing.older.get(run.model, [])]

    def _id(self, standing: Standing, run: Run) -> str:
        return f"{standing.paired.set} {self.place(standing)} {run.model}"

    def _shortened(self, line: str) -> str:
        """Return a line with files named from the place on that the user gave, which says nothing about this machine."""
        for place in self._places:
            line = line.replace(visible(f"{place.parent}/"), "")
        return _plain(line)

    def _options(self) -> dict[str, list[tuple[str, str]]]:
        """Return the choices of each filter: (value, text)."""
        kinds = sorted({kind for standing in self.standings for kind in kinds_of(standing)})
        languages = sorted({language for standing in self.standings for language in languages_of(standing)})
        sizes = {size_class(run) for rows in self.models.values() for _, run in rows}
        names = {self._set_files[name]: name.removeprefix("nnd/") for name in self.sets}
        return {
            "task": [(kind, kind) for kind in kinds],
            "language": [(language, language) for language in languages],
            "set": list(names.items()),
            "size": [(text, text) for text in [*map(_class_text, range(len(_SIZES) + 1)), _UNKNOWN] if text in sizes],
        }

    def as_data(self) -> dict[str, Any]:
        """Return all numbers, for programs."""
        return {
            "nnd_board": 1,
            "version": __version__,
            "skipped": self._skipped,
            "groups": [self._group_data(standing) for standing in self.standings],
        }

    def _group_data(self, standing: Standing) -> dict[str, Any]:
        paired = standing.paired
        models = [
            {
                "model": run.model,
                "date": run.date,
                "signature": _plain(run.line),
                "page": self._model_files[run.model],
                **{column.key: column.cell(standing, run)[0] for column in OF_MODELS},
                "older": self.older(standing, run),
                "rates": {result.category: asdict(result.rates[run.model]) for result in standing.categories},
            }
            for run in standing.runs
        ]
        return {
            "set": paired.set,
            "task": paired.task,
            "kinds": standing.kinds,
            "languages": standing.languages,
            "differs": standing.differs,
            "protocol": without_secrets(dict(paired.runs[0].protocol)),
            "left_out": paired.left_out,
            "page": f"{self.set_page(standing)}#{self.place(standing)}",
            "categories": {
                result.category: {column.key: column.cell(standing, result)[0] for column in OF_CATEGORIES}
                for result in standing.categories
            },
            "models": models,
        }


# ---------------------------------------------------------------- filters

_UNKNOWN = "not known"


def kinds_of(standing: Standing) -> list[str]:
    """Return what models are asked to do, for the filter."""
    return standing.kinds or [_UNKNOWN]


def languages_of(standing: Standing) -> list[str]:
    """Return the languages of a set, for the filter."""
    return standing.languages or [_UNKNOWN]


def size_class(run: Run) -> str:
    """Return the class of a model's size, for the filter."""
    if not run.parameters or run.parameters < 0:
        return _UNKNOWN
    return _class_text(sum(run.parameters >= end for end in _SIZES))


def _class_text(number_of_class: int) -> str:
    ends = [size_text(end) for end in _SIZES]
    if number_of_class == 0:
        return f"under {ends[0]}"
    return (
        f"{ends[-1]} and more"
        if number_of_class == len(ends)
        else f"{ends[number_of_class - 1]} to {ends[number_of_class]}"
    )


# ---------------------------------------------------------------- templates


def _plain(text: str) -> str:
    """Return a text from outside without secrets, on one line, and with nothing in it that hides or turns letters."""
    return visible(hide(text))


def _settings(protocol: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what runs were asked, as texts without secrets."""
    return [(_plain(key), _plain(str(value)) if value not in (None, "") else "none") for key, value in protocol.items()]


@lru_cache
def _environment() -> jinja2.Environment:
    """Return what renders the templates."""
    environment = templates(Path(__file__).parent)
    environment.filters |= {"number": number, "counted": counted, "few": few, "plain": _plain}
    environment.globals |= {"settings": _settings, "command_of": command_of, "kinds_of": kinds_of, "ALL": ALL,
                            "languages_of": languages_of, "size_class": size_class, "beaten": beaten,
                            "is_underpowered": is_underpowered}  # fmt: skip
    return environment
