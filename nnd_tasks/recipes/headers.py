"""The header of a CSV or TSV file, and which of its lines and cells are comments.

Publishers write comments with ``#``: in lines before the header, or in its last cell. But a name may begin with ``#`` too, as in
``#id`` or ``#votes``. What the rows hold decides, and nothing that has a value is taken for a comment.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from nnd_tasks.errors import NNDError
from nnd_tasks.recipes.cells import root, short_repr
from nnd_tasks.wording import counted

_COMMENTS = re.compile(r"(?:#[^\n]*\n|\r?\n)*")


@dataclass
class Header:
    """What the beginning of a file says of all its rows.

    Attributes:
        delimiter: what separates cells.
        quotes: whether quotes enclose cells.
        before: number of lines before the header.
        lines: number of lines of the header itself; more than one where a name contains a line break.
        names: names of the columns, without comments.
        width: number of cells that each row has; more than there are names where rows have empty cells below a comment.
        commented: whether cells of the header are comments.
        notes: what the user should know.
    """

    delimiter: str
    quotes: bool
    before: int = 0
    lines: int = 1
    names: list[str] = field(default_factory=list)
    width: int = 0
    commented: bool = False
    notes: list[str] = field(default_factory=list)

    def split(self, text: str | IO[str], *, strict: bool = False) -> Any:
        """Return a reader of Python's `csv` of some text, or of a file opened with ``newline=""``."""
        return csv.reader(
            io.StringIO(text, newline="") if isinstance(text, str) else text,
            delimiter=self.delimiter,
            quoting=csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE,
            strict=strict,
        )


def read_header(
    text: str, name: str, used: Collection[str], delimiter: str | None, quotes: bool | None, *, cut: bool
) -> Header:
    """Return the header of a table.

    Args:
        text: the beginning of the file.
        name: of the file, for an error.
        used: columns that the recipe names; a cell with such a name is no comment.
        delimiter: what separates cells; None finds it in the header.
        quotes: whether quotes enclose cells; None finds it in the text.
        cut: whether the last row of the text may be cut off.

    Raises:
        NNDError: there is no header of a table, or it has a name twice.
    """
    before = _comments(text, used, delimiter)
    rest = text[before:]
    line = rest.split("\n", 1)[0]
    header = Header(delimiter or _delimiter(line), True, text.count("\n", 0, before))
    row = header.before + 1
    if re.fullmatch(r"sep=.\s*", line, re.IGNORECASE):
        raise NNDError(f"{name}, row {row}: {line.strip()!r} is a line for Excel and no header; delete it")
    # In tab-separated files quotes often mean nothing. They do where every field that begins with one ends with one.
    header.quotes = quotes if quotes is not None else header.delimiter != "\t" or _is_quoted(rest)
    if text[:before].strip():
        header.notes.append(f"{counted(header.before, 'line')} before the header left out, as comments (#)")
    rows = header.split(rest)
    try:
        header.names = next(rows, [])
        header.lines, header.width = rows.line_num, len(header.names)
        while len(header.names) > 1 and not header.names[-1].strip():  # spreadsheets write commas after the last column
            header.names.pop()
        if header.names and _is_comment(header.names[-1]):
            _take_comments(header, rows, used, cut=cut)
    except csv.Error as error:
        raise NNDError(f"{name}, row {row}: no header of a table ({error})") from error
    seen: set[str] = set()
    for one in header.names:
        if one in seen:
            raise NNDError(
                f"{name}, row {row}: two columns are called {one!r}; rename one, or is it not the right file?"
            )
        seen.add(one)
    return header


def _is_comment(text: str) -> bool:
    return text.lstrip().startswith("#")


def _comments(text: str, used: Iterable[str], delimiter: str | None) -> int:
    """Return how many characters of comment lines stand before the header.

    The last line with ``#`` may be the header itself. It is if it has a column of the recipe and the line below has none; without
    any such column, if it has as many cells as the line below, which is then the first row.
    """
    match = _COMMENTS.match(text)
    end = match.end() if match else 0
    above = text[:end].rstrip("\r\n")
    if not above:
        return end
    start = above.rfind("\n") + 1
    delimiter = delimiter or _delimiter(above[start:])
    split = Header(delimiter, quotes=delimiter != "\t").split
    try:
        own, below = next(split(above[start:])), [cell.strip() for cell in next(split(text[end:]), [])]
    except csv.Error:
        return end
    names = {name for one in used for name in (one, root(one))}
    if names & {*below}:
        return end
    return start if not below or names & {*own} or 1 < len(own) == len(below) else end


def _delimiter(line: str) -> str:
    """Return what separates the cells of a header; spreadsheets of some countries write semicolons."""
    return max((",", ";", "\t"), key=re.sub(r'"[^"]*"', "", line).count)


def _take_comments(header: Header, reader: Iterable[Sequence[str]], used: Collection[str], *, cut: bool) -> None:
    """Take the comments at the end of a header out of its names: cells with ``#`` below which no row has a value."""
    rows: list[Sequence[str]] = []
    with suppress(csv.Error):  # reading the table will say what is wrong
        rows.extend(row for row in reader if any(row))
    if cut and len(rows) > 1:
        rows.pop()
    names = header.names
    comments: list[str] = []
    while len(names) > 1 and _is_comment(names[-1]) and names[-1] not in used:
        if any(len(row) >= len(names) and row[len(names) - 1].strip() for row in rows):
            break
        comments.insert(0, names.pop())
    if comments:
        header.commented = True
        header.width = min([header.width, *map(len, rows)])
        shown = ", ".join(map(short_repr, comments))
        header.notes.append(f"{shown} in the header taken for a comment, as rows have no value below it")


_QUOTED = re.compile(r'(?:^|[\t\n])"')
_QUOTED_WHOLE = re.compile(r'(?:^|(?<=[\t\n]))"(?:[^"]|"")*"(?=[\t\r\n]|$)')


def _is_quoted(text: str) -> bool:
    """Tell whether every field of tab-separated text that begins with a quote also ends with one."""
    starts = len(_QUOTED.findall(text))
    cut = len(text) >= 1 << 19  # the last field of a long file may be cut off
    return 0 < starts <= len(_QUOTED_WHOLE.findall(text)) + cut
