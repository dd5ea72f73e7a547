"""Check the texts: equal candidates, markup, damage, missing contexts, other languages, personal data."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from nnd_tasks.check.findings import CODES, EXAMPLES, Finding, Severity, around, find_email, find_phone, finding, shown
from nnd_tasks.check.labels import clean_advice
from nnd_tasks.check.loading import Config, distinct_first
from nnd_tasks.check.scripts import main_script, scripts_of
from nnd_tasks.schema import normalize
from nnd_tasks.wording import counted

#: Normalized Levenshtein similarity (1 - distance / length of the longer text) from which two texts are nearly equal.
NEARLY_EQUAL = 0.95
_LONG = 200_000  # characters; longer texts are not compared in this way, which takes quadratic time


def check_texts(
    config: Config, others: Collection[str], languages: Sequence[str], scanner: Scanner
) -> Iterator[Finding]:
    """Check the texts of a config.

    Args:
        config: with the columns of the schema.
        others: names of all configs of the set.
        languages: that the card declares; without any, scripts are not checked.
        scanner: remembers the texts of all configs.
    """
    yield from _pairs(config, others)
    yield from scanner.check(config)
    yield from _contexts(config)
    yield from _languages(config, languages, scanner)


# ---------------------------------------------------------------- the two candidates of a test


def _pairs(config: Config, others: Collection[str]) -> Iterator[Finding]:
    high, low = config.columns["high"], config.columns["low"]
    severity, more = clean_advice(config, others)
    empty = [i for i, pair in enumerate(zip(high, low, strict=True)) if not (pair[0].strip() and pair[1].strip())]
    if empty:
        message = f"{counted(len(empty), 'test')} with an empty candidate: not scored"
        fix = more or "leave them out"
        yield finding("empty", message, fix, rows=config.pairs_of(empty), config=config.name, severity=severity)
    pairs = [(normalize(a), normalize(b)) for a, b in zip(high, low, strict=True)]
    equal = [i for i, (a, b) in enumerate(pairs) if a == b and a.strip()]
    if equal:
        message = f"{counted(len(equal), 'test')} with two equal candidates, which no model can pass"
        fix = more or "leave them out"
        yield finding("equal_texts", message, fix, rows=config.pairs_of(equal), config=config.name, severity=severity)
    bare = [(_bare(a), _bare(b)) for a, b in pairs]
    form = [i for i, (a, b) in enumerate(bare) if a == b and a.strip() and pairs[i][0] != pairs[i][1]]
    if form:
        message = f"{counted(len(form), 'test')} with candidates that differ in case, punctuation or spacing only"
        fix = "look whether the difference is what was judged; else leave them out"
        yield finding("form_only", message, fix, rows=config.pairs_of(form), config=config.name)
    yield from _near(config, bare)


def _bare(text: str) -> str:
    """Return the letters and digits of a text in lower case; the text as it is where it has none."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text).casefold()) or text


def _near(config: Config, bare: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    from rapidfuzz.distance import Levenshtein

    near = [
        i
        for i, (a, b) in enumerate(bare)
        if a != b
        and max(len(a), len(b)) <= _LONG
        and Levenshtein.normalized_similarity(a, b, score_cutoff=NEARLY_EQUAL)
    ]
    if near:
        message = (
            f"{counted(len(near), 'test')} ({len(near) / len(bare):.1%}) with candidates that are equal to {NEARLY_EQUAL:.0%} "
            "(letters and digits, Levenshtein)"
        )
        fix = "look at some: is the difference the error that was judged?"
        yield finding("near_equal", message, fix, rows=config.pairs_of(near), config=config.name)


# ---------------------------------------------------------------- each text by itself

Find = Callable[[str], "str | None"]


def _regex(pattern: str, flags: int = 0, needs: str = "") -> Find:
    """Return a search for a pattern that can only match where one of the characters ``needs`` is, which is fast to test."""
    compiled = re.compile(pattern, flags)

    def find(text: str) -> str | None:
        if needs and not any(c in text for c in needs):
            return None
        match = compiled.search(text)
        return match[0] if match else None

    return find


_TAGS = (
    "a|abbr|article|b|blockquote|body|br|center|code|dd|div|dl|dt|em|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|"
    "input|label|li|link|main|mark|meta|nav|ol|option|p|pre|ref|script|section|select|small|span|strong|style|sub|sup|svg|table|"
    "tbody|td|textarea|th|thead|title|tr|tt|u|ul|v|video"
)
#: What latin-1 and cp1252 show for the bytes 0x80 to 0xBF, which continue a character in UTF-8.
_CONTINUED = "\u0080-\u00bf" + "".join(bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xA0))
_MOJIBAKE = re.compile(
    f"(?<![A-ZÀ-Þ])[ÃÂ][{_CONTINUED}]|[âï][{_CONTINUED}]{{2}}|ð[{_CONTINUED}]{{3}}|(?:[ÎÏÐÑ][{_CONTINUED}]){{2,}}"
)


def _mojibake(text: str) -> str | None:
    """Return a part of the text that becomes valid UTF-8 when it is written as cp1252, or None."""
    if text.isascii():
        return None
    for match in _MOJIBAKE.finditer(text):
        try:
            data = b"".join(_byte(c) for c in match[0])
            data.decode("utf-8")
        except UnicodeError:
            continue
        return match[0]
    return None


def _byte(character: str) -> bytes:
    return character.encode("latin-1" if ord(character) < 0x100 else "cp1252")


def _not_nfc(text: str) -> str | None:
    return None if text.isascii() or unicodedata.is_normalized("NFC", text) else text[:40]


@dataclass(frozen=True, slots=True)
class _Search:
    """A search that is made in each text.

    Attributes:
        find: returns the part of a text that it is looking for, or None.
        fix: what to do.
        in_contexts: its severity in contexts, which are the publishers' texts; with None contexts are not searched.
    """

    find: Find
    fix: str
    in_contexts: Severity | None = Severity.NOTE


_CLEAN = "remove it in the source, or leave these candidates out, unless it is what was judged"
_READ = "read the source in its own encoding"
_PRIVATE = "replace it, or make sure that it may be published"
_SEARCHES = {
    "html": _Search(_regex(rf"</?(?:{_TAGS})(?:\s[^<>]{{0,300}})?/?>", re.IGNORECASE, "<"), _CLEAN),
    "markdown": _Search(
        _regex(
            r"```|^#{1,6} \S.*|(?<![\w*])\*\*[^\s*](?:[^*\n]{0,200}[^\s*])?\*\*(?![\w*])|\[[^\]\n]{1,200}\]\(https?://[^)\s]{1,500}\)",
            re.MULTILINE,
            "`#*[",
        ),
        _CLEAN,
    ),
    "escaped": _Search(
        # \nabla, \nu and the like are LaTeX.
        _regex(
            r"\\r?\\?n(?!abla|u\b|eq?\b|eg\b|i\b|ot|ewline|oindent|mid|leq|geq|rightarrow)|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}"
            r"|&(?:amp|lt|gt|quot|apos|nbsp|[lr][sd]quo|[mn]dash|hellip|#\d{2,6}|#x[0-9a-fA-F]{2,6});",
            needs="\\&",
        ),
        "unescape the texts in the source",
    ),
    "special_token": _Search(
        _regex(
            r"</?s>|<(?:unk|pad|mask|bos|eos|extra_id_\d+)>|<\|[\w-]{1,40}\|>|\[(?:UNK|CLS|SEP|MASK|PAD)\]|▁\w",
            needs="<[▁",
        ),
        "remove it: tokenizers read it as a special token, not as text",
    ),
    "mojibake": _Search(_mojibake, _READ),
    "replacement_character": _Search(_regex("\ufffd"), f"{_READ}; the character is lost here"),
    "control_character": _Search(_regex("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff]"), _READ),
    "invisible_character": _Search(
        _regex("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"), "remove them: a tokenizer sees them"
    ),
    "not_nfc": _Search(_not_nfc, "normalize to Unicode NFC, as `nnd` builds do", Severity.WARNING),
    "edge_space": _Search(
        _regex(r"\A\s+(?=\S)|(?<=\S)\s+\Z"),
        "trim the candidates, unless white space was judged: it makes tokens of its own",
        None,
    ),
    "email": _Search(find_email, _PRIVATE, Severity.WARNING),
    "phone": _Search(find_phone, _PRIVATE, Severity.WARNING),
}


class Scanner:
    """Searches each distinct text once, however many tests and configs have it."""

    def __init__(self) -> None:
        self._parts: dict[str, dict[str, str]] = {}
        self._scripts: dict[str, str | None] = {}

    def script(self, text: str) -> str | None:
        """Return the main script of a text."""
        if text not in self._scripts:
            self._scripts[text] = main_script(text)
        return self._scripts[text]

    def scan(self, text: str) -> dict[str, str]:
        """Return code of `_SEARCHES` -> the part of a text that the search matches."""
        if text not in self._parts:
            parts = {code: search.find(text) for code, search in _SEARCHES.items()}
            self._parts[text] = {code: part for code, part in parts.items() if part is not None}
        return self._parts[text]

    def check(self, config: Config) -> Iterator[Finding]:
        """Yield a finding for each search that matches candidates or contexts of a config."""
        columns = config.columns
        for sides in (("high", "low"), ("context",)):
            tests: dict[str, dict[int, tuple[str, str]]] = {}
            counts: dict[str, dict[str, set[str]]] = {}
            for side in sides:
                for i, text in enumerate(columns[side]):
                    for code, part in self.scan(text).items():
                        tests.setdefault(code, {}).setdefault(i, (text, part))
                        counts.setdefault(code, {}).setdefault(side, set()).add(text)
            for code in _SEARCHES:
                if code in tests and not (sides == ("context",) and _SEARCHES[code].in_contexts is None):
                    yield self._finding(config, code, sides, tests[code], counts[code])

    def _finding(
        self,
        config: Config,
        code: str,
        sides: tuple[str, ...],
        tests: dict[int, tuple[str, str]],
        counts: dict[str, set[str]],
    ) -> Finding:
        search, contexts = _SEARCHES[code], sides == ("context",)
        if contexts:
            where = counted(len(counts["context"]), "distinct context")
        else:
            where = (
                f"{len(counts.get('high', ())):,} better and {len(counts.get('low', ())):,} worse distinct candidates"
            )
        rows = sorted(tests)
        order = distinct_first(rows, [tests[i][0] for i in rows])[:EXAMPLES]
        details = {i: around(*tests[i]) for i in order}
        return finding(
            code,
            f"{CODES[code][1]} in {where}: {counted(len(tests), 'test')}",
            search.fix,
            rows=config.rows(order, details),
            count=len(tests),
            config=config.name,
            severity=search.in_contexts if contexts else None,
        )


# ---------------------------------------------------------------- contexts and languages


def _contexts(config: Config) -> Iterator[Finding]:
    contexts = config.columns["context"]
    missing = [i for i, text in enumerate(contexts) if not text.strip()]
    if len(missing) == len(contexts):
        message = "no test has a context: models are asked which text is likelier by itself"
        yield finding("no_context", message, "nothing, if that is meant", config=config.name)
    elif missing:
        message = f"{len(missing):,} of {counted(len(contexts), 'test')} with an empty context"
        fix = "fill it in, or leave these tests out"
        yield finding("context_missing", message, fix, rows=config.pairs_of(missing), config=config.name)


def _languages(config: Config, languages: Sequence[str], scanner: Scanner) -> Iterator[Finding]:
    expected = scripts_of(languages) if languages else None
    if expected is None:
        return
    other: dict[int, tuple[str, str]] = {}
    for side in ("context", "high", "low"):
        for i, text in enumerate(config.columns[side]):
            script = scanner.script(text)
            # Japanese and Korean may be written in Han characters alone; main_script tells kana apart.
            if script is not None and script not in expected:
                other.setdefault(i, (script, text))
    if other:
        scripts = sorted({script for script, _ in other.values()})
        message = (
            f"{len(other):,} of {counted(config.table.num_rows, 'test')} with a text in {', '.join(scripts)} script; "
            f"the card declares {', '.join(languages)}"
        )
        fix = "declare the language in the card's header, or leave these tests out"
        order = sorted(other)
        rows = config.rows(order, {i: f"{other[i][0]}: {shown(other[i][1])}" for i in order[:EXAMPLES]})
        yield finding("language_mismatch", message, fix, rows=rows, config=config.name)
