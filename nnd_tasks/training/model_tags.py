"""What names say of models: families, sizes and steps; and a file of tags where they do not."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.results.runs import Run
from nnd_tasks.tables.cells import KEY
from nnd_tasks.tables.columns import Columns
from nnd_tasks.tables.read import read_table

#: What rates may stand against.
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


# ---------------------------------------------------------------- a file of tags


@dataclass(frozen=True)
class Tags:
    """What a user's file says about models.

    Attributes:
        path: of the file.
        table: one row per model, whose name is the index.
    """

    path: Path
    table: pd.DataFrame

    def text(self, run: Run, column: str) -> str | None:
        """What the file says of a run's model, named in full or by the last parts of its path; None where nothing is said."""
        names = [name for name in self.table.index if f"/{full_name(run)}".endswith(f"/{name.strip('/')}")]
        names = [run.model] if run.model in self.table.index else sorted(names, key=len)[-1:]
        if not names or column not in self.table:
            return None
        value = self.table.at[names[0], column]
        return None if pd.isna(value) else str(value).strip() or None

    def number(self, run: Run, column: str) -> float | None:
        """A number of a run's model, None where the file has none; raise NNDError where it is not a finite number."""
        text = self.text(run, column)
        if text is None:
            return None
        with suppress(ValueError):
            number = float(text)
            if math.isfinite(number):
                return number
        raise NNDError(f"{self.path}: {column} of {run.model} is {text!r}, which is not a number")


def read_tags(path: str | Path) -> Tags:
    """Read a file of tags: per model its name, and columns such as ``family``, ``parameters``, ``step``, ``tokens``.

    Args:
        path: any table that `nnd_tasks.tables.read.read_table` reads, such as CSV; or JSON that holds a list of objects with
            ``model``, or one object per model under its name.

    Raises:
        NNDError: the file cannot be read, a row names no model, or two rows name the same.
    """
    file = expand(path)
    table = read_table(file, Columns())
    names = table.get("model", table.get(KEY))
    if names is None or not names.astype(bool).all():
        raise NNDError(f"{file}: each row must name a model, in a column or key 'model'")
    names = names.astype(str).str.strip()
    if names.duplicated().any():
        raise NNDError(f"{file}: {names[names.duplicated()].iloc[0]} is there twice")
    return Tags(file, table.set_index(names))


# ---------------------------------------------------------------- families, sizes and steps


def full_name(run: Run) -> str:
    """Give the path or name of a run's model, with slashes."""
    return str(run.model_info.get("name") or run.model).replace("\\", "/").rstrip("/")


def _revision(run: Run) -> str:
    """The revision of a model where it names a step."""
    revision = str((run.model_info.get("arguments") or {}).get("revision"))
    return revision if _STEP.search(revision) else ""


def guess_step(run: Run) -> float | None:
    """Guess the training step that a model's revision or path names (``step-00620``, ``checkpoint-500``, ``step10k``)."""
    steps = _STEP.findall(_revision(run) or full_name(run))
    if not steps:
        return None
    number, unit = steps[-1]
    return float(number) * {"": 1, "k": 1_000, "m": 1_000_000}[unit.lower()]


def guess_training(run: Run) -> str:
    """The path of a model without the part that names a checkpoint; checkpoints of one training share it."""
    name = full_name(run)
    *_, last = [None, *_STEP.finditer(name)]
    if last is None or _revision(run):
        return name
    return (name[: last.start()] + name[last.end() :].partition("/")[0]).rstrip("-_./ ")


def guess_family(run: Run) -> str:
    """The last part of a model's path without its size: ``pythia-deduped`` for ``pythia-70m-deduped``."""
    name = guess_training(run).rpartition("/")[2]
    for size in _SIZES:
        *_, last = [None, *size.finditer(name)]
        if last is not None:
            return (name[: last.start()] + name[last.end() :]).strip("-_. ") or name
    return name


def find_family(run: Run, tags: Tags | None, guess: str = "") -> str:
    """Look up the family of a model: in the tags, else ``guess``, else its name without its size."""
    return (tags and tags.text(run, "family")) or guess or guess_family(run)


def known_number(run: Run, x: str, tags: Tags | None) -> float | None:
    """Look up a model's place on the x axis: in the tags, else as lm-eval counted it or the name says it; None if not known.

    Args:
        run: of the model.
        x: ``parameters``, ``step``, or a column of the tags.
        tags: what the user's file says.
    """
    number = tags.number(run, x) if tags is not None else None
    if number is None and x == PARAMETERS:
        return run.parameters
    return guess_step(run) if number is None and x == STEP else number
