"""Which source a test comes from, and which split of training data that source is in: the same in all sets.

A *source* is what prompts share that must not be in two splits: an article with its near-duplicates, a document with all its
segments, a problem in several wordings. It is found by content, whatever a publisher calls it.

Known limits: near-duplicates that are not in ``splits.txt`` can be in different splits, where their beginnings differ.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

import pyarrow as pa
import xxhash

#: Split -> sources in 100.
SHARES = {"train": 70, "validation": 10, "test": 20}
#: Of 1,000 numbers the one with which the splits of our sets come nearest to `SHARES` (benchmarks/join_sources.py).
_SALT = 309
#: Letters and digits of a window, and those of a text's beginning whose windows count: a text that lost its end stays.
_WINDOW, _BEGINNING = 40, 600


def sources_of(tests: pa.Table) -> list[str]:
    """Find the source of each test, 12 hex digits; tests of one prompt have one source.

    Args:
        tests: rows of the dataset schema. Where the context is empty, the better text is the source.
    """
    contexts, highs, groups = (tests.column(name).to_pylist() for name in ("context", "high", "context_id"))
    texts = [context or high for context, high in zip(contexts, highs, strict=True)]
    source_of: dict[str, str] = {}
    for text, group in set(zip(texts, groups, strict=True)):
        source = find_source(text, group)
        source_of[text] = min(source, source_of.get(text, source))
    return [source_of[text] for text in texts]


def find_source(text: str, group: str = "") -> str:
    """Find the source of a text, or of the document that it is in (`key_of`; arguments likewise).

    It is that which the table of joined sources has, else the smallest hash of the windows at the text's beginning (MinHash):
    two texts agree on it with a probability of the share of windows that they have in common.
    """
    of_text, of_beginning = digests_of(key_of(text, group))
    return _joined().get(of_text) or _joined().get(of_beginning, of_beginning)


def key_of(text: str, group: str) -> str:
    """Name the document of a text where its group names one, as DOCUMENT_SEGMENT_TEXT (the groups of MQM do), else the text.

    Args:
        text: what a prompt shows.
        group: ``context_id`` of a test.
    """
    document = group.removesuffix(f"_{text}").rpartition("_")[0] if group.endswith(f"_{text}") else ""
    return document or text


def digests_of(text: str) -> tuple[str, str]:
    """Hash a text: the hash of its letters and digits, and the smallest one of the windows at its beginning.

    Case, white space and punctuation do not count, nor do the brackets of the Penn Treebank (``-LRB-``).
    """
    plain = re.sub("-[lr][rcs]b-", "", unicodedata.normalize("NFKC", text).lower())
    plain = re.sub(r"[\W_]+", "", plain) or text
    ends = range(_WINDOW, max(min(len(plain), _BEGINNING), _WINDOW) + 1)
    return _hash(plain), min(_hash(plain[end - _WINDOW : end]) for end in ends)


def _hash(text: str) -> str:
    return str(xxhash.xxh64_hexdigest(text.encode("utf-8", "surrogatepass"))[:12])


@cache
def _joined() -> dict[str, str]:
    """Read digest -> source of what benchmarks/join_sources.py found to belong together; a line has a source's digests."""
    lines = Path(__file__).with_name("splits.txt").read_text("utf-8").splitlines()
    return {digest: line.split()[0] for line in lines for digest in line.split()}


def split_of(source: str) -> str:
    """Draw the split of a source: ``train``, ``validation`` or ``test``, the same on every machine."""
    percentile = xxhash.xxh64_intdigest(f"{_SALT} {source}".encode()) % 100
    if percentile < SHARES["test"]:
        return "test"
    return "train" if percentile >= 100 - SHARES["train"] else "validation"
