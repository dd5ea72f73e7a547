"""The files that a set is made of, as its recipe names them: address, hash, place in an archive."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from nnd_tasks.store import is_name
from nnd_tasks.tables.cells import FILE
from nnd_tasks.tables.columns import Strict


def must_hold(test: Callable[[str], object], problem: str) -> AfterValidator:
    """Return a validator that refuses a text where ``test`` finds nothing."""

    def check(text: str) -> str:
        if not test(text):
            raise ValueError(f"{text!r} {problem}")
        return text

    return AfterValidator(check)


FileName: TypeAlias = Annotated[
    str,
    must_hold(
        re.compile(r"(?!\.)[^\\:*?\"<>|/\0-\x1f]+(/(?!\.)[^\\:*?\"<>|/\0-\x1f]+)*").fullmatch,
        "is not the name of a file in the folder or in one below it",
    ),
]
ConfigName: TypeAlias = Annotated[
    str,
    must_hold(
        lambda name: name in ("", FILE) or is_name(name), "is no config, which is named by letters, digits, _, - and ."
    ),
]


class File(Strict):
    """One file of a set, as its publisher names it.

    Attributes:
        url: https address.
        sha256: of the file. Without it, the hash of the first download is recorded and checked from then on.
        member: path in the archive behind ``url``: ``2024/ratings.csv``.
        config: the config that the file makes: ``sxs2023_ende``.
        optional: whether the set can be built without the file.
    """

    url: Annotated[
        str,
        must_hold(
            re.compile("(https://[^/@?#]+([/?#].*)?)?").fullmatch, "is no https:// address without a user or password"
        ),
    ] = ""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    member: str = ""
    config: ConfigName = ""
    optional: bool = False


@dataclass(frozen=True)
class Wanted:
    """The files that a set is made of.

    Attributes:
        name: of the set.
        folder: of its recipe.
        origin: of its recipe (`RecipeFile`).
        files: name -> what the recipe says of the file, if it says anything.
        any_table: whether tables that the recipe does not name belong to the set too.
    """

    name: str
    folder: Path
    origin: str
    files: Mapping[str, File | None]
    any_table: bool = False
