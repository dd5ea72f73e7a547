"""Nothing but NNDError comes out of a broken file: real files, cut to a few records and mutated thousands of times.

Every mutation follows from the set's name and a number, which a failure prints: ``Corpus(...).mutated(number)`` is that file.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.recipes import steps
from nnd_tasks.recipes.make import make_tests, tables_of
from nnd_tasks.recipes.places import locate
from nnd_tasks.recipes.readers import open_table
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.tables import summarize
from tests.conftest import DATA, SOURCES
from tests.conftest import DEMO_ANNOTATIONS as DEMO_PATH
from tests.recipes.small_files import FRANK_FILE, MQM_FILE, QUIZ_FILE, SPLIT_FILE, SUMMEVAL_FILE, jsonl

#: How many mutations of each publisher's format; ``NND_FUZZ=10000`` takes more.
MUTATIONS = int(os.environ.get("NND_FUZZ") or 1_000)
SHORT = 90  # characters that a long text is cut to: mutations then hit the structure of the file more often

# ---------------------------------------------------------------- excerpts of the real files


def shortened(value: Any) -> Any:
    """Return ``value`` with its long texts cut and long lists of references reduced to their first entry."""
    if isinstance(value, str):
        return value[:SHORT]
    if isinstance(value, list):
        return [shortened(item) for item in value]
    if isinstance(value, dict):
        cut = {key: value[key][:1] for key in ("references", "turker_annotations") if value.get(key)}
        return {key: shortened(item) for key, item in {**value, **cut}.items()}
    return value


def records(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def quiz_design() -> dict[str, str]:
    groups = records(DATA / "quiz_design" / QUIZ_FILE)
    chosen = [group for group in groups if len({question["reason"] for question in group["questions"]}) > 1][:2]
    fewer = {**chosen[0], "questions": chosen[0]["questions"][:4]}
    return {QUIZ_FILE: jsonl(shortened([fewer, groups[0], chosen[1]]))}


def challenge300() -> dict[str, str]:
    path = DATA / "challenge300" / "challenge300-outputs.tsv"
    return {path.name: "\n".join(path.read_text("utf-8").splitlines()[:6]) + "\n"}


def summeval_excerpt() -> dict[str, str]:
    rows = records(DATA / "summeval" / SUMMEVAL_FILE)[:17]  # of one article
    by_mark = sorted(rows, key=lambda row: sum(sum(expert.values()) for expert in row["expert_annotations"]))
    return {SUMMEVAL_FILE: jsonl(shortened([rows[0], by_mark[0], rows[1], by_mark[-1]]))}


def frank() -> dict[str, str]:
    rows = json.loads((DATA / "frank" / FRANK_FILE).read_text("utf-8"))
    split = (DATA / "frank" / SPLIT_FILE).read_text("utf-8").split()
    article = next(row["hash"] for row in rows if row["hash"] in split and len(row["hash"]) == 40)
    chosen = [row for row in rows if row["hash"] == article][:4] + [row for row in rows if len(row["hash"]) < 40][:1]
    return {
        FRANK_FILE: json.dumps(shortened(chosen)),
        SPLIT_FILE: "".join(f"{name}\n" for name in [*split[:4], article]),
    }


def mqm() -> dict[str, str]:
    header, *lines = (DATA / "mqm" / MQM_FILE).read_text("utf-8").removesuffix("\n").split("\n")
    segments: dict[str, list[str]] = {}
    for line in lines:
        source = line.split("\t")[header.split("\t").index("source")]
        segments.setdefault(source, []).append(line)
    short = [rows for source, rows in segments.items() if len(source) < SHORT and "No-error" in "".join(rows)]
    return {MQM_FILE: "\n".join([header, *short[0][:7], *short[1][:2]]) + "\n"}


def news_gpt3() -> dict[str, str]:
    files = {}
    for name in ("cnn_human.json", "bbc_human.json"):
        articles = json.loads((DATA / "news_gpt3" / name).read_text("utf-8"))
        files[name] = json.dumps(shortened(dict(list(articles.items())[:2])))
    return files


def demo() -> dict[str, str]:
    return {DEMO_PATH.name: "".join(DEMO_PATH.read_text("utf-8").splitlines(keepends=True)[:8])}


EXCERPTS: dict[str, Callable[[], dict[str, str]]] = {
    "quiz_design": quiz_design,
    "challenge300": challenge300,
    "summeval": summeval_excerpt,
    "frank": frank,
    "mqm": mqm,
    "news_gpt3": news_gpt3,
    "demo": demo,
}


@functools.cache
def excerpt(name: str) -> dict[str, str]:
    return EXCERPTS[name]()


@functools.cache
def foreign_texts() -> list[bytes]:
    """Return the files of all sources that are there: what may be spliced into one another."""
    there = [name for name in EXCERPTS if name == "demo" or (DATA / name).is_dir()]
    return [text.encode("utf-8") for name in there for text in excerpt(name).values()]


# ---------------------------------------------------------------- mutations

INSERTED = [
    b"\x00", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xff", b"\xc3", b"\\ud800", b"\\udc00", b"\\u0000", b"\\",
    b"9" * 400, b"1e999", b"-1e999", b"NaN", b"Infinity", b"-", b'"', b'""', b"'", b"\t", b"\n", b"\r", b"\r\n", b",", b":",
    b"{", b"}", b"[", b"]", b"null", "\u2028".encode(), "\u0085".encode(), "🙂".encode(), "e\u0301".encode(), b" ",
    b"x" * 140_000,
]  # fmt: skip
CELLS = [
    "", " ", '"', '""', '"x', "\x00", "nan", "-1", "2", "0.5", "1e999", "1" * 400, "No-error", "no_error", "/", "/a", "a/b/c",
    "🙂", "\u2028", "\r", "\ufeff", "sum", "severity_x", "x" * 140_000, "e\u0301",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, -1, 0, 6, 0.5, 10**30, -(10**400), float("nan"), float("inf"), "", " ", "\x00", "\ud800", "a\nb",
    "No error", "NoE", "OtherE", "5", "nan", "🙂", "sum", "t0", "e\u0301", [], {}, [[]], [None], [""], {"": 1}, {"text": None},
]  # fmt: skip
DEEP = '"DEEP"'  # stands for a nesting that json.dumps could not write


def mutate_bytes(data: bytes, dice: random.Random) -> bytes:
    """Change single bytes, insert what parsers stumble over, cut, repeat."""
    at = dice.randrange(len(data) + 1)
    length = dice.choice([1, 1, 2, 10, 100, 1000])
    match dice.randrange(7):
        case 0:
            flipped = bytes(byte ^ (1 << dice.randrange(8)) for byte in data[at : at + 1])
            return data[:at] + flipped + data[at + 1 :]
        case 1:
            return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
        case 2 | 3:
            return data[:at] + dice.choice(INSERTED) + data[at:]
        case 4:
            return data[:at] + data[at + length :]
        case 5:
            return data[:at] + data[at : at + length] + data[at:]
        case _:
            return data[:at]


def mutate_splice(data: bytes, dice: random.Random) -> bytes:
    """Put a piece of some source's file in, or go on with another file."""
    other = dice.choice(foreign_texts())
    at, start = dice.randrange(len(data) + 1), dice.randrange(len(other))
    piece = other[start : start + dice.choice([20, 200, len(other)])]
    match dice.randrange(4):
        case 0:
            return data[:at] + piece
        case 1:
            return other[:start] + data[at:]
        case 2 if dice.random() < 0.1:
            return other
        case _:
            return data[:at] + piece + data[at:]


def mutate_rows(data: bytes, dice: random.Random) -> bytes:
    """Remove, repeat, swap, cut or join lines."""
    rows = data.split(b"\n")
    a, b = dice.randrange(len(rows)), dice.randrange(len(rows))
    match dice.randrange(6):
        case 0:
            del rows[a]
        case 1:
            rows.insert(a, rows[b])
        case 2:
            rows[a], rows[b] = rows[b], rows[a]
        case 3:
            rows[a] = rows[a][: dice.randrange(len(rows[a]) + 1)]
        case 4:
            rows[a] += dice.choice([b"\r", b"\t", b",", b" ", b"\x00"])
        case _:
            rows[a : a + 2] = [b"".join(rows[a : a + 2])]
    return b"\n".join(rows)


def mutate_cells(data: bytes, dice: random.Random, tab: str) -> bytes:
    """Replace, swap, remove or add cells of a table, the header's too."""
    rows = [row.split(tab) for row in data.decode("utf-8", "replace").split("\n")]
    a, b = dice.choice(rows), dice.choice(rows)
    i, j = dice.randrange(len(a)), dice.randrange(len(b))
    match dice.randrange(5):
        case 0 | 1:
            a[i] = dice.choice(CELLS)
        case 2:
            a[i], b[j] = b[j], a[i]
        case 3:
            del a[i]
        case _:
            a.insert(i, dice.choice(CELLS))
    return "\n".join(tab.join(row) for row in rows).encode("utf-8", "replace")


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) within ``value``."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(entries):
        yield value, key
        yield from places(inner)


def mutate_value(value: Any, dice: random.Random) -> str:
    """Return ``value`` as JSON, with a key gone, renamed or double, or a value of another kind or very deep."""
    root = [copy.deepcopy(value)]
    container, key = dice.choice(list(places(root)))
    match dice.randrange(8):
        case 0 | 1 | 2:
            container[key] = copy.deepcopy(dice.choice(VALUES))
        case 3 if container is not root:
            del container[key]
        case 4 if isinstance(container, dict):
            container[dice.choice(["\ud800", "", "a\nb", "id", "\x00", *map(str, container)])] = container.pop(key)
        case 5:
            container[key] = [container[key]] if dice.random() < 0.5 else {"text": container[key]}
        case 6:
            container[key] = "DEEP"
        case _:
            other, place = dice.choice(list(places(root)))
            container[key] = copy.deepcopy(other[place])
    text = json.dumps(root[0])
    if DEEP in text:
        depth = dice.choice([2, 50, 900, 960, 990, 100_000])
        opening, closing = dice.choice([("[", "]"), ('{"a":', "}")])
        text = text.replace(DEEP, opening * depth + "1" + closing * depth)
    if dice.random() < 0.1 and isinstance(value, dict):  # the same key twice
        double = json.dumps(dice.choice(list(value)))
        text = text.replace("{", "{" + f"{double}: {json.dumps(dice.choice(VALUES))}, ", 1)
        text = text.replace(", }", "}")
    return text


class Corpus:
    """The excerpt of one source and its mutations."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files = {file: text.encode("utf-8") for file, text in excerpt(name).items()}
        self.values: dict[str, list[Any]] = {}
        for file, text in excerpt(name).items():
            if file.endswith(".json"):
                self.values[file] = [json.loads(text)]
            elif file.endswith(".jsonl"):
                self.values[file] = [json.loads(line) for line in text.splitlines()]

    def mutated(self, number: int) -> tuple[str, bytes]:
        """Return the file that mutation ``number`` changes, and what it changes it to."""
        dice = random.Random(f"{self.name} {number}")
        file = dice.choice(sorted(self.files))
        data = self.files[file]
        kind = dice.randrange(8)
        if kind < 4 and file in self.values:
            values = [json.dumps(value) for value in self.values[file]]
            at = dice.randrange(len(values))
            values[at] = mutate_value(self.values[file][at], dice)
            data = "\n".join(values).encode("utf-8")
            return file, data if dice.random() < 0.9 else mutate_bytes(data, dice)
        for _ in range(dice.choice([1, 1, 1, 1, 2, 5])):
            if kind < 3 and file.endswith((".tsv", ".csv")):
                data = mutate_cells(data, dice, "," if file.endswith(".csv") else "\t")
            elif kind < 6:
                data = mutate_bytes(data, dice)
            elif kind == 6:
                data = mutate_rows(data, dice)
            else:
                data = mutate_splice(data, dice)
        return file, data


def put(path: Path, data: bytes) -> None:
    """Write a new file: to write over one makes some file systems wait for the disk."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def read_through(name: str, folder: Path) -> int:
    """Take the files of ``folder`` from reading to counting, as a build does; return the number of tests."""
    found = SOURCES[name]
    options = {key: values[0] for key, values in found.recipe.options.items()}
    count = 0
    with ExitStack() as stack:
        for config, table in tables_of(name, found.recipe, locate(found, folder, stack), options).items():
            made = make_tests(table, found.recipe)
            count += summarize(config, made.table).tests
            if made.clean is not None:
                assert summarize(config, made.clean).tests > 0
    return count


#: What the stages after reading say.
LATER = re.compile(r".*(: its rows do not all have the same context and fields$|: no test comes out)")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(EXCERPTS))
def test_only_one_line_that_names_the_file_comes_out_of_a_mutated_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name != "demo" and not (DATA / name).is_dir():
        pytest.skip(f"no annotation data at {DATA / name}; set NND_TEST_DATA")
    corpus = Corpus(name)
    # A row that lost its article asks for all of them: not from the hub, thousands of times.
    known = {row["id"].rsplit("-", 1)[-1]: "An article." for row in corpus.values.get(SUMMEVAL_FILE, [])}
    monkeypatch.setattr(steps, "load_articles", lambda path: known)
    folder = tmp_path / "in"
    folder.mkdir()
    for file, data in corpus.files.items():
        put(folder / file, data)
    assert read_through(name, folder) > 0, "the excerpt is good before it is mutated"
    results: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(MUTATIONS):
        file, data = corpus.mutated(number)
        put(folder / file, data)
        try:
            results["tests"] += read_through(name, folder) > 0
        except NNDError as error:
            message = str(error)
            later = bool(LATER.match(message))
            results["refused later" if later else "refused"] += 1
            if not message.startswith(str(folder)):
                wrong.append(f"{name} {number} ({file}) names no file: {message[:200]}")
            if not message.isprintable() or len(message) < 20:
                wrong.append(f"{name} {number} ({file}) is no line: {message[:200]!r}")
        except BaseException as error:
            wrong.append(f"{name} {number} ({file}): {type(error).__name__}: {str(error)[:200]}")
        if len(corpus.files) > 1:
            put(folder / file, corpus.files[file])
    assert not wrong, f"{len(wrong)} of {MUTATIONS}:\n" + "\n".join(wrong[:10])
    assert sum(results.values()) == MUTATIONS
    share = MUTATIONS / 10
    assert results["tests"] > share, results
    assert results["refused"] > share, results


# ---------------------------------------------------------------- tables of one's own


def chat(*texts: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


OWN_ROWS = [
    {"prompt": f"Q{i % 2}?", "a": f"yes {i}", "b": f"no {i}", "winner": winner, "score": i % 3,
     "votes": [i % 3, 5, i % 4 // 2 * 5], "kind": "xy"[i % 2],
     "chosen": chat(f"q{i % 2}", "hi", "go", f"ok {i}"), "rejected": chat(f"q{i % 2}", "hi", "go", f"bad {i}")}
    for i, winner in enumerate(["a", "b", "tie", "1", "2", "A is better"] * 2)
]  # fmt: skip
OWN_RECIPES = {
    "pair and winner": Recipe(context="prompt", pair=("a", "b"), winner="winner"),
    "chats": Recipe(chosen="chosen", rejected="rejected", category="kind"),
    "chats with a context": Recipe(context="prompt", chosen="chosen", rejected="rejected"),
    "pairs as published": Recipe(context="prompt", chosen="a", rejected="b", candidates="rows"),
    "majority": Recipe(context="prompt", candidate="a", score="votes", majority=True),
    "raters": Recipe(
        context="kind", candidate="a", score="score", min_gap=1.0, rater="winner", attribute={"kind": "kind"}
    ),
    "nested": Recipe(
        context="chosen[0].content",
        candidate="chosen[-1].content",
        score="score",
        min_gap=1.0,
        field={"x": "chosen[].role"},
    ),
    "lists taken apart": Recipe(
        context="prompt", rows="chosen[]", candidate="chosen[].content", score="score", min_gap=1.0
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", list(OWN_RECIPES.values()), ids=list(OWN_RECIPES))
def test_only_one_line_that_names_the_file_comes_out_of_a_mutated_table_of_ones_own(
    recipe: Recipe, tmp_path: Path
) -> None:
    wrong = []
    results: Counter[bool] = Counter()
    for number in range(-1, MUTATIONS):
        dice = random.Random(number)
        lines = [json.dumps(row) for row in OWN_ROWS]
        if number >= 0:
            at = dice.randrange(len(lines))
            lines[at] = mutate_value(OWN_ROWS[at], dice)
        listed = dice.random() < 0.3
        data = (f"[{','.join(lines)}]" if listed else "\n".join(lines)).encode()
        if number >= 0 and dice.random() < 0.2:
            data = mutate_bytes(data, dice)
        if number >= 0 and dice.random() < 0.1:
            data = data.decode("utf-8", "replace").encode(dice.choice(["utf-16", "cp1252"]), "replace")
        path = tmp_path / f"t{number}{'.json' if listed else dice.choice(['.json', '.jsonl'])}"
        path.write_bytes(data)
        try:
            table = open_table(str(path), recipe)
            table.head()
            results[make_tests(table, recipe).table.num_rows > 0] += 1
        except NNDError as error:
            results[False] += 1
            message = str(error)
            if not message.startswith(str(path)) or not message.isprintable():
                wrong.append(f"{number} names no file: {message[:200]!r}")
        except BaseException as error:
            wrong.append(f"{number}: {type(error).__name__}: {str(error)[:200]}")
        path.unlink()
        assert number >= 0 or results[True], "the table is good before it is mutated"
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:10])
    assert min(results.values()) > MUTATIONS / 20, results
