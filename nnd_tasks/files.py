"""Files: written whole or not at all, read with a bound and one clear error.

A file is written under a temporary name beside its target and renamed when it is complete, so that an interruption or a
full disk leaves the earlier file. Files that are read may come from a stranger: only regular files of bounded size are
taken, and no YAML whose few bytes unfold to gigabytes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from nnd_tasks.errors import NNDError, reason_of

#: Bytes that a configuration file (YAML, JSON, a card) may have; the largest of ours has 20 kB.
MAX_CONFIG_BYTES = 5_000_000
#: How deeply lists and mappings may be nested in a YAML or JSON file.
MAX_DEPTH = 100
#: How many parts a YAML file may have: keys, values, beginnings and ends of lists and mappings.
MAX_VALUES = 500_000
_MAX_DIGITS = 1000  # that a number in YAML may have


def expand(path: str | Path) -> Path:
    """Return ``path`` with ``~`` replaced by the home directory.

    Raises:
        NNDError: it names an unknown user, or its symbolic links form a loop.
    """
    try:
        place = Path(path).expanduser()
    except RuntimeError as error:
        raise NNDError(f"{path}: the home directory that it names is not known") from error
    try:
        place.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NNDError(f"{path}: its symbolic links form a loop; name another place") from error
    except ValueError:  # a NUL in the name: opening the file will raise an error for it
        pass
    return place


# ---------------------------------------------------------------- errors


@contextmanager
def reading(path: object) -> Iterator[None]:
    """Turn what goes wrong while the block reads ``path`` into one error that names it.

    Raises:
        NNDError: the block raised an `OSError`, or a `ValueError` (no UTF-8, a NUL in the name).
    """
    try:
        yield
    except (OSError, ValueError) as error:
        raise NNDError(f"{path}: cannot be read ({reason_of(error)})") from error


@contextmanager
def changing(place: object, *, hint: str = "", done: str = "written") -> Iterator[None]:
    """Turn what goes wrong while the block changes files or folders into one error that names them.

    Args:
        place: what is changed, as the error names it.
        hint: ends the error: what the user can do.
        done: what could not be done: ``written``, ``removed``, ``replaced``.

    Raises:
        NNDError: the block raised an `OSError`, such as for a lack of permission or a full disk.
    """
    try:
        yield
    except OSError as error:
        raise NNDError(f"{place}: cannot be {done} ({reason_of(error)}){f'; {hint}' if hint else ''}") from error


# ---------------------------------------------------------------- writing


def umask() -> int:
    """Return the process's file mode creation mask."""
    try:  # Linux: without changing it, which other threads would notice
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    except (OSError, ValueError, IndexError):
        pass
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextmanager
def writing(path: Path, *, hint: str = "") -> Iterator[Path]:
    """Yield a new, empty file beside ``path`` that takes its place when the block ends, and is removed when it fails.

    Args:
        path: the file to write; its folder is made.
        hint: ends the error: what the user can do.

    Raises:
        NNDError: it cannot be written (no permission, a full disk, a folder of that name).
    """
    with writing_all([path], hint=hint) as (new,):
        yield new


@contextmanager
def writing_all(paths: Iterable[Path], *, hint: str = "") -> Iterator[list[Path]]:
    """Yield a new, empty file beside each path; all take their places when the block ends, or none does.

    Args:
        paths: the files to write; their folders are made.
        hint: ends the error: what the user can do.

    Raises:
        NNDError: one cannot be written; the earlier files stay.
    """
    targets = list(paths)
    files: list[Path] = []
    current = Path()
    try:
        for target in targets:
            current = target
            if target.is_dir():
                raise IsADirectoryError(0, "is a folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            # The ending stays, as libraries choose a format by it (matplotlib).
            handle, name = tempfile.mkstemp(prefix=f".{target.stem[:100]}.", suffix=target.suffix, dir=target.parent)
            os.close(handle)
            files.append(Path(name))
            files[-1].chmod(0o666 & ~umask())  # mkstemp makes it private
        current = targets[0] if len(targets) == 1 else targets[0].parent
        yield files
        for file in files:
            with file.open("rb") as written:
                os.fsync(written.fileno())  # some systems report a full disk only here
        for current, file in zip(targets, files, strict=True):
            file.replace(current)
    except OSError as error:
        where = f"{current}: " if current.name else ""
        raise NNDError(f"{where}cannot be written ({reason_of(error)}){f'; {hint}' if hint else ''}") from error
    finally:
        for file in files:
            with suppress(OSError):
                file.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, hint: str = "") -> None:
    """Write a text file as UTF-8, whole or not at all; raises as `writing` does."""
    with writing(path, hint=hint) as new:
        new.write_text(text, encoding="utf-8")


def write_texts(files: Mapping[Path, str], *, hint: str = "") -> None:
    """Write several text files as UTF-8, all or none; raises as `writing_all` does."""
    with writing_all(files, hint=hint) as new:
        for path, text in zip(new, files.values(), strict=True):
            path.write_text(text, encoding="utf-8")


#: Characters that JSON allows in a string and YAML refuses or reads as a line break; wrongly decoded text is full of them.
_NO_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def yaml_mapping(fields: Mapping[str, Any]) -> str:
    """Return plain data as YAML, one key per line.

    Raises:
        NNDError: reading the YAML would not give the same data.
    """
    lines = []
    for key, value in fields.items():
        # JSON strings are YAML strings, and keep their line breaks readable.
        shown = _NO_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(value, ensure_ascii=False))
        lines.append(f"{key}: {shown}\n")
    text = "".join(lines)
    check_yaml(text, fields)
    return text


def check_yaml(text: str, value: Any) -> None:
    """Raise NNDError for a YAML text that does not give ``value`` when it is read."""
    if parse_yaml(text, "YAML to be written") != value:
        raise NNDError(
            "YAML to be written: reading it gives something else; a name in it holds characters that YAML changes"
        )


# ---------------------------------------------------------------- reading


def read_bytes(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> bytes:
    """Return the content of a regular file.

    Args:
        path: the file; a device, a FIFO or a socket is refused, as reading it may never end.
        limit: bytes that it may have.

    Raises:
        NNDError: it is absent, no regular file, too large or unreadable.
    """
    with reading(path):
        # O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise NNDError(f"{path}: is not a regular file")
            content = file.read(limit + 1)
    if len(content) > limit:
        raise NNDError(f"{path}: is larger than {limit / 1e6:,.0f} MB, which is more than such a file should have")
    return content


def read_text(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> str:
    """Return a UTF-8 text file; raises as `read_bytes` does, and where it is not UTF-8."""
    content = read_bytes(path, limit=limit)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NNDError(f"{path}: is not UTF-8 (byte {error.start:,}); save it as UTF-8") from error


def seems_to_be(content: bytes) -> str:
    """Return a hint for bytes that are not UTF-8: their likely encoding, and how to save them as UTF-8."""
    start = content[: 1 << 16]
    even, odd = start[::2].count(0), start[1::2].count(0)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or max(even, odd) > len(start) // 8:
        return _SAVE.format(
            "UTF-16", "UTF-16" if start[:1] in b"\xff\xfe" else "UTF-16LE" if odd > even else "UTF-16BE"
        )
    high = sum(byte > 127 for byte in start)
    if high > len(start) // 4 or any(byte in start for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)):
        return "save it as UTF-8; a spreadsheet calls that CSV UTF-8"  # cp1251, GBK, Shift JIS, ...: they cannot be told apart
    return _SAVE.format("Windows-1252 (as Excel saves CSV)", "WINDOWS-1252")


_SAVE = (
    "it seems to be {}; save it as UTF-8 (a spreadsheet calls that CSV UTF-8), or run: iconv -f {} -t UTF-8 FILE > NEW"
)


def read_json(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> Any:
    """Return what a JSON file holds; raises as `read_text` does, and where it is not JSON."""
    return parse_json(read_text(path, limit=limit), str(path))


def load_json(text: str, where: str, *, hint: str = "") -> Any:
    """Return what a JSON text holds; a text in it may hold half of a character (a lone surrogate).

    Raises:
        NNDError: no valid JSON, or nested too deeply; begins with ``where`` and ends with ``hint``.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise NNDError(f"{where}: its lists and objects are nested too deeply to be read{hint}") from error
    except ValueError as error:
        raise NNDError(f"{where}: is not valid JSON ({reason_of(error)}){hint}") from error


def json_lines(
    lines: Iterable[str], source: str, *, hint: str = "", skip_blank: bool = False
) -> Iterator[tuple[str, str, Any]]:
    """Yield the place (``FILE, line 3``), the text and the value of each line of JSON Lines.

    Args:
        lines: a file opened as text, or its lines; only line feeds end a line, as strings may hold other line breaks.
        source: the file's name; begins each place.
        hint: ends errors.
        skip_blank: leave out lines without any text, which are no JSON; they are counted.

    Raises:
        NNDError: a line is not valid JSON, or nested too deeply; the error names the place.
    """
    for number, line in enumerate(lines, start=1):
        if skip_blank and not line.strip():
            continue
        where = f"{source}, line {number}"
        yield where, line, load_json(line, where, hint=hint)


def parse_json(text: str, where: str) -> Any:
    """Return what a JSON text holds; raises as `load_json` and `check_json` do."""
    value = load_json(text, where)
    check_json(value, text, where)
    return value


#: A surrogate as JSON escapes it. A pair of them is a character beyond U+FFFF; one alone is half a character.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def check_json(content: Any, text: str, where: str) -> None:
    """Refuse JSON that `json.loads` accepts, but that later steps, such as writing it again, cannot handle.

    Args:
        content: what the JSON holds.
        text: the JSON itself; a glance at it shows that most need no closer check.
        where: begins the error.

    Raises:
        NNDError: it is nested deeper than `MAX_DEPTH`, or holds half of a character.
    """
    if text.count("[") + text.count("{") > MAX_DEPTH:
        level: list[Any] = [[content]]  # in a list, as the content may be a bare text or number
        for _ in range(MAX_DEPTH + 1):
            inner = (value.values() if isinstance(value, dict) else value for value in level)
            level = [value for values in inner for value in values if isinstance(value, (dict, list))]
        if level:
            raise NNDError(f"{where}: its lists and objects are nested deeper than {MAX_DEPTH} levels")
    if _HALF.search(text):
        try:
            json.dumps(content, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            raise NNDError(f"{where}: a text in it holds half of a character (a lone surrogate); correct it") from error


if TYPE_CHECKING:
    from yaml import SafeLoader as _Loader
else:  # libyaml is ten times faster; neither loader creates Python objects
    _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class PlainLoader(_Loader):
    """The loader of `parse_yaml`; subclass it to read more tags."""


class UniqueLoader(PlainLoader):
    """A loader for `parse_yaml` that refuses a mapping with the same key twice; YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping; raise a YAMLError where a key is repeated."""
        known: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in known:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            known.add(str(key.value))
        return super().construct_mapping(node, deep=deep)


def _number(kind: str) -> Callable[[PlainLoader, yaml.ScalarNode], Any]:
    make = yaml.SafeLoader.yaml_constructors[f"tag:yaml.org,2002:{kind}"]

    def number(loader: PlainLoader, node: yaml.ScalarNode) -> Any:
        if len(node.value) > _MAX_DIGITS:  # those between colons, as in 1:30:00, take quadratic time
            raise yaml.constructor.ConstructorError(None, None, "a number is too long", node.start_mark)
        return make(loader, node)

    return number


for _kind in ("int", "float"):
    PlainLoader.add_constructor(f"tag:yaml.org,2002:{_kind}", _number(_kind))


def _check_plain(text: str, loader: type[PlainLoader]) -> None:
    """Raise a YAMLError for aliases, deep nesting or too many values: 835 bytes of aliases can unfold to fill the memory."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=loader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        problem = ""
        if isinstance(event, yaml.AliasEvent):
            problem = f"the alias *{event.anchor} is not allowed here; write the value out"
        elif depth > MAX_DEPTH:
            problem = f"nested deeper than {MAX_DEPTH} levels"
        elif count > MAX_VALUES:
            problem = f"more than {MAX_VALUES:,} values"
        if problem:
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)  # type: ignore[arg-type]


def read_yaml(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> Any:
    """Return what a YAML file holds; raises as `read_text` and `parse_yaml` do."""
    return parse_yaml(read_text(path, limit=limit), str(path))


def parse_yaml(text: str, where: str, loader: type[PlainLoader] = PlainLoader) -> Any:
    """Return what a YAML text holds; plain data only: no tags of Python, no aliases, bounded depth and count.

    Raises:
        NNDError: no valid YAML, with an alias, nested too deeply or too long; begins with ``where`` and names the line.
    """
    try:
        _check_plain(text, loader)
        made = loader(text)
        try:
            return made.get_single_data()
        finally:
            made.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or reason_of(error)
        line = f" in line {mark.line + 1}" if mark else ""
        raise NNDError(f"{where}: is not YAML that can be read here ({problem}{line})") from error
    except (ValueError, RecursionError, TypeError) as error:  # dates such as 2022-13-41, keys that are lists
        raise NNDError(f"{where}: is not YAML that can be read here ({reason_of(error)})") from error
