"""The tables of reports on results: tables.yaml says how their values are written, and what one has to know to read them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import yaml

from nnd_tasks.show.report import Table

_TABLES = yaml.safe_load(Path(__file__).with_name("tables.yaml").read_text("utf-8"))


def make_table(key: str, data: pd.DataFrame, **numbers: object) -> Table:
    """Make a table of tables.yaml.

    Args:
        key: of the table.
        data: a row per observation.
        numbers: for the fields of the caption.
    """
    table = _TABLES[key]
    return Table(table.get("name", key), data, table["columns"], table.get("caption", "").format(**numbers))
