"""From the bytes of a file to its text: compressed files are unpacked within limits, encodings are recognised and said."""

from __future__ import annotations

import codecs
import logging
import re
from functools import cache
from pathlib import Path

import pyarrow as pa

from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import read_bytes

logger = logging.getLogger(__name__)
#: Bytes that a file, or all files of an archive, may have.
MAX_BYTES = 1 << 30
#: How many times its own size a file may unpack to. Texts shrink to a third or a tenth; those of annotations, which
#: repeat contexts, rarely below a fiftieth.
MAX_RATIO = 100
_SMALL_BYTES = 20_000_000  # what unpacks to less is read, whatever the ratio
_CHUNK_BYTES = 1 << 22
COMPRESSIONS = (".gz", ".bz2", ".zst")


def split_ending(path: Path) -> tuple[str, str]:
    """Return the ending of a file in lower case, and that of its compression: ``.csv``, ``.gz``; or ``.csv`` and ``""``."""
    ending = path.suffix.lower()
    if ending in COMPRESSIONS:
        return path.with_suffix("").suffix.lower(), ending
    return ending, ""


def strip_ending(path: Path) -> str:
    """Return the name of a file without its ending, and without that of its compression."""
    return path.with_suffix("").stem if path.suffix.lower() in COMPRESSIONS else path.stem


def check_unpacked(path: Path, size: int) -> None:
    """Raise NNDError where ``path`` unpacks to ``size`` bytes or more, and that is above `MAX_BYTES` or `MAX_RATIO`."""
    ratio = size / max(path.stat().st_size, 1)
    if size > MAX_BYTES or (size > _SMALL_BYTES and ratio > MAX_RATIO):
        raise NNDError(
            f"{path}: it unpacks to {size / 1e6:,.0f} MB or more, {ratio:,.0f} times its size; if that is right, unpack it "
            "and name the files in it"
        )


def read_content(path: Path) -> bytes:
    """Return the bytes of a file, unpacked where its name ends in .gz, .bz2 or .zst.

    Raises:
        NNDError: it cannot be read or unpacked, or is too large (`check_unpacked`).
    """
    if not split_ending(path)[1]:
        return read_bytes(path, limit=MAX_BYTES)
    content = bytearray()
    try:
        with pa.input_stream(str(path), compression="detect") as file:
            while chunk := file.read(_CHUNK_BYTES):
                content += chunk
                check_unpacked(path, len(content))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise NNDError(f"{path}: cannot be unpacked ({reason_of(error)}); is it whole?") from error
    return bytes(content)


def read_text(path: Path, encoding: str | None = "utf-8") -> str:
    """Return the text of a file without a byte order mark.

    Args:
        path: the file; it may be compressed.
        encoding: None recognises it. One that is guessed is said, with words that it makes.

    Raises:
        NNDError: it is not in this encoding; the error names the row, the byte, and the way out.
    """
    content = read_content(path)
    used = encoding or _recognise(content, path)
    try:
        text = _decode(content, used)
    except UnicodeError as error:
        raise NNDError(f"{path}: {_explain(content, used, error, path)}") from error
    if encoding is None and used != "utf-8" and not _by_mark(content):
        warn_once(
            f"{path.name}: read as {used}{_words_of(text)}; if letters are wrong, name its encoding with --encoding (`encoding` "
            "in the recipe)"
        )
    elif encoding is not None and not _is_utf8(encoding) and not content.isascii() and _is_nearly_utf8(content):
        warn_once(
            f"{path.name}: read as {encoding}{_words_of(text)}, but it is UTF-8, or nearly so; are the letters right?"
        )
    return text


@cache
def warn_once(line: str) -> None:
    """Log a warning the first time only, as a file is read several times."""
    logger.warning("%s", line)


def _words_of(text: str) -> str:
    """Return the first words with letters beyond ASCII: `` ('schöne', 'Mädchen')``."""
    words = dict.fromkeys(
        match[0][:30] for match in re.finditer(r"[^\s,;|\"]*[^\x00-\x7f][^\s,;|\"]*", text[:1_000_000])
    )
    examples = ", ".join(repr(word) for word in [*words][:3])
    return f" ({examples})" if examples else ""


# ---------------------------------------------------------------- encodings

#: Byte order mark -> encoding; that of UTF-32 begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CANDIDATES = ["cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "gb18030", "shift_jis", "big5", "euc_kr"]
_LATIN = ("cp1250", "cp1252", "cp1254", "cp1257", "latin_1", "iso8859_15", "mac_roman")
_HIGH = rb"[\x80-\xff]"


def _is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def _decode(content: bytes, encoding: str) -> str:
    return content.decode("utf-8-sig" if _is_utf8(encoding) else encoding).removeprefix("\ufeff")


def _fits(content: bytes, encoding: str) -> bool:
    try:
        _decode(content, encoding)
    except UnicodeError:
        return False
    return True


def _by_mark(content: bytes) -> str | None:
    return next((encoding for beginning, encoding in _MARKS.items() if content.startswith(beginning)), None)


def _recognise(content: bytes, path: Path) -> str:
    """Return the encoding of a text; UTF-8 also where a few bytes are wrong.

    Raises:
        NNDError: it is none that is known, or no text.
    """
    if marked := _by_mark(content):
        return marked
    if b"\0" in content:
        raise NNDError(
            f"{path}: it holds NUL bytes: is it the right file, and does its ending fit? If it is a text in UTF-16, name that "
            "with --encoding (`encoding` in the recipe)"
        )
    if _fits(content, "utf-8") or _is_nearly_utf8(content):
        return "utf-8"
    lines = _lines_beyond_ascii(content)
    if _is_latin(lines) and _fits(content, "cp1252"):
        return "cp1252"
    from charset_normalizer import from_bytes

    best = from_bytes(lines, cp_isolation=_CANDIDATES).best()
    # Single bytes do not tell Latin alphabets apart; nearly all such files are of Windows in western Europe.
    encoding = "cp1252" if best and best.encoding in _LATIN else best.encoding if best else ""
    if not encoding or not _fits(content, encoding):
        raise NNDError(
            f"{path}: its encoding is not recognised; name it with --encoding (`encoding` in the recipe), or save it as UTF-8"
        )
    return encoding


def _is_nearly_utf8(content: bytes) -> bool:
    """Tell whether a text, which is not ASCII, is UTF-8 but for a few bytes, or in parts.

    Texts in East Asian encodings hold bytes that make a letter of UTF-8 by chance, but more others; Latin texts hold none.
    """
    text = content.decode("utf-8", errors="surrogateescape")
    letters, wrong = (len(re.findall(kind, text)) for kind in ("[^\x00-\x7f\udc80-\udcff]", "[\udc80-\udcff]"))
    return letters > 0 and (wrong <= 2 * letters or _is_latin(_lines_beyond_ascii(content)))


def _lines_beyond_ascii(content: bytes) -> bytes:
    return b"\n".join(re.findall(rb"[^\r\n]*" + _HIGH + rb"[^\r\n]*", content))[: 1 << 20]


def _is_latin(lines: bytes) -> bool:
    """Tell whether letters beyond ASCII are rare and stand alone, as in words of western Europe."""
    high = len(re.findall(_HIGH, lines))
    alone = len(re.findall(rb"(?<![\x80-\xff])[\x80-\xff](?![\x80-\xff])", lines))
    return 2 * alone >= high and 4 * high <= len(re.findall(rb"[A-Za-z\x80-\xff]", lines))


# ---------------------------------------------------------------- what does not fit


def _explain(content: bytes, encoding: str, error: UnicodeError, path: Path) -> str:
    """Return which byte of a text is not in an encoding, and the way out."""
    start = getattr(error, "start", 0)
    position = f"{_place_of(content, start, path)} (byte 0x{content[start]:02x})" if start < len(content) else "its end"
    if _is_utf8(encoding) and getattr(error, "reason", "") == "unexpected end of data":
        return f"ends in the middle of a letter, in {position}; is it whole?"
    if _is_utf8(encoding) and _is_nearly_utf8(content):
        return (
            f"is UTF-8 but for {position}; correct that letter and save the file as UTF-8, as --encoding cp1252 would change all "
            "others"
        )
    fitting = _recognise(content, path)
    way = "leave out --encoding, as the file is nearly all UTF-8"
    if _fits(content, fitting):
        way = f"it can be read as {fitting}{_words_of(_decode(content, fitting))}: name it with --encoding"
    return f"is not {encoding} at {position}; {way}"


def _place_of(content: bytes, start: int, path: Path) -> str:
    before = content[:start]
    number = before.count(b"\n" if b"\n" in content else b"\r") + 1
    is_row = split_ending(path)[0] in (".csv", ".tsv", ".tab", ".txt") and b'"' not in before
    return f"{'row' if is_row else 'line'} {number:,}"
