"""The table of a set that a run was scored on, for what samples do not say, such as who wrote the texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import fingerprint
from nnd_tasks.store import find_dataset, read_table


def table_of(protocol: Mapping[str, Any]) -> pa.Table | None:
    """Return the tests of the set that a signature names; None where it is not built here, or built from other data.

    Args:
        protocol: ``set``, ``config`` and ``data`` (the fingerprint) from the signature of a run.
    """
    name, config, data = (str(protocol.get(key, "")) for key in ("set", "config", "data"))
    try:
        folder = find_dataset(name)
        table = None if folder is None else read_table(folder, config or None)
    except (NNDError, OSError, ValueError):  # the name, which a stranger may have written, may be no path at all
        return None
    return table if table is not None and fingerprint(table) == data else None
