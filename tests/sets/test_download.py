"""Downloads and archives: checked, recorded, tried again, and never taken for what they are not.

The publisher is a server of this process on 127.0.0.1; recipes take https only, so theirs are made without that check.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pooch.core
import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.sets.build import Made, build_set, make_set
from nnd_tasks.sets.fetch import RETRIES
from nnd_tasks.sets.recipe import File, make_recipe
from nnd_tasks.sets.shelf import SetRecipe, find_recipe
from tests.sets.small_files import QUIZ_FILE, SMALL
from tests.sets.tables import LABELS, make, read_tests

ROWS = b"c,t,l\nq,a,good\nq,b,bad\nq,c,bad\n"
OTHER = ROWS.replace(b"q,c,bad\n", b"")
WAY_OUT = "pass it with --source FILE_OR_DIR"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass
class Publisher:
    """A server: path -> answers in turn (status and body), the last one for good."""

    url: str = ""
    answers: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    short: int = 0  #: bytes that each answer lacks of its Content-Length

    def serve(self, path: str, *answers: bytes | tuple[int, bytes]) -> str:
        """Set the answers for a path, and return its address."""
        self.answers[path] = [answer if isinstance(answer, tuple) else (200, answer) for answer in answers]
        return f"{self.url}/{path}"


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    """Start a publisher; no retry waits."""
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pooch.core, "time", SimpleNamespace(sleep=lambda seconds: None))
    state = Publisher()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.lstrip("/")
            turns = state.answers.get(path, [(404, b"")])
            status, body = turns[min(state.requests[path], len(turns) - 1)]
            state.requests[path] += 1
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) + state.short))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def served(**files: dict[str, Any]) -> SetRecipe:
    """Return the recipe of a set of one table per file, whose addresses need not be https."""
    made = {f"{name}.csv": File.model_construct(**{**File().model_dump(), **file}) for name, file in files.items()}
    recipe = make_recipe({**LABELS, "config": "@file"}, "here").model_copy(update={"files": made})
    return SetRecipe("mine", Path("_"), "own", recipe)


def build(**files: dict[str, Any]) -> Made:
    return make_set(served(**files), progress=False)


def refusal(**files: dict[str, Any]) -> str:
    with pytest.raises(NNDError) as caught:
        build(**files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def kept(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.rglob("*") if path.is_file() and path.suffix != ".lock"}


def zipped(members: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in members.items():
            bundle.writestr(name, data)
    return target.getvalue()


def test_a_file_with_a_known_hash_is_downloaded_once_and_again_when_it_is_damaged(
    publisher: Publisher, nnd_home: Path
) -> None:
    table = {"url": publisher.serve("t.csv", ROWS), "sha256": sha256(ROWS)}
    for _ in range(2):
        made = build(t=table)
        assert (len(read_tests(made, "t")), made.notes) == (2, [])
        assert made.report["t"]["source_sha256"] == {"t.csv": sha256(ROWS)}
    assert publisher.requests == {"t.csv": 1}
    next(nnd_home.rglob("t.csv")).write_bytes(OTHER)
    assert len(read_tests(build(t=table), "t")) == 2
    assert publisher.requests == {"t.csv": 2}


@pytest.mark.parametrize("pinned", [True, False])
def test_another_file_than_the_known_one_is_refused_and_not_kept(
    pinned: bool, publisher: Publisher, nnd_home: Path
) -> None:
    url = publisher.serve("t.csv", OTHER if pinned else ROWS)
    table = {"url": url, "sha256": sha256(ROWS) if pinned else None}
    if not pinned:
        made = build(t=table)
        assert [note for note in made.notes if "unverified: t.csv has no published hash" in note]
        next(nnd_home.rglob("t.csv")).unlink()
        publisher.serve("t.csv", OTHER)
    message = refusal(t=table)
    assert message.startswith(f"{url}: what was downloaded is not the file with the known hash (sha256 {sha256(ROWS)})")
    assert WAY_OUT in message
    assert "t.csv" not in kept(nnd_home)


def test_a_page_in_place_of_a_file_without_a_hash_does_not_stay(publisher: Publisher, nnd_home: Path) -> None:
    table = {"url": publisher.serve("t.csv", b"<html>Quota exceeded</html>", ROWS)}
    assert "no row is in it" in refusal(t=table)
    assert "t.csv" not in kept(nnd_home)
    assert len(read_tests(build(t=table), "t")) == 2
    assert json.loads(kept(nnd_home)["hashes.json"]) == {"t.csv": sha256(ROWS)}


@pytest.mark.parametrize("kind", ["status", "truncated", "nobody"])
def test_a_failed_download_is_one_line_with_the_way_out(kind: str, publisher: Publisher, nnd_home: Path) -> None:
    url = publisher.serve("t.csv", (503, b"busy") if kind == "status" else ROWS)
    publisher.short = 9 if kind == "truncated" else 0
    url = "http://127.0.0.1:9/t.csv" if kind == "nobody" else url
    message = refusal(t={"url": url})
    assert message.startswith(f"{url}: cannot be downloaded ({'HTTP 503' if kind == 'status' else ''}")
    assert WAY_OUT in message
    assert "t.csv" not in kept(nnd_home)
    assert kind == "nobody" or publisher.requests == {"t.csv": 1 + RETRIES}


def test_a_failure_that_passes_is_tried_again(publisher: Publisher) -> None:
    url = publisher.serve("t.csv", (503, b""), OTHER, ROWS)
    assert len(read_tests(build(t={"url": url, "sha256": sha256(ROWS)}), "t")) == 2


def test_a_set_without_an_address_says_what_to_name() -> None:
    assert "its recipe has no address of t.csv; name it: nnd build mine --source FILE" in refusal(t={})


# ---------------------------------------------------------------- archives


def test_two_archives_of_one_name_are_two_files(publisher: Publisher) -> None:
    files = {
        name: {
            "url": publisher.serve(f"{name}/data.zip", zipped({"in/t.csv": rows})),
            "member": "in/t.csv",
            "sha256": sha256(rows),
        }
        for name, rows in (("one", ROWS), ("two", OTHER))
    }
    for _ in range(2):
        made = build(**files)
        assert {name: table.num_rows for name, table in made.tables.items()} == {"one": 2, "two": 1}
        assert made.notes == []
    assert publisher.requests == {"one/data.zip": 1, "two/data.zip": 1}


def test_a_member_without_a_hash_is_recorded_and_said(publisher: Publisher) -> None:
    file = {"url": publisher.serve("data.zip", zipped({"t.csv": ROWS}), zipped({"t.csv": OTHER})), "member": "t.csv"}
    assert "unverified: one.csv" in build(one=file).notes[0]
    assert build(one=file).tables["one"].num_rows == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (zipped({"t.csv": OTHER}), f"t.csv in it is not the file with the known hash (sha256 {sha256(ROWS)})"),
        (zipped({"x.csv": ROWS}), "no t.csv is in it"),
        (b"<html>not here</html>", "cannot be unpacked"),
        (zipped({"t.csv": ROWS})[:60], "cannot be unpacked"),
    ],
)
def test_an_archive_without_the_file_is_refused_and_not_kept(
    content: bytes, words: str, publisher: Publisher, nnd_home: Path
) -> None:
    file = {"url": publisher.serve("data.zip", content), "member": "t.csv", "sha256": sha256(ROWS)}
    assert words in refusal(one=file)
    assert set(kept(nnd_home)) <= {"hashes.json"}
    publisher.serve("data.zip", zipped({"t.csv": ROWS}))
    assert build(one=file).tables["one"].num_rows == 2


@pytest.mark.parametrize("ending", ["zip", "tar.gz", "tar"])
def test_an_archive_may_be_named_as_the_source(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"votes.{ending}"
    if ending == "zip":
        path.write_bytes(zipped({"deep/t.csv": ROWS, "deep/README": b"no table"}))
    else:
        with tarfile.open(path, "w:gz" if ending == "tar.gz" else "w") as bundle:
            info = tarfile.TarInfo("deep/t.csv")
            info.size = len(ROWS)
            bundle.addfile(info, io.BytesIO(ROWS))
    assert len(read_tests(make(path, **LABELS))) == 2


def test_nothing_of_an_archive_is_written_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    before = kept(tmp_path)
    with tarfile.open(tmp_path / "a.tar", "w") as bundle:
        bundle.addfile(tarfile.TarInfo("../out.csv"))
    with pytest.raises(NNDError, match=r"a\.tar: cannot be unpacked"):
        make(tmp_path / "a.tar", **LABELS)
    (tmp_path / "a.tar").unlink()
    (tmp_path / "a.zip").write_bytes(zipped({"../out.csv": ROWS}))
    make(tmp_path / "a.zip", **LABELS)
    (tmp_path / "a.zip").unlink()
    assert kept(tmp_path) == before


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnd_tasks.sets.fetch.MAX_BYTES", 1 << 20)
    (tmp_path / "a.zip").write_bytes(zipped({"t.csv": bytes(2 << 20)}))
    with pytest.raises(NNDError, match="it unpacks to more than 1 MiB"):
        make(tmp_path / "a.zip", **LABELS)


# ---------------------------------------------------------------- what the user names


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gone.csv", "gone.csv: no such file or folder"),
        ("*.csv", "*.csv: no such file or folder"),
        ("empty", "empty: set mine needs a table"),
        ("/dev/null", "is not a regular file"),
        ("~nosuchuser/x", "home directory"),
    ],
)
def test_a_source_that_is_not_there_is_said(source: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NNDError) as caught:
        make(Path(source) if source[0] in "/~" else tmp_path / source, **LABELS)
    assert message in str(caught.value)


def test_the_file_of_a_set_may_have_another_name_and_a_folder_must_hold_it(tmp_path: Path) -> None:
    path = tmp_path / "renamed.jsonl"
    path.write_text(SMALL["quiz_design"]()[QUIZ_FILE], encoding="utf-8")
    assert make_set(find_recipe("quiz_design"), path).tables["authors"].num_rows == 5
    with pytest.raises(NNDError, match=f"{tmp_path}: set quiz_design needs {QUIZ_FILE} there"):
        make_set(find_recipe("quiz_design"), tmp_path)


def test_a_link_of_a_sent_set_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_bytes(ROWS)
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "t.csv").symlink_to(tmp_path / "secret.csv")
    (folder / "_recipe").write_text(
        "context: c\ncandidate: t\nlabel: l\nbetter: good\nfiles: {t.csv: {}}\n", encoding="utf-8"
    )
    with pytest.raises(NNDError, match="is a link out of"):
        build_set(str(folder), folder)
    with pytest.raises(NNDError, match="is a link out of"):
        build_set(str(folder))
