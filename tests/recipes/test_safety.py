"""A recipe that a stranger sent, and the files with it: no code, bounded time and memory, nothing read or written elsewhere."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from nnd_tasks.build import build_set
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes import archives, cells, decoding, download, flatten, json_tables
from nnd_tasks.recipes.limits import check_prompt
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.shelf import find_recipe
from nnd_tasks.recipes.spans import find_spans
from nnd_tasks.recipes.winners import winner

BASE = "context: c\ncandidate: t\nlabel: l\nbetter: [good]\n"
ROWS = "c,t,l\nq,a,good\nq,b,bad\n"
Build = Callable[..., Any]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Return what builds a recipe as somebody sent it, of a file in a folder of its own."""

    def call(recipe: str, content: str = ROWS, file: str = "d.csv", source: Path | None = None, **options: Any) -> Any:
        folder = tmp_path / "sent"
        folder.mkdir(exist_ok=True)
        (folder / "_recipe").write_text(recipe, encoding="utf-8")
        table = tmp_path / "data" / file
        table.parent.mkdir(exist_ok=True)
        table.write_text(content, encoding="utf-8")
        return build_set(str(folder / "_recipe"), source or table, progress=False, **options)

    return call


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(NNDError) as caught:
        call()
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 600
    return message


def test_a_recipe_that_means_no_harm_is_built(build: Build, nnd_home: Path) -> None:
    assert [one.tests for one in build(BASE).built] == [1]
    assert [path.name for path in nnd_home.iterdir()] == ["nnd"]


# ---------------------------------------------------------------- what a recipe says

SAID: dict[str, tuple[str, str]] = {
    "step": ("step: frank\n", "runs no code"),
    "options": ("options: {help: [a]}\n", "they are for steps"),
    "tag": ("title: !!python/object/apply:os.system [id]\n", "not YAML that can be read"),
    "alias": ("title: &a x\nsummary: *a\n", "the alias *a is not allowed"),
    "depth": (f"title: {'[' * 5000}{']' * 5000}\n", "nested deeper than"),
    "size": (f"title: {'x' * 1_100_000}\n", "larger than 1 MB"),
    "long name": (f"system: {'x' * 20_000}\n", "20,000 characters"),
    "many entries": (f"missing: {list(range(20_000))}\n", "20,000 entries"),
    "nul": ('group: "{c}\\0"\n', "control character U+0000"),
    "escape": ('title: "\\e[2J"\n', "control character U+001B"),
    "config": ("config: ../../x\n", "a config is named by"),
    "config of a file": ("files: {d.csv: {config: /tmp/x}}\n", "a config is named by"),
    "pattern up": ("pattern: ../*.csv\n", "pattern is the name of files"),
    "pattern absolute": ("pattern: /etc/*\n", "pattern is the name of files"),
    "pattern of all": ("pattern: '**'\n", "pattern is the name of files"),
    "file up": ("files: {../d.csv: null}\n", "file name, without folders"),
    "file up and down": ("files: {a/../../d.csv: null}\n", "file name, without folders"),
    "file absolute": ("files: {/etc/passwd: null}\n", "name of a file in the folder"),
    "file hidden": ("files: {.netrc: null}\n", "file name, without folders"),
    "file of hashes": ("files: {hashes.json: null}\n", "cannot be the name of a file"),
    "source up": (f"sources: {{../../etc/passwd: {'a' * 64}}}\n", "file name, without folders"),
    "source absolute": (f"sources: {{/etc/passwd: {'a' * 64}}}\n", "name of a file in the folder"),
    "hash": ("sources: {d.csv: abc}\n", "64 hex digits"),
    "each": ("each: {a: %s, b: %s, c: %s}\n" % ((list(range(100)),) * 3), "columns; there may be 10,000"),
    "each of each": ("each: {a: ['{b}{b}'], b: ['{c}{c}']}\n", "has no braces"),
    "empty mark": ("strip: {candidate: ['']}\n", "none of them empty"),
    "many marks": (f"strip: {{candidate: {[str(i) for i in range(500)]}}}\n", "100 at most"),
    "nested order": ("order: [[[a]], b]\n", "list of texts"),
    "nan": ("scale: [.nan, 5]\n", "not a number that can be compared"),
    "huge number": (f"best: {'9' * 900}\n", "a number that can be compared"),
    "negative count": ("published: {authors: -1}\n", "numbers of tests"),
    "no count": ("expected: {bad: many}\n", "numbers of tests"),
    "clean step": ("candidates: rows\nclean: {step: frank}\n", "no such key 'step'"),
    "clean pairs": ("candidates: rows\nclean: {chosen: c, rejected: t}\n", "no such key 'chosen'"),
    "encoding of no text": ("encoding: zlib\n", "no such encoding"),
    "slow encoding": ("encoding: punycode\n", "no such encoding"),
    "rows": ("rows: '[][][]'\n", "rows is a list with []"),
    "span column": ("spans: {column: [a]}\n", "spans: column is"),
    "span marks": ("spans: {marks: [1, 2]}\n", "marks are two texts"),
    "field": ("field: {../x: c}\n", "cannot be used in a prompt"),
    "no group": ("group: ''\n", "names no column"),
}


@pytest.mark.parametrize(("said", "message"), SAID.values(), ids=SAID)
def test_what_a_recipe_must_not_say_is_refused(said: str, message: str, build: Build, nnd_home: Path) -> None:
    assert message in refused(lambda: build(BASE + said))
    assert not nnd_home.exists(), "nothing is written"


@pytest.mark.parametrize("lacking", ["context", "candidate", "label", "better"])
def test_a_recipe_that_lacks_what_tests_are_made_of_is_refused(lacking: str, build: Build) -> None:
    said = "".join(line for line in BASE.splitlines(True) if not line.startswith(lacking))
    assert "the recipe names no" in refused(lambda: build(said))


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://example.org/d",
            "file:///etc/passwd",
            "ftp://example.org/d",
            "https:///d",
            "https://[::1",
            "https://x:99999/d",
        ),
        *(
            "https://localhost/d",
            "https://127.0.0.1/d",
            "https://10.1.2.3/d",
            "https://[::1]/d",
            "https://2130706433/d",
        ),
        *("https://0x7f.1/d", "https://169.254.169.254/d", "https://[::ffff:127.0.0.1]/d", "https://printer.local/d"),
        *("https://user:word@example.org/d", "https://example.org/a b"),
    ],
)
def test_addresses_are_https_and_of_the_internet(url: str, build: Build) -> None:
    assert "url" in refused(lambda: build(f'{BASE}files: {{d.csv: {{url: "{url}"}}}}\n'))


@pytest.mark.parametrize(
    "place", ["http://example.org/d", "file:///etc/passwd", "https://127.0.0.1/d", "//localhost/d"]
)
def test_no_redirect_leads_elsewhere(place: str) -> None:
    answer = requests.Response()
    answer.status_code, answer.url, answer.headers["Location"] = 302, "https://example.org/d", place
    with download._Session() as session:
        assert "its answer leads elsewhere" in refused(lambda: session.get_redirect_target(answer))
        answer.headers["Location"] = "/other"
        assert session.get_redirect_target(answer) == "/other"


@pytest.mark.parametrize(
    "prompt",
    [
        *("{% for i in range(9) %}x{% endfor %}", "{% set x = context ~ context %}", "{% include 'x' %}"),
        "{% macro a() %}{% endmacro %}",
        *("{{ ''.__class__ }}", "{{ context['__class__'] }}", "{{ context|attr('x') }}", "{{ cycler() }}", "{{ _x }}"),
        *(
            "{{ 9 ** 9 ** 9 }}",
            "{{ 'a' * 999999999 }}",
            "{{ '%999999999d' % 1 }}",
            "{{ context|replace('a', 'aaaa') }}",
        ),
        *("{{ context.format(context) }}", "{{ context|center(999999999) }}", "{{", "{{" + "(" * 3000),
    ],
)
def test_prompts_that_reach_or_take_too_much_are_refused(prompt: str) -> None:
    assert "prompt: " in refused(lambda: check_prompt(prompt, "recipe"))


def test_prompts_can_choose_and_shorten() -> None:
    check_prompt(
        "{{context|trim}}{% if kind == 'x' and not context.endswith('?') %}\n\n{{ a.split('\n')[0] }}{% endif %}", ""
    )


# ---------------------------------------------------------------- whose name and whose files


@pytest.mark.parametrize("name", ["mqm", "nnd_x", "two words", ".hidden", "x\u202ey"])
def test_a_set_from_elsewhere_takes_no_name_of_ours_and_no_odd_one(name: str, tmp_path: Path, nnd_home: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "_recipe").write_text(BASE, encoding="utf-8")
    (tmp_path / "d.csv").write_text(ROWS, encoding="utf-8")
    assert "rename" in refused(lambda: build_set(str(tmp_path / name / "_recipe"), tmp_path / "d.csv"))
    assert not nnd_home.exists()


def test_a_set_that_another_recipe_made_stays(build: Build, nnd_home: Path) -> None:
    build(BASE)
    card = nnd_home / "nnd" / "sent" / "README.md"
    before = card.read_text("utf-8")
    other = BASE.replace("[good]", "[bad]")
    assert "--replace" in refused(lambda: build(other))
    assert card.read_text("utf-8") == before
    build(other, replace=True)
    assert card.read_text("utf-8") != before
    build(other)


def test_downloads_of_a_recipe_from_elsewhere_are_no_others(tmp_path: Path) -> None:
    from nnd_tasks import build as module

    path = tmp_path / "sent" / "_recipe"
    path.parent.mkdir()
    path.write_text(BASE + "files: {d.csv: {url: 'https://example.org/d'}}\n", encoding="utf-8")
    assert module._place(find_recipe(str(path))).startswith("sent@")
    assert module._place(find_recipe("mqm")) == ""


def test_an_archive_is_not_kept_under_the_name_of_another_file() -> None:
    assert download._archive_name("https://example.org/a.zip?x=1").endswith("-a.zip")
    for url in ("https://example.org/..", "https://example.org/", "https://example.org/.x"):
        assert re.fullmatch(r"[0-9a-f]{16}-archive", download._archive_name(url))


@pytest.mark.parametrize("recipe", [BASE, f"{BASE}files: {{d.csv: null}}\n", f"{BASE}pattern: '*.csv'\n"])
def test_links_out_of_the_folder_are_not_followed(recipe: str, build: Build, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (tmp_path / "secret.csv").write_text(ROWS, encoding="utf-8")
    (folder / "d.csv").symlink_to(tmp_path / "secret.csv")
    assert "is a link out of" in refused(lambda: build(recipe, source=folder))
    assert build(recipe, source=tmp_path / "secret.csv", file="d.csv").built


def test_a_file_beside_the_one_that_is_named_is_not_read(build: Build, tmp_path: Path) -> None:
    recipe = f"{BASE}files: {{d.csv: null, secret.csv: {{optional: true}}}}\n"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "secret.csv").write_text("no table", encoding="utf-8")
    assert build(recipe).report["default"]["source_sha256"].keys() == {"d.csv"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes by name")
def test_pipes_and_devices_are_refused(build: Build, tmp_path: Path) -> None:
    pipe = tmp_path / "pipes" / "p.csv"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    assert "not a regular file" in refused(lambda: build(BASE, source=pipe))
    assert "table" in refused(lambda: build(BASE, source=pipe.parent))
    os.mkfifo(pipe.parent / "_recipe")
    for path in (pipe.parent, "/dev/zero"):
        assert "not a regular file" in refused(lambda path=path: build_set(str(path)))


@pytest.mark.parametrize("name", ["a\0b/_recipe", f"{'x' * 5000}/_recipe", "~nobody-there/_recipe"])
def test_paths_that_no_file_can_have_are_a_plain_error(name: str) -> None:
    with pytest.raises(NNDError):
        build_set(name)


# ---------------------------------------------------------------- the data


def test_json_that_is_nested_too_deeply_is_refused(build: Build) -> None:
    for content, file in (
        ("[" * 100_000 + "]" * 100_000, "d.json"),
        ('{"c":' + "[" * 100_000 + "]" * 100_000 + "}", "d.jsonl"),
    ):
        assert "nested too deeply" in refused(lambda content=content, file=file: build(BASE, content, file))


def test_a_line_or_a_file_that_is_too_long_is_refused(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_tables, "MAX_LINE", 1000)
    rows = "".join(json.dumps({"c": "q", "t": text, "l": "good"}) + "\n" for text in ("a", "x" * 2000))
    assert "longer than" in refused(lambda: build(BASE, rows, "d.jsonl"))
    monkeypatch.setattr(decoding, "MAX_WHOLE", 1000)
    assert "larger than" in refused(lambda: build(BASE, f"[{rows.strip().replace(chr(10), ',')}]", "d.json"))


def test_a_text_that_is_repeated_for_many_rows_does_not_fill_the_memory(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "MAX_CHARACTERS", 100_000)
    recipe = "context: c\ncandidate: t\nscore: a[].x\nrows: a[]\nmin_gap: 1\n"
    content = json.dumps([{"c": "q", "t": "x" * 1000, "a": [{"x": 1}] * 1000}])
    assert "1,000,000 characters" in refused(lambda: build(recipe, content, "d.json"))
    constant = f"{BASE}constant: {{k: {'x' * 5000}}}\nfield: {{kind: k}}\n"
    assert "characters of text" in refused(lambda: build(constant, ROWS + "q,b,bad\n" * 100))


def test_lists_that_multiply_are_refused(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "MAX_ITEMS", 5000)
    monkeypatch.setattr(flatten, "MAX_ROWS", 5000)
    content = json.dumps([{"c": "q", "b": [1] * 100, "a": [{"t": "t"}] * 100}])
    recipe = "context: c\ncandidate: a[].t\nscore: b\nrows: a[]\nmin_gap: 1\n"
    assert "judgements in lists" in refused(lambda: build(recipe, content, "d.json"))
    each = (
        f"context: c\ncandidate: a[].t\nscore: n\nrows: a[]\nmin_gap: 1\neach: {{n: {[str(i) for i in range(100)]}}}\n"
    )
    assert "more than 5,000 rows" in refused(lambda: build(each, content, "d.json"))


def test_spans_outside_of_the_text_are_left_out() -> None:
    settings = {"column": "s", "start": "a", "end": "b"}
    items = [{"a": -5, "b": 10**30}, {"a": -1, "b": 1}, {"a": 1, "b": 1}, {"a": "x", "b": None}, {"a": 0, "b": 2}]
    assert find_spans(items, "abc", settings, ()) == [{"start": 0, "end": 2}]


def test_spans_are_found_in_bounded_time() -> None:
    settings = {"column": "s", "start": "a", "end": "b", "text": "w"}
    cell = [{"a": 5, "b": 6, "w": "a" * 50_000 + "b"}] * 100
    assert (
        find_spans(cell, "a" * 100_000, settings, ()) == []
    )  # the words are not there, so the positions are of another text
    with pytest.raises(ValueError, match="spans"):
        find_spans(cell * 1000, "a", settings, ())


def test_a_winner_that_is_long_takes_no_time() -> None:
    recipe = Recipe(context="c", pair=("t", "l"), winner="w")
    for text in ("A" + "<" * 200_000 + "!", "A" + "-" * 20_000 + "<" * 20_000 + "-" * 20_000 + "x"):
        with pytest.raises(NNDError, match=r"row 1: a text of .* characters names no winner"):
            winner(text, recipe, "row 1")
    with pytest.raises(NNDError, match="names neither"):
        winner("A" + "-" * 30 + "<" * 30 + "-" * 30 + "x", recipe, "row 1")


# ---------------------------------------------------------------- archives


def tar_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as bundle:
        for info, content in members:
            info.size = len(content)
            bundle.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["../d.csv", "/tmp/nnd-out/d.csv", "a/../../d.csv"])
def test_no_member_leads_out_of_the_folder(name: str, build: Build, tmp_path: Path) -> None:
    archive = tar_of(tmp_path / "a.tar.gz", (tarfile.TarInfo(name), ROWS.encode()))
    assert "leads out of the archive" in refused(lambda: build(BASE, source=archive))
    assert not (tmp_path / "d.csv").exists()


def test_links_in_an_archive_are_not_unpacked(build: Build, tmp_path: Path) -> None:
    link = tarfile.TarInfo("d.csv")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    assert "no table in it" in refused(lambda: build(BASE, source=tar_of(tmp_path / "a.tar.gz", (link, b""))))


def test_a_long_name_in_a_tar_does_not_fill_the_memory(build: Build, tmp_path: Path) -> None:
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
        name = tarfile.TarInfo("x")
        name.type = kind
        archive = tar_of(tmp_path / "a.tar.gz", (name, b"x" * 1_000_000), (tarfile.TarInfo("d.csv"), ROWS.encode()))
        assert "unpacks to more than" in refused(lambda archive=archive: build(BASE, source=archive))


def test_members_that_nobody_wants_count_too(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_STREAM", 1_000_000)
    archive = tar_of(
        tmp_path / "a.tar.gz",
        (tarfile.TarInfo("zeros.bin"), bytes(2_000_000)),
        (tarfile.TarInfo("d.csv"), ROWS.encode()),
    )
    assert "unpacks to more than" in refused(lambda: build(BASE, source=archive))
