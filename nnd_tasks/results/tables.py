"""The tables of reports: tables.yaml of a room says how their values are written, and what one has to know to read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from nnd_tasks.show.report import Cell, Table

#: Table -> ``columns`` (but for baselines), and where it has them ``name`` and ``caption``; those of all rooms.
TABLES: dict[str, dict[str, Any]] = {
    key: table
    for path in sorted(Path(__file__).parents[1].glob("*/tables.yaml"))
    for key, table in yaml.safe_load(path.read_text("utf-8")).items()
}


def make_table(key: str, data: pd.DataFrame, columns: Mapping[str, Cell] | None = None, **numbers: object) -> Table:
    """Make a table of a tables.yaml.

    Args:
        key: of the table.
        data: a row per observation.
        columns: in the place of those of tables.yaml.
        numbers: for the fields of the caption.
    """
    table = TABLES[key]
    return Table(table.get("name", key), data, columns or table["columns"], table.get("caption", "").format(**numbers))
