"""What a source is, and readers that name the file, row and column at fault."""

from __future__ import annotations

import csv
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from nnd_tasks.errors import NNDError
from nnd_tasks.pairing import Shape
from nnd_tasks.schema import Annotation

MAX_BYTES = 1 << 30  # a human evaluation of more than 1 GiB is some other file


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file as its publisher names it.

    Attributes:
        name: file name, looked for in the folder given with ``--source``.
        url: where it is downloaded from.
        sha256: its content, 64 hex digits; None where no copy of the original was at hand to pin.
        required: whether building works only with it.
        member: path inside the archive behind ``url``, for a file that comes in a zip; it needs ``sha256``.
    """

    name: str
    url: str = ""
    sha256: str | None = None
    required: bool = True
    member: str = ""


class Source(ABC):
    """One human evaluation: where it is, what it may be used for, and how its file maps to annotations.

    Class attributes are what `nnd list` and the dataset card say; subclasses set them and implement `read`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]  #: one or two sentences: who judged what, and the pairing rule
    kind: ClassVar[str]  #: what a model is asked to do, in words
    licence: ClassVar[str]  #: SPDX identifier, lower case, as the hub's cards want it
    licence_note: ClassVar[str] = ""
    homepage: ClassVar[str]  #: "" for our own
    citation: ClassVar[str]  #: BibTeX of the human evaluation
    task_category: ClassVar[str]  #: the hub's task category
    categories: ClassVar[tuple[str, ...]]  #: of the curated configs, for `nnd list`
    fields: ClassVar[Mapping[str, str]] = {}  #: prompt fields besides `context`: name -> what it holds
    files: ClassVar[tuple[SourceFile, ...]] = ()
    shape: ClassVar[Shape]
    default_config: ClassVar[str] = "authors"
    options: ClassVar[Mapping[str, tuple[str, str]]] = {}  #: option -> (default, help)
    published: ClassVar[Mapping[str, int]] = {}  #: config -> number of tests in the authors' release

    left_out_note: ClassVar[str] = ""  #: what the annotations are that its shape leaves out, where a user should know
    mended_note: ClassVar[str] = ""  #: what `mended` changes and leaves out, for the card

    @abstractmethod
    def read(self, files: Mapping[str, Path], options: Mapping[str, str]) -> dict[str, Iterable[Annotation]]:
        """Return the annotations of every config that ``files`` hold, in the order of the source.

        Args:
            files: file name -> where it is.
            options: every option of the source, defaults filled in.

        Raises:
            NNDError: a file is not in the publisher's format.
        """

    def mended(self, annotation: Annotation) -> Annotation | None:
        """Return an annotation as the clean config takes it, None to leave it out there; most sources mend nothing."""
        return annotation

    def languages(self, configs: Iterable[str]) -> list[str]:
        """Return the language codes of ``configs`` for the card."""
        return ["en"]

    def locate(self, source: Path) -> dict[str, Path]:
        """Find the source's files in ``source``, a file or a folder.

        Raises:
            NNDError: it does not exist, or a required file is missing.
        """
        if not source.exists():
            raise NNDError(f"{source}: no such file or folder")
        required = [file for file in self.files if file.required]
        if source.is_file():
            names = [file.name for file in self.files]
            if source.name in names and (not required or source.name in [file.name for file in required]):
                return {source.name: source, **self._beside(source)}
            if source.name not in names and len(required) == 1:  # a renamed copy
                return {required[0].name: source}
            wanted = " or ".join(file.name for file in required or self.files)
            raise NNDError(f"{source}: set {self.name} is built from {wanted}; name that file, or its folder")
        found = {}
        for file in self.files:
            for place in (source / file.name, source / self.name / file.name):
                if place.is_file():
                    found[file.name] = place
                    break
        missing = [file.name for file in required if file.name not in found]
        if missing:
            raise NNDError(f"{source}: set {self.name} needs {' and '.join(missing)} there, or in {self.name}/")
        return found

    def _beside(self, source: Path) -> dict[str, Path]:
        """Return optional files that lie in the same folder as ``source``."""
        optional = {f.name: source.parent / f.name for f in self.files if not f.required and f.name != source.name}
        return {name: path for name, path in optional.items() if path.is_file()}


# ---------------------------------------------------------------- readers


class Record:
    """A mapping read from a file.

    Its accessors raise NNDError, with the place, when a field is missing or is not what they return.
    """

    __slots__ = ("_data", "where")

    def __init__(self, data: Any, where: str) -> None:
        """Wrap ``data``; raise NNDError when it is no mapping."""
        if not isinstance(data, Mapping):
            raise NNDError(f"{where}: expected an object with named fields, found {_kind(data)}")
        self._data = data
        self.where = where

    def __contains__(self, name: str) -> bool:
        """Tell whether the field exists."""
        return name in self._data

    def get(self, name: str) -> Any:
        """Return the raw value of a field that must exist."""
        try:
            return self._data[name]
        except KeyError:
            known = ", ".join(map(str, list(self._data)[:12]))
            raise NNDError(f"{self.where}: field {name!r} is missing (found: {known}); is it the right file?") from None

    def text(self, name: str) -> str:
        """Return a string field."""
        return check_text(self.get(name), f"{self.where}, field {name!r}")

    def label(self, name: str) -> str:
        """Return a string field that says something."""
        text = self.text(name)
        if not text:
            raise NNDError(f"{self.where}, field {name!r}: it is empty")
        return text

    def identifier(self, name: str) -> str:
        """Return a field that names something, a string or an integer, as a string."""
        value = self.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.text(name)

    def number(self, name: str) -> float:
        """Return a finite number, also when it is written as text."""
        value = self.get(name)
        try:
            if isinstance(value, bool) or not isinstance(value, (int, float, str)):
                raise ValueError
            result = float(value)
            if not math.isfinite(result):
                raise ValueError
        except (ValueError, OverflowError):
            raise NNDError(f"{self.where}, field {name!r}: expected a number, found {_show(value)}") from None
        return result

    def items(self, name: str) -> list[Any]:
        """Return a list field."""
        value = self.get(name)
        if not isinstance(value, list):
            raise NNDError(f"{self.where}, field {name!r}: expected a list, found {_kind(value)}")
        return value

    def records(self, name: str) -> list[Record]:
        """Return a list field whose elements are mappings."""
        return [Record(item, f"{self.where}, {name}[{i}]") for i, item in enumerate(self.items(name))]

    def record(self, name: str) -> Record:
        """Return a field that is a mapping."""
        return Record(self.get(name), f"{self.where}, field {name!r}")

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields."""
        yield from self._data.items()


def check_text(value: Any, where: str) -> str:
    """Return ``value`` when it is a string that can be stored; raise NNDError otherwise."""
    if not isinstance(value, str):
        raise NNDError(f"{where}: expected text, found {_kind(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NNDError(f"{where}: it holds half a surrogate pair at character {error.start}") from None
    return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true/false", int: "a number", float: "a number"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def read_text(path: Path) -> str:
    """Return a UTF-8 file's text, line ends as they are, a byte order mark removed.

    Raises:
        NNDError: it cannot be read, is empty, too large or not UTF-8.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise NNDError(f"{path}: larger than {MAX_BYTES >> 20} MiB, this cannot be the annotation file")
        data = path.read_bytes()
    except OSError as error:
        raise NNDError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not data.strip():
        raise NNDError(f"{path}: the file is empty")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise NNDError(f"{path}, line {line}: not UTF-8 text (byte {error.start}); is it the right file?") from None


def _parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise NNDError(f"{where}: JSON nested too deeply; is it the right file?") from None
    except ValueError as error:
        raise NNDError(f"{where}: not valid JSON ({error}); is it the right file?") from None


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; raise NNDError when it cannot be read or is no JSON."""
    return _parse_json(read_text(path), str(path))


def read_jsonl(path: Path) -> Iterator[Record]:
    """Yield a record per line of a JSON Lines file; blank lines are skipped.

    Raises:
        NNDError: the file cannot be read, or a line is no JSON object.
    """
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            yield Record(_parse_json(line, where), where)


def read_csv(path: Path, columns: Iterable[str], delimiter: str = ",") -> Iterator[Record]:
    """Yield a record per row of a quoted table whose header must have ``columns``.

    Rows are counted from 1 for the header, as spreadsheets do.

    Raises:
        NNDError: the file cannot be read, lacks a column, or a row is shorter than the header.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), delimiter=delimiter, strict=True)
    yield from _table(path, reader, columns)


def read_plain_tsv(path: Path, columns: Iterable[str]) -> Iterator[Record]:
    """Yield a record per line of a tab-separated file in which quotes mean nothing.

    A line with more fields than the header has keeps those that the header names. A cell at the end of the header that
    begins with ``#`` is a comment, no column.

    Raises:
        NNDError: the file cannot be read, lacks a column, or a line is shorter than the header.
    """
    lines = (line.removesuffix("\r").split("\t") for line in read_text(path).split("\n"))
    header = next(lines)
    while header and header[-1].lstrip().startswith("#"):
        header.pop()
    yield from _table(path, chain([header], lines), columns)


def _table(path: Path, rows: Iterable[list[str]], columns: Iterable[str]) -> Iterator[Record]:
    iterator = enumerate(rows, start=1)
    number = 1
    try:
        _, header = next(iterator, (1, []))
        missing = [name for name in columns if name not in header]
        if missing:
            raise NNDError(
                f"{path}, row 1: no column {missing[0]!r}; this is not the file that is wanted "
                f"(columns found: {_show(', '.join(header))})"
            )
        for number, row in iterator:
            if not any(row):
                continue
            if len(row) < len(header):
                raise NNDError(f"{path}, row {number}: {len(row)} columns, the header has {len(header)}")
            yield Record(dict(zip(header, row, strict=False)), f"{path}, row {number}")
    except csv.Error as error:
        raise NNDError(f"{path}, row {number + 1}: not a valid table ({error}); is it the right file?") from None
