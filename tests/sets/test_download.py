"""Downloads and archives: checked, recorded, tried again, and never taken for what they are not.

The publisher is a server of this process on 127.0.0.1; recipes take https only, so theirs are made without that check.
"""

import gzip
import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.publishers.download import RETRIES
from nnd_tasks.publishers.wanted import File
from nnd_tasks.sets.build import build_set, make_set
from nnd_tasks.sets.catalogue import find_recipe
from nnd_tasks.sets.recipe import SetRecipe, make_recipe
from tests.run.local_server import LocalServer
from tests.sets.small_files import QUIZ_FILE, small_text, write_files
from tests.sets.tables import LABELS, make, refusal

ROWS = b"c,t,l\nq,a,good\nq,b,bad\nq,c,bad\n"
OTHER = ROWS.replace(b"q,c,bad\n", b"")
WAY_OUT = "name it: nnd build mine --source FILE_OR_DIR"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Publisher(LocalServer):
    """A server: path -> answers in turn (status and body), the last one for good."""

    path = ""

    def __init__(self):
        super().__init__()
        self.answers = {}
        self.requests = Counter()
        self.short = 0  #: bytes that each answer lacks of its Content-Length

    def serve(self, path, *answers):
        """Set the answers for a path, and return its address."""
        self.answers[path] = [answer if isinstance(answer, tuple) else (200, answer) for answer in answers]
        return f"{self.url}/{path}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        path, publisher = self.path.lstrip("/"), self.server.owner
        turns = publisher.answers.get(path, [(404, b"")])
        status, body = turns[min(publisher.requests[path], len(turns) - 1)]
        publisher.requests[path] += 1
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) + publisher.short))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Say nothing."""


Publisher.handler = Handler


@pytest.fixture
def publisher(monkeypatch):
    """Start a publisher."""
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    with Publisher() as server:
        yield server


def build(**files):
    """Build a set of one table per file, whose addresses need not be https."""
    made = {f"{name}.csv": File.model_construct(**{**File().model_dump(), **file}) for name, file in files.items()}
    recipe = make_recipe({**LABELS, "config": "@file"}, "here").model_copy(update={"files": made})
    return make_set(SetRecipe("mine", Path("_"), "own", recipe=recipe), progress=False)


def kept(home):
    return {path.name: path.read_bytes() for path in home.rglob("*") if path.is_file() and path.suffix != ".lock"}


def zipped(name, content):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(name, content)
    return target.getvalue()


def test_a_file_with_a_known_hash_is_downloaded_once_and_again_when_it_is_damaged(publisher, nnd_home):
    table = {"url": publisher.serve("t.csv", ROWS), "sha256": sha256(ROWS)}
    for _ in range(2):
        made = build(t=table)
        assert (made.tables["t"].num_rows, made.notes) == (2, [])
        assert made.report["t"]["source_sha256"] == {"t.csv": sha256(ROWS)}
    assert publisher.requests == {"t.csv": 1}
    next(nnd_home.rglob("t.csv")).write_bytes(OTHER)
    assert build(t=table).tables["t"].num_rows == 2
    assert publisher.requests == {"t.csv": 2}


@pytest.mark.parametrize("pinned", [True, False])
def test_another_file_than_the_known_one_is_refused_and_not_kept(pinned, publisher, nnd_home):
    table = {"url": publisher.serve("t.csv", ROWS), "sha256": sha256(ROWS) if pinned else None}
    if not pinned:
        unverified = "unverified: t.csv has no published hash; it "
        assert [note for note in build(t=table).notes if note.startswith(f"{unverified}was downloaded")]
        assert [note for note in build(t=table).notes if note.startswith(f"{unverified}is that of {nnd_home}")]
        next(nnd_home.rglob("t.csv")).unlink()
    publisher.serve("t.csv", OTHER)
    message = refusal(build, t=table)
    assert message.startswith(
        f"{table['url']}: what was downloaded is not the file with the known hash (sha256 {sha256(ROWS)})"
    )
    assert WAY_OUT in message
    assert "t.csv" not in kept(nnd_home)


def test_a_page_in_place_of_a_file_without_a_hash_does_not_stay(publisher, nnd_home):
    table = {"url": publisher.serve("t.csv", b"<html>Quota exceeded</html>", ROWS)}
    assert "no row is in it" in refusal(build, t=table)
    assert "t.csv" not in kept(nnd_home)
    assert build(t=table).tables["t"].num_rows == 2
    assert json.loads(kept(nnd_home)["hashes.json"]) == {"t.csv": sha256(ROWS)}


@pytest.mark.parametrize(
    ("answer", "short", "reason"), [((503, b"busy"), 0, "HTTP 503"), (ROWS, 9, ""), (None, 0, "ConnectionError")]
)
def test_a_failed_download_is_one_line_with_the_way_out(answer, short, reason, publisher, nnd_home):
    publisher.short = short
    url = publisher.serve("t.csv", answer) if answer else "http://127.0.0.1:9/t.csv"
    message = refusal(build, t={"url": url})
    assert message.startswith(f"{url}: cannot be downloaded ({reason}")
    assert WAY_OUT in message
    assert "t.csv" not in kept(nnd_home)
    assert publisher.requests == ({"t.csv": 1 + RETRIES} if answer else {})


def test_a_set_without_an_address_says_what_to_name():
    assert "its recipe has no address of t.csv; put t.csv into " in (message := refusal(build, t={}))
    assert message.endswith(WAY_OUT)


# ---------------------------------------------------------------- archives


def test_two_archives_of_one_name_are_two_files(publisher):
    files = {
        name: {"url": publisher.serve(f"{name}/data.zip", zipped("in/t.csv", rows)), "member": "in/t.csv",
               "sha256": sha256(rows)}
        for name, rows in (("one", ROWS), ("two", OTHER))
    }  # fmt: skip
    for _ in range(2):
        made = build(**files)
        assert {name: table.num_rows for name, table in made.tables.items()} == {"one": 2, "two": 1}
        assert made.notes == []
    assert publisher.requests == {"one/data.zip": 1, "two/data.zip": 1}


def test_a_file_is_taken_from_an_archive_that_the_user_has(publisher, tmp_path, monkeypatch):
    (tmp_path / "data.zip").write_bytes(zipped("in/t.csv", ROWS))
    monkeypatch.setenv("NND_SOURCES", str(tmp_path))
    file = {"url": publisher.serve("data.zip", b""), "member": "in/t.csv", "sha256": sha256(ROWS)}
    assert build(one=file).tables["one"].num_rows == 2
    assert publisher.requests == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (zipped("t.csv", OTHER), f"t.csv in it is not the file with the known hash (sha256 {sha256(ROWS)})"),
        (zipped("x.csv", ROWS), "no t.csv is in it"),
        (b"<html>not here</html>", "cannot be unpacked"),
        (zipped("t.csv", ROWS)[:60], "cannot be unpacked"),
    ],
    ids=["other hash", "no such file", "a page", "cut off"],  # an archive has the time in it
)
def test_an_archive_without_the_file_is_refused_and_not_kept(content, words, publisher, nnd_home):
    file = {"url": publisher.serve("data.zip", content), "member": "t.csv", "sha256": sha256(ROWS)}
    assert words in refusal(build, one=file)
    assert set(kept(nnd_home)) <= {"hashes.json"}
    publisher.serve("data.zip", zipped("t.csv", ROWS))
    assert build(one=file).tables["one"].num_rows == 2


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_nothing_of_an_archive_is_written_outside(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    archive = tmp_path / f"a.{kind}"
    if kind == "tar":
        with tarfile.open(archive, "w") as bundle:
            bundle.addfile(tarfile.TarInfo("../out.csv"))
        with pytest.raises(NNDError, match=r"a\.tar: cannot be unpacked"):
            make(archive, **LABELS)
    else:
        archive.write_bytes(zipped("../out.csv", ROWS))
        make(archive, **LABELS)
    assert [*kept(tmp_path)] == [archive.name]


@pytest.mark.parametrize("first", ["t.csv", "./t.csv"])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_file_that_is_twice_in_an_archive_is_refused(kind, first, tmp_path):
    archive = tmp_path / f"a.{kind}"
    with tarfile.open(archive, "w") if kind == "tar" else zipfile.ZipFile(archive, "w") as bundle:
        for name in (first, "t.csv"):
            if kind == "tar":
                bundle.addfile(tarfile.TarInfo(name))
            else:
                bundle.writestr(zipfile.ZipInfo(name), ROWS)
    with pytest.raises(NNDError, match=rf"a\.{kind}: t\.csv is in it twice"):
        make(archive, **LABELS)


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "xlsx"])
def test_an_archive_that_unpacks_to_too_much_is_refused(kind, tmp_path):
    """Of a tar that says how large its first file is, the rest is not read: here there is none."""
    path = tmp_path / f"a.{kind}"
    path.write_bytes(zipped("t.csv", bytes(30 << 20)))
    if kind == "tar.gz":
        member = tarfile.TarInfo("t.csv")
        member.size = 1 << 40
        path.write_bytes(gzip.compress(member.tobuf()))
    with pytest.raises(
        NNDError, match=r"a\.\S+: it unpacks to [\d,]+ MB or more, [\d,]+ times its size; if that is right"
    ):
        make(path, **LABELS)


# ---------------------------------------------------------------- what the user names


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gone.csv", "gone.csv: no such file or folder"),
        ("*.csv", "*.csv: no such file or folder"),
        ("", ": set mine needs a table"),
        ("/dev/null", "is not a regular file"),
        ("~nosuchuser/x", "home directory"),
    ],
)
def test_a_source_that_is_not_there_is_said(source, message, tmp_path):
    with pytest.raises(NNDError, match=re.escape(message)):
        make(Path(source) if source[:1] == "~" else tmp_path / source, **LABELS)


def test_the_file_of_a_set_may_have_another_name_and_a_folder_must_hold_it(tmp_path):
    path = write_files(tmp_path, {"renamed.jsonl": small_text("quiz_design")}) / "renamed.jsonl"
    assert make_set(find_recipe("quiz_design"), path).tables["authors"].num_rows == 5
    with pytest.raises(NNDError, match=f"{tmp_path}: set quiz_design needs {QUIZ_FILE} there"):
        make_set(find_recipe("quiz_design"), tmp_path)


def test_a_link_of_a_sent_set_leads_nowhere_else(tmp_path):
    (tmp_path / "secret.csv").write_bytes(ROWS)
    recipe = "context: c\ncandidate: t\nlabel: l\nbetter: good\nfiles: {t.csv: {}}\n"
    folder = write_files(tmp_path / "sent", {"_recipe": recipe})
    (folder / "t.csv").symlink_to(tmp_path / "secret.csv")
    for source in (folder, None):
        with pytest.raises(NNDError, match="is a link out of"):
            build_set(str(folder), source)


def test_the_files_of_a_set_are_found_in_a_clone_at_any_depth(tmp_path):
    clone = {f"clone/data/{QUIZ_FILE}": small_text("quiz_design"), f"clone/old/{QUIZ_FILE}": "[]"}
    write_files(tmp_path, clone)
    set_recipe = find_recipe("quiz_design")
    address = f"https://example.org/r/main/data/{QUIZ_FILE}"
    files = {QUIZ_FILE: File(url=address)}
    set_recipe = replace(set_recipe, recipe=set_recipe.recipe.model_copy(update={"files": files}))
    assert make_set(set_recipe, tmp_path / "clone").tables["authors"].num_rows == 5
    digest = sha256((tmp_path / "clone/data" / QUIZ_FILE).read_bytes())
    set_recipe = replace(
        set_recipe, recipe=set_recipe.recipe.model_copy(update={"files": {QUIZ_FILE: File(sha256=digest)}})
    )
    (tmp_path / "clone/data" / QUIZ_FILE).rename(tmp_path / "clone/old/other.jsonl")
    assert make_set(set_recipe, tmp_path / "clone").tables["authors"].num_rows == 5
