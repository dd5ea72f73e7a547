"""Small dataset folders, and what is in them and beside them."""

import struct

import pyarrow as pa

from nnd_tasks.schema import check_table
from nnd_tasks.sets.recipe import Facts
from nnd_tasks.sets.write import CardFacts, write_dataset


def to_table(rows):
    """Return tests as a table in the types of the schema."""
    return check_table(pa.Table.from_pylist(list(rows)), "a test")


def make(n=3, mark="", **values):
    """Return ``n`` tests over two clusters."""
    return [
        {
            "test_id": f"{mark}t{i}",
            "context_id": f"c{i}",
            "cluster_id": f"k{i % 2}",
            "context": f"text {i % 2}\n",
            "high": f" good {mark}é",
            "low": f"bad {i}",
            "category": "Common Sense" if i % 3 else "Entity",
            "high_first": i % 2 == 0,
            **values,
        }
        for i in range(n)
    ]


def write(folder, tables=None, name="demo", **more):
    """Write with a card of few facts; one config ``authors`` unless told."""
    tables = {"authors": to_table(make())} if tables is None else tables
    reports = {config: {} for config in tables}
    return write_dataset(
        folder, tables, **{"card_facts": CardFacts(name, Facts()), "report": reports, "default": "authors", **more}
    )


def contents(folder):
    """Return every file below ``folder`` with its bytes (None for folders)."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def beside(folder):
    """List what lies in the parent of ``folder`` besides it."""
    return {path.name for path in folder.parent.iterdir()} - {folder.name}


def parquet(folder):
    return folder / "authors" / "test-00000-of-00001.parquet"


def not_utf8(column):
    """Return a column of strings whose bytes are no UTF-8."""
    data = b"\xff" * len(column)
    offsets = struct.pack(f"<{len(column) + 1}i", *range(len(column) + 1))
    return pa.StringArray.from_buffers(len(column), pa.py_buffer(offsets), pa.py_buffer(data))
