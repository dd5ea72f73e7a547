"""A model's family and its place on an x axis: from a file of tags, or guessed from its name."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnd_tasks.analysis.results import Run
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, read_text
from nnd_tasks.wording import counted
from nnd_tasks.yaml_json import read_json, read_yaml

PARAMETERS = "parameters"
STEP = "step"

_EDGE = r"(?=$|[-_./@ ])"
_STEP = re.compile(
    rf"(?:^|[-_./@ ])(?:global[-_]?steps?|steps?|checkpoint|ckpt|iter(?:ation)?s?|updates?)[-_=]?(\d+(?:\.\d+)?)(k|m)?{_EDGE}",
    re.IGNORECASE,
)
#: Sizes in numbers (70m, 1.3B, 1b1, 8x7B), then in words. A word at the beginning of the name is part of the family (tiny-lm).
_SIZES = (
    re.compile(rf"(?:^|[-_ ])(?:\d+x)?\d+(?:[._]\d+)?[kmbt]\d?{_EDGE}", re.IGNORECASE),
    re.compile(
        rf"[-_ ](?:x{{0,3}}s|m|x{{0,3}}l|nano|micro|tiny|mini|small|base|medium|large|huge|giant){_EDGE}", re.IGNORECASE
    ),
)


@dataclass(frozen=True)
class Tags:
    """What a user's file says about models.

    Attributes:
        path: of the file.
        columns: names, in the order of their first use, without ``model``.
        rows: model -> column -> value.
    """

    path: Path
    columns: tuple[str, ...]
    rows: Mapping[str, Mapping[str, Any]]

    def of(self, run: Run) -> Mapping[str, Any]:
        """Return the row of a run's model, named in full or by the last parts of its path; empty where there is none."""
        full = _full_name(run)
        for name in (run.model, full):
            if name in self.rows:
                return self.rows[name]
        endings = [name for name in self.rows if full.endswith("/" + name.strip("/"))]
        return self.rows[max(endings, key=len)] if endings else {}

    def number(self, run: Run, column: str) -> float | None:
        """Return a number of a run's model, or None where the file has none.

        Raises:
            NNDError: the value is not a finite number.
        """
        value = self.of(run).get(column)
        if value is None or value == "":
            return None
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise NNDError(f"{self.path}: {column} of {run.model} is {value!r}, which is not a number")
        return number

    def text(self, run: Run, column: str) -> str | None:
        """Return a text of a run's model, or None where the file has none."""
        value = self.of(run).get(column)
        return None if value is None or str(value).strip() == "" else str(value).strip()


def read_tags(path: str | Path) -> Tags:
    """Read a file of tags: per model its name, and columns such as ``family``, ``parameters``, ``step``, ``tokens``.

    Args:
        path: CSV or TSV with a header; or YAML or JSON that holds a list of objects with ``model``, or one object per model
            under its name.

    Raises:
        NNDError: the file cannot be read, a row names no model, or two rows name the same.
    """
    file = expand(path)
    readers = {".csv": _read_csv, ".tsv": _read_csv, ".json": _read_objects, ".yaml": _read_objects}
    readers[".yml"] = _read_objects
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise NNDError(f"{file}: tags are read from .csv, .tsv, .yaml, .yml or .json")
    rows: dict[str, Mapping[str, Any]] = {}
    for where, row in reader(file):
        name = row.get("model")
        if not isinstance(name, str) or not name.strip():
            raise NNDError(f"{file}, {where}: names no model; a column or key 'model' must")
        if name.strip() in rows:
            raise NNDError(f"{file}, {where}: {name.strip()} is there twice")
        rows[name.strip()] = {key: value for key, value in row.items() if key != "model"}
    if not rows:
        raise NNDError(f"{file}: holds no tags")
    return Tags(file, tuple(dict.fromkeys(key for row in rows.values() for key in row)), rows)


def _read_csv(file: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Return (place for errors, column -> text) of each row."""
    rows: list[tuple[str, Mapping[str, Any]]] = []
    lines = io.StringIO(read_text(file), newline="")
    reader = csv.reader(lines, delimiter="\t" if file.suffix.lower() == ".tsv" else ",", skipinitialspace=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise NNDError(
                    f"{file}, line {reader.line_num}: {counted(len(row), 'field')}, the header has {len(header)}"
                )
            cells = zip(header, (cell.strip() for cell in row), strict=True)
            rows.append((f"line {reader.line_num}", dict(cells)))
    except csv.Error as error:
        raise NNDError(f"{file}, line {reader.line_num}: {error}") from error
    return rows


def _read_objects(file: Path) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Return (place for errors, column -> value) of each object of a YAML or JSON file."""
    content = read_json(file) if file.suffix.lower() == ".json" else read_yaml(file)
    if isinstance(content, Mapping) and all(isinstance(value, Mapping) for value in content.values()):
        content = [{"model": str(name), **row} for name, row in content.items()]
    if not isinstance(content, list) or not all(isinstance(row, Mapping) for row in content):
        raise NNDError(f"{file}: is neither a list of objects with 'model' nor an object that has one per model")
    return [(f"entry {i}", {str(key): value for key, value in row.items()}) for i, row in enumerate(content, start=1)]


# ---------------------------------------------------------------- names


def _full_name(run: Run) -> str:
    return str(run.model_info.get("name") or run.model).replace("\\", "/").rstrip("/")


def _revision(run: Run) -> str:
    arguments = run.model_info.get("arguments")
    return str((arguments.get("revision") if isinstance(arguments, Mapping) else None) or "")


def guess_step(run: Run) -> float | None:
    """Return the training step that a model's revision or path names (``step-00620``, ``checkpoint-500``, ``step10k``)."""
    for part in (_revision(run), *reversed(_full_name(run).split("/"))):
        matches = _STEP.findall(part)
        if matches:
            number, unit = matches[-1]
            return float(number) * {"": 1, "k": 1_000, "m": 1_000_000}[unit.lower()]
    return None


def guess_training(run: Run) -> str:
    """Return the path of a model without the part that names a checkpoint; checkpoints of one training share it."""
    name = _full_name(run)
    if _STEP.search(_revision(run)):
        return name
    parts = name.split("/")
    for i in range(len(parts) - 1, -1, -1):
        if _STEP.search(parts[i]):
            rest = _STEP.sub("", parts[i]).strip("-_. ")
            return "/".join([*parts[:i], *([rest] if rest else [])])
    return name


def guess_family(run: Run) -> str:
    """Return the last part of a model's path without its size: ``pythia-deduped`` for ``pythia-70m-deduped``."""
    name = guess_training(run).rpartition("/")[2]
    for size in _SIZES:
        *_, last = [None, *size.finditer(name)]
        if last is not None:
            rest = (name[: last.start()] + name[last.end() :]).strip("-_. ")
            return rest or name
    return name


def find_family(run: Run, tags: Tags | None, guess: str = "") -> str:
    """Return the family of a model: from the tags, else ``guess``, else its name without its size."""
    given = tags.text(run, "family") if tags is not None else None
    return given or guess or guess_family(run)


def known_number(run: Run, x: str, tags: Tags | None) -> float | None:
    """Return a model's place on the x axis: from the tags, else as lm-eval counted it or the name says it; None if not known.

    Args:
        run: of the model.
        x: ``parameters``, ``step``, or a column of the tags.
        tags: what the user's file says.
    """
    given = tags.number(run, x) if tags is not None else None
    if given is not None:
        return given
    if x == PARAMETERS and run.parameters:
        return float(run.parameters)
    return guess_step(run) if x == STEP else None


def find_number(run: Run, x: str, tags: Tags | None) -> float:
    """Return what `known_number` does.

    Raises:
        NNDError: the place is not known, or the tags have no column ``x``.
    """
    number = known_number(run, x, tags)
    if number is not None:
        return number
    if x in (PARAMETERS, STEP):
        why = (
            "lm-eval did not count its parameters"
            if x == PARAMETERS
            else "neither its name nor its revision says a step"
        )
        raise NNDError(
            f"{run.model}: {why}; give the number with --tags FILE, a CSV file with the columns model and {x}"
        )
    if tags is None:
        raise NNDError(f"--x {x}: needs --tags FILE, a CSV file with the columns model and {x}")
    if x not in tags.columns:
        raise NNDError(f"{tags.path}: has no column {x!r} for --x; it has {', '.join(tags.columns) or 'none'}")
    raise NNDError(f"{tags.path}: gives no {x} for {run.model}; add a row with its name and {x}")
