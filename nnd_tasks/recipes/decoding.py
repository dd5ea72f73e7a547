"""The encoding of a text file: named by the recipe or recognised from its bytes."""

from __future__ import annotations

import codecs
from pathlib import Path

from nnd_tasks.errors import NNDError
from nnd_tasks.files import reading
from nnd_tasks.recipes.recipe import Recipe

#: Bytes of a file that must be read as a whole, as JSON that is one list must be.
MAX_WHOLE = 1 << 29
_BOMS = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


def find_encoding(path: Path) -> str:
    """Return the encoding of a text file: from its byte order mark, else UTF-8 if it decodes, else UTF-16 or cp1252.

    A file with non-ASCII letters in valid UTF-8 before the first invalid byte is a damaged UTF-8 file: the answer is UTF-8.
    """
    with path.open("rb") as file:
        start = file.read(4096)
        for mark, encoding in _MARKS.items():
            if start.startswith(mark):
                return encoding
        if start[1::2].count(0) > len(start) // 8:
            return "utf-16-le"
        if start[::2].count(0) > len(start) // 8:
            return "utf-16-be"
        decoder = codecs.getincrementaldecoder("utf-8")()
        piece, letters = start, False
        try:
            while piece:
                letters = not decoder.decode(piece).isascii() or letters
                piece = file.read(1 << 20)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            letters = letters or not error.object[: error.start].isascii()
            return "utf-8" if letters else "cp1252"
    return "utf-8"


def encoding_of(path: Path, recipe: Recipe, notes: list[str]) -> str:
    """Return the encoding that the recipe names, or the one that the file seems to have.

    Args:
        path: a text file.
        recipe: may name the encoding.
        notes: gets a note where an encoding other than UTF-8 was recognised.

    Raises:
        NNDError: the recipe names UTF-16 or UTF-32, and the file is not in it.
    """
    if recipe.encoding:
        named = codecs.lookup(recipe.encoding).name  # `make_recipe` has checked the name
        if named not in _BOMS:
            return named
        with path.open("rb") as file:
            marked = file.read(4).startswith(_BOMS[named])
        encoding = named if marked else find_encoding(path)
        if not encoding.startswith(named):
            raise NNDError(f"{path}: not {named.upper()} text; is it the right file? If so, leave --encoding out")
        return encoding
    encoding = find_encoding(path)
    if encoding not in ("utf-8", "utf-8-sig"):
        shown = "UTF-16" if encoding.startswith("utf-16") else "cp1252 (Windows, Western Europe)"
        notes.append(
            f"{path.name} is not UTF-8; it is read as {shown}. If letters look wrong, name the encoding with --encoding"
        )
    return encoding


def decode(path: Path, encoding: str) -> str:
    """Return the text of a file, without its byte order mark.

    Raises:
        NNDError: the file cannot be read, is too large to be read as a whole, or is not in this encoding; names the line.
    """
    with reading(path):
        if path.stat().st_size > MAX_WHOLE:
            raise NNDError(
                f"{path}: larger than {MAX_WHOLE >> 20} MiB, which cannot be read as a whole; save it as JSON Lines or plain CSV"
            )
        data = path.read_bytes()
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(encoding, errors="replace").count("\n") + 1
        shown = encoding.upper().removesuffix("-SIG")
        raise NNDError(
            f"{path}, line {line}: not {shown} text (byte {error.start}); is it the right file? If so, name its encoding with "
            "--encoding"
        ) from None


def undecodable(path: Path, encoding: str) -> NNDError:
    """Return the error of a file that is not in an encoding; it names the line."""
    try:
        decode(path, encoding)
    except NNDError as error:
        return error
    return NNDError(f"{path}: not {encoding} text; name its encoding with --encoding")
