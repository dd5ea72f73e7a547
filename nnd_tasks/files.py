"""Files and folders: written as a whole or not at all, read with a bound and one clear error; text, YAML and JSON.

A file is written under a temporary name beside its target and renamed when it is complete, so that an interruption or a
full disk leaves the earlier file; a folder likewise. Files that are read may come from a stranger: only regular files of
bounded size are taken, and YAML without aliases, whose few bytes unfold to gigabytes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import yaml
from filelock import FileLock, Timeout

from nnd_tasks.errors import NNDError, reason_of

#: Bytes that a configuration file (YAML, JSON, a card) may have; the largest of ours has 20 kB.
MAX_CONFIG_BYTES = 5_000_000
#: How deeply lists and mappings may be nested in a YAML file.
MAX_DEPTH = 100
#: How many parts a YAML file may have: keys, values, beginnings and ends of lists and mappings.
MAX_VALUES = 500_000
#: A number in YAML that takes quadratic time: digits between colons, as in 1:30:00, are one.
_LONG_NUMBER = re.compile(r"[-+\d:._]{1000}")


def expand(path: str | Path) -> Path:
    """Replace ``~`` in a path by the home directory.

    Raises:
        NNDError: it names an unknown user, is no UTF-8, which parquet and YAML need, or too long, or its symbolic links form a
            loop.
    """
    if any("\ud800" <= character <= "\udfff" for character in str(path)):
        raise NNDError(f"{path}: this name is not UTF-8; rename it, or name another place")
    try:
        expanded = Path(path).expanduser()
    except RuntimeError as error:
        raise NNDError(f"{path}: the home directory that it names is not known") from error
    try:
        expanded.stat()
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
            raise NNDError(f"{path}: {reason_of(error)}; name another place") from error
    except ValueError:  # a NUL in the name: opening the file will raise an error for it
        pass
    return expanded


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
def changing(target: object, *, hint: str = "", done: str = "written") -> Iterator[None]:
    """Turn what goes wrong while the block changes files or folders into one error that names them.

    Args:
        target: what is changed, as the error names it.
        hint: ends the error: what the user can do.
        done: what could not be done: ``written``, ``removed``, ``replaced``.

    Raises:
        NNDError: the block raised an `OSError`, such as for a lack of permission or a full disk.
    """
    try:
        yield
    except OSError as error:
        raise NNDError(f"{target}: cannot be {done} ({reason_of(error)}){f'; {hint}' if hint else ''}") from error


@contextmanager
def noting(skipped: list[str] | None) -> Iterator[None]:
    """Add the message of an `NNDError` that the block raises to a list, and go on after the block; None lets the error pass."""
    try:
        yield
    except NNDError as error:
        if skipped is None:
            raise
        skipped.append(str(error))


# ---------------------------------------------------------------- reading files


def read_bytes(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> bytes:
    """Read a regular file.

    Args:
        path: the file; a device, a FIFO or a socket is refused, as reading it may never end.
        limit: bytes that it may have.

    Raises:
        NNDError: it is absent, no regular file, too large or unreadable.
    """
    with reading(path):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a FIFO that nobody writes to would wait for ever
            raise NNDError(f"{path}: is not a regular file")
        with path.open("rb") as file:
            content = file.read(limit + 1)
    if len(content) > limit:
        raise NNDError(f"{path}: is larger than {limit / 1e6:,.0f} MB, which is more than such a file should have")
    return content


def read_text(path: Path, *, limit: int = MAX_CONFIG_BYTES) -> str:
    """Read a UTF-8 text file; raises as `read_bytes` does, and where it is not UTF-8."""
    content = read_bytes(path, limit=limit)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        raise NNDError(f"{path}: is not UTF-8 (line {line:,}, byte {error.start:,}); save it as UTF-8") from error


# ---------------------------------------------------------------- writing files


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """Yield a new, empty file beside ``path`` that takes its place when the block ends, and is removed when it fails.

    Args:
        path: the file to write; its folder is made.

    Raises:
        NNDError: it cannot be written (no permission, a full disk, a folder of that name).
    """
    with writing_all([path]) as (new,):
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
    try:
        for target in targets:
            with changing(target, hint=hint):
                if target.is_dir():
                    raise IsADirectoryError(0, "is a folder")
                target.parent.mkdir(parents=True, exist_ok=True)
                # What a killed process leaves must have no ending that somebody searches for, such as lm-eval for .yaml.
                files.append(target.with_name(f".{target.stem[:100]}.{token_hex(8)}.tmp"))
                files[-1].touch(exist_ok=False)
        with changing(targets[0] if len(targets) == 1 else targets[0].parent, hint=hint):
            yield files
            for file in files:
                with file.open("rb") as written:
                    os.fsync(written.fileno())  # some systems report a full disk only here
            for target, file in zip(targets, files, strict=True):
                file.replace(target)
    finally:
        for file in files:
            with suppress(OSError):
                file.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, hint: str = "") -> None:
    """Write a text file as UTF-8, whole or not at all; raises as `writing` does."""
    write_texts({path: text}, hint=hint)


def write_texts(files: Mapping[Path, str], *, hint: str = "") -> None:
    """Write several text files as UTF-8, all or none; raises as `writing_all` does."""
    with writing_all(files, hint=hint) as new:
        for path, text in zip(new, files.values(), strict=True):
            path.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------- writing folders


@contextmanager
def only_writer(folder: Path, timeout: float, busy: str) -> Iterator[None]:
    """Let one process at a time write ``folder``; the lock file beside it, as it may be replaced, is removed in the end.

    Args:
        folder: what is written.
        timeout: seconds to wait for another writer.
        busy: the error message where another process still writes after that time.

    Raises:
        NNDError: another process writes for longer than ``timeout``.
        OSError: no file can be made there.
    """
    path = folder.with_name(f".{folder.name}.lock")
    path.open("a").close()  # where no file can be made this fails at once; FileLock may wait
    lock = FileLock(path, timeout=timeout)
    try:
        lock.acquire()
    except Timeout as error:
        raise NNDError(busy) from error
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before the lock is released: a process that waits sees this, and makes a new file
        lock.release()


@contextmanager
def workshop(folder: Path, beside: Path, timeout: float = 60.0) -> Iterator[Path]:
    """Yield a new folder next to ``beside``, for one process at a time; it is removed in the end, unless moved away.

    What killed processes left of such folders is removed too.

    Raises:
        NNDError: another process writes ``folder`` for longer than ``timeout`` seconds.
        OSError: no file can be made there.
    """
    busy = f"{folder}: another command is still writing it; try again when it is done"
    beside.parent.mkdir(parents=True, exist_ok=True)
    with only_writer(beside, timeout, busy):
        name = re.compile(re.escape(f".{beside.name}.new-") + "[0-9a-f]{16}")
        for path in beside.parent.iterdir():
            if name.fullmatch(path.name):
                shutil.rmtree(path, ignore_errors=True)
        prepared = beside.with_name(f".{beside.name}.new-{token_hex(8)}")
        prepared.mkdir()
        try:
            yield prepared
        finally:
            shutil.rmtree(prepared, ignore_errors=True)


@contextmanager
def rewriting(folder: Path, timeout: float = 60.0) -> Iterator[Path]:
    """Yield a new folder that takes the place of ``folder`` when the block ends; when it fails, nothing changes.

    One process at a time does this.

    Raises:
        NNDError: another process writes for longer than ``timeout`` seconds.
        OSError: no file can be made there.
    """
    with workshop(folder, folder, timeout) as new:
        yield new
        earlier = folder.with_name(new.name.replace(".new-", ".old-"))
        try:
            if folder.exists():
                folder.rename(earlier)
            new.rename(folder)
        finally:
            if earlier.exists() and not folder.exists():  # stopped between the two moves
                earlier.rename(folder)
            shutil.rmtree(earlier, ignore_errors=True)


# ---------------------------------------------------------------- JSON


def _check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in values if keys.count(key) > 1)
        raise ValueError(f"the key {repeated!r} stands twice in an object")
    return values


#: Refuses an object with the same key twice.
DECODER = json.JSONDecoder(object_pairs_hook=_check_keys)


def parse_json(text: str, source: str, *, hint: str = "") -> Any:
    """Parse a JSON text; a string in it may hold half of a character (a lone surrogate).

    Raises:
        NNDError: no valid JSON, a key twice in one object, or nested too deeply; begins with ``source`` and ends with ``hint``.
    """
    with reading_json(source, hint):
        return DECODER.decode(text)


@contextmanager
def reading_json(source: str, hint: str) -> Iterator[None]:
    """Turn what goes wrong while the block parses JSON into one error that begins with ``source`` and ends with ``hint``."""
    try:
        yield
    except RecursionError as error:
        raise NNDError(f"{source}: its lists and objects are nested too deeply to be read{hint}") from error
    except ValueError as error:  # also a number of more digits than Python converts, or a repeated key
        raise NNDError(f"{source}: is not valid JSON ({reason_of(error)}){hint}") from error


def json_lines(lines: Iterable[str], source: str, *, hint: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name (``FILE, line 3``) and the value of each line of JSON Lines; blank lines are left out, and counted.

    Args:
        lines: a file opened as text, or its lines; only line feeds end a line, as strings may hold other line breaks.
        source: the file's name; begins each name.
        hint: ends errors.

    Raises:
        NNDError: a line is not valid JSON, or nested too deeply; the error names it.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            name = f"{source}, line {number}"
            yield name, parse_json(line, name, hint=hint)


# ---------------------------------------------------------------- YAML


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # YAML reads these as line breaks, unless they are escaped.
    must_escape = any(line_break in text for line_break in "\x85\u2028\u2029\ufeff")
    style = None
    if must_escape or "\n" in text:
        style = "|" if "\n" in text.rstrip("\n") and not must_escape else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def dump_yaml(values: Mapping[str, Any] | list[dict[str, Any]]) -> str:
    """Write plain data as YAML, texts of several lines readable; raise NNDError where reading it gives something else."""
    text = str(
        yaml.dump(
            dict(values) if isinstance(values, Mapping) else values,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=True,
            width=110,
        )
    )
    if parse_yaml(text, "YAML to be written") != values:
        raise NNDError(
            "YAML to be written: reading it gives something else; a name in it holds characters that YAML changes"
        )
    return text


if TYPE_CHECKING:
    from yaml import SafeLoader as _Loader
else:  # libyaml is ten times faster; neither loader creates Python objects
    _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class PlainLoader(_Loader):
    """The loader of `parse_yaml`; subclass it to read more tags."""


class StrictLoader(PlainLoader):
    """A loader for `parse_yaml` that refuses a mapping with the same key twice, of which YAML would silently take the last.

    Yes, no, on and off are words in it; only true and false are truth values.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping; raise a YAMLError where a key is repeated."""
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            keys.add(str(key.value))
        return super().construct_mapping(node, deep=deep)


_BOOL = "tag:yaml.org,2002:bool"
StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
StrictLoader.add_implicit_resolver(_BOOL, re.compile("(?i:true|false)$"), list("tTfF"))


def _check_plain(text: str, loader: type[PlainLoader]) -> None:
    """Raise a YAMLError for what takes too much: 835 bytes of aliases can unfold to fill the memory."""
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
        elif isinstance(event, yaml.ScalarEvent) and event.implicit[0] and _LONG_NUMBER.match(event.value):
            problem = "a number is too long"
        if problem:
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)  # type: ignore[arg-type]


def read_yaml(path: Path) -> Any:
    """Read a YAML file; raises as `read_text` and `parse_yaml` do."""
    return parse_yaml(read_text(path), str(path))


def parse_yaml(text: str, source: str, loader: type[PlainLoader] = PlainLoader) -> Any:
    """Parse a YAML text; plain data only: no tags of Python, no aliases, bounded depth and count.

    Raises:
        NNDError: no valid YAML, with an alias, nested too deeply or too long; begins with ``source`` and names the line.
    """
    try:
        _check_plain(text, loader)
        parser = loader(text)
        try:
            return parser.get_single_data()
        finally:
            parser.dispose()
    except yaml.YAMLError as error:
        position = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or reason_of(error)
        line = f" in line {position.line + 1}" if position else ""
        raise NNDError(f"{source}: is not YAML that can be read here ({problem}{line})") from error
    except (ValueError, RecursionError, TypeError) as error:  # dates such as 2022-13-41, keys that are lists
        raise NNDError(f"{source}: is not YAML that can be read here ({reason_of(error)})") from error
