"""A model's family and its place on an x axis: from a file of tags, or guessed from its name."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nnd_tasks.analysis.results import Run
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.sets.read import read_table
from nnd_tasks.sets.recipe import KEY, Recipe

PARAMETERS = "parameters"
STEP = "step"

#: A part of a path, or the end of one.
_STEP = re.compile(r"(?:^|[-_./])(?:(?:global_?)?step|checkpoint)-?(\d+)(?=$|[-/])", re.IGNORECASE)
#: In numbers (70m, 1.3B, 1b1, 8x7B) or words. A word at the beginning of the name is part of the family (tiny-lm).
_SIZE = re.compile(
    r"[-_](?:(?:\d+x)?\d+(?:\.\d+)?[kmbt]\d?|x*s|m|x*l|nano|tiny|mini|small|base|medium|large|huge)(?=$|-)",
    re.IGNORECASE,
)


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
        """Return what the file says of a run's model, named in full or by the last parts of its path; None where nothing is."""
        full = f"/{_full_name(run)}"
        names = [name for name in self.table.index if name == run.model or full.endswith(f"/{name}")]
        value = self.table.at[max(names, key=len), column] if names and column in self.table else None
        return None if pd.isna(value) else str(value).strip() or None

    def number(self, run: Run, column: str) -> float | None:
        """Return a number of a run's model, None where the file has none; raise NNDError where it is not a finite number."""
        text = self.text(run, column)
        number = None if text is None else pd.to_numeric(text, errors="coerce")
        if number is not None and not math.isfinite(number):
            raise NNDError(f"{self.path}: {column} of {run.model} is {text!r}, which is not a number")
        return number


def read_tags(path: str | Path) -> Tags:
    """Read a file of tags: per model its name, and columns such as ``family``, ``parameters``, ``step``, ``tokens``.

    Args:
        path: any table that `nnd_tasks.sets.read.read_table` reads, such as CSV; or JSON that holds a list of objects with
            ``model``, or one object per model under its name.

    Raises:
        NNDError: the file cannot be read, a row names no model, or two rows name the same.
    """
    file = expand(path)
    table = read_table(file, Recipe(files={}))
    names = table.get("model", table.get(KEY))
    if names is None or not names.astype(bool).all():
        raise NNDError(f"{file}: each row must name a model, in a column or key 'model'")
    names = names.astype(str).str.strip()
    if names.duplicated().any():
        raise NNDError(f"{file}: {names[names.duplicated()].iloc[0]} is there twice")
    return Tags(file, table.set_index(names))


# ---------------------------------------------------------------- names


def _full_name(run: Run) -> str:
    return str(run.model_info.get("name") or run.model).replace("\\", "/").rstrip("/")


def guess_step(run: Run) -> float | None:
    """Return the training step that a model's revision or path names (``step1000-tokens4B``, ``checkpoint-500``)."""
    found = _STEP.search(str((run.model_info.get("arguments") or {}).get("revision"))) or _STEP.search(_full_name(run))
    return float(found[1]) if found else None


def guess_training(run: Run) -> str:
    """Return the path of a model without the part that names a checkpoint; checkpoints of one training share it."""
    return _STEP.sub("", _full_name(run))


def guess_family(run: Run) -> str:
    """Return the last part of a model's path without its size: ``pythia-deduped`` for ``pythia-70m-deduped``."""
    return _SIZE.sub("", guess_training(run).rpartition("/")[2])


def find_family(run: Run, tags: Tags | None, guess: str = "") -> str:
    """Return the family of a model: from the tags, else ``guess``, else its name without its size."""
    return (tags and tags.text(run, "family")) or guess or guess_family(run)


def known_number(run: Run, x: str, tags: Tags | None) -> float | None:
    """Return a model's place on the x axis: from the tags, else as lm-eval counted it or the name says it; None if not known.

    Args:
        run: of the model.
        x: ``parameters``, ``step``, or a column of the tags.
        tags: what the user's file says.
    """
    given = tags.number(run, x) if tags else None
    return given if given is not None else {PARAMETERS: run.parameters, STEP: guess_step(run)}.get(x)


def find_number(run: Run, x: str, tags: Tags | None) -> float:
    """Return what `known_number` does; raise NNDError where it is not known."""
    number = known_number(run, x, tags)
    if number is None:
        raise NNDError(
            f"{x} of {run.model} is not known; give it with --tags FILE, a CSV file with the columns model and {x}"
        )
    return number
