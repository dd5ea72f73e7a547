"""Downloads from a publisher: checked, kept, tried again, and never taken for what they are not.

The publisher is a server of this process on 127.0.0.1.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import socket
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pooch.core
import pytest
import requests

from nnd_tasks.build import build_set
from nnd_tasks.datasets import read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.recipes import archives, download
from nnd_tasks.recipes.parse import make_recipe
from nnd_tasks.recipes.recipe import File
from nnd_tasks.recipes.shelf import SetRecipe
from tests.recipes.publisher import QUIZ, Answer, Publisher, serve_set, sha256
from tests.recipes.small_files import (
    MQM_COLUMNS,
    MQM_FILE,
    QUIZ_FILE,
    jsonl,
    mqm_rows,
    news_articles,
    quiz_group,
    tsv,
)

CHANGED = jsonl([quiz_group(1, ("Was this here before?", "No error"), ("Were it?", "disfluent"))]).encode()
MQM_BYTES = tsv(MQM_COLUMNS, mqm_rows()).encode()
NEWS = json.dumps(news_articles()).encode()
WAY_OUT = "--source FILE_OR_DIR"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let no retry wait; return how long each would have."""
    waited: list[float] = []
    monkeypatch.setattr(pooch.core, "time", SimpleNamespace(sleep=waited.append))
    return waited


@pytest.fixture
def downloads(nnd_home: Path) -> Path:
    return nnd_home / "downloads" / "quiz_design"


def build(name: str = "quiz_design") -> Any:
    return build_set(name, progress=False)


def refusal(name: str = "quiz_design") -> str:
    with pytest.raises(NNDError) as caught:
        build(name)
    return str(caught.value)


#: Begins the name of an archive: a hash of its address.
HASHED = r"(?<=/)[0-9a-f]{16}-"


def left_behind(folder: Path) -> set[str]:
    """Return the files of a folder; archives have the names that their publisher gives them."""
    found = [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
    return {re.sub(HASHED, "", str(path)).removeprefix(f"{folder}/") for path in found}


# ---------------------------------------------------------------- pinned files


def test_pinned_file_is_downloaded_once_and_built(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path
) -> None:
    quiz_from(publisher.serve("q.jsonl", QUIZ), sha256(QUIZ))
    results = [build(), build()]
    assert [result.built[0].tests for result in results] == [5, 5]
    assert not any("unverified" in note for result in results for note in result.notes)
    assert (downloads / QUIZ_FILE).read_bytes() == QUIZ
    assert publisher.requests == {"q.jsonl": 1}
    assert results[0].report["authors"]["source_sha256"] == {QUIZ_FILE: sha256(QUIZ)}


def test_downloads_have_the_mode_that_the_user_asks_for(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path
) -> None:
    quiz_from(publisher.serve("q.jsonl", QUIZ))
    before = os.umask(0o022)
    try:
        build()
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in downloads.iterdir()} == {
        QUIZ_FILE: 0o644,
        "hashes.json": 0o644,
    }


def test_pinned_file_that_differs_is_refused_and_not_kept(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path, nnd_home: Path
) -> None:
    url = publisher.serve("q.jsonl", CHANGED)
    quiz_from(url, sha256(QUIZ))
    message = refusal()
    assert message.startswith(f"{url}: ")
    assert f"pinned hash (sha256 {sha256(QUIZ)})" in message
    assert WAY_OUT in message
    assert left_behind(downloads) == set()
    assert not (nnd_home / "nnd").exists()


def test_pinned_file_that_was_damaged_on_disk_is_downloaded_again(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path
) -> None:
    quiz_from(publisher.serve("q.jsonl", QUIZ), sha256(QUIZ))
    build()
    (downloads / QUIZ_FILE).write_bytes(CHANGED)
    assert build().built[0].tests == 5
    assert (downloads / QUIZ_FILE).read_bytes() == QUIZ
    assert publisher.requests == {"q.jsonl": 2}


def test_named_source_is_used_without_any_download(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path, tmp_path: Path
) -> None:
    quiz_from(publisher.serve("q.jsonl", QUIZ), sha256(QUIZ))
    (tmp_path / QUIZ_FILE).write_bytes(CHANGED)
    assert build_set("quiz_design", tmp_path / QUIZ_FILE).built[0].tests == 1, "what the user names needs no hash"
    assert not publisher.requests
    assert not downloads.exists()


# ---------------------------------------------------------------- files without a published hash


def test_unpinned_file_is_recorded_at_the_first_download_and_reported(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path
) -> None:
    quiz_from(publisher.serve("q.jsonl", QUIZ))
    first, second = build(), build()
    for result in (first, second):
        assert sum("unverified" in note and QUIZ_FILE in note for note in result.notes) == 1
    assert json.loads((downloads / "hashes.json").read_text("utf-8")) == {QUIZ_FILE: sha256(QUIZ)}
    assert publisher.requests == {"q.jsonl": 1}
    assert first.built == second.built


def test_unpinned_file_that_its_publisher_changed_is_refused(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path
) -> None:
    url = publisher.serve("q.jsonl", QUIZ)
    quiz_from(url)
    build()
    (downloads / QUIZ_FILE).unlink()
    publisher.serve("q.jsonl", CHANGED)
    message = refusal()
    assert message.startswith(f"{url}: ")
    assert f"recorded at the first download hash (sha256 {sha256(QUIZ)})" in message
    assert WAY_OUT in message
    assert left_behind(downloads) == {"hashes.json"}
    assert json.loads((downloads / "hashes.json").read_text("utf-8")) == {QUIZ_FILE: sha256(QUIZ)}


def test_unpinned_file_that_was_damaged_on_disk_is_downloaded_again(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path
) -> None:
    quiz_from(publisher.serve("q.jsonl", QUIZ))
    build()
    (downloads / QUIZ_FILE).write_bytes(CHANGED)
    assert build().built[0].tests == 5
    assert publisher.requests == {"q.jsonl": 2}


def test_page_in_place_of_an_unpinned_file_does_not_block_later_builds(
    publisher: Publisher, quiz_from: Callable[..., None]
) -> None:
    quiz_from(publisher.serve("q.jsonl", b"<html>Quota exceeded, come back tomorrow</html>", QUIZ))
    assert "is not valid JSON" in refusal()
    assert build().built[0].tests == 5, "the page is not kept as the file"


def test_first_hash_is_recorded_even_when_a_later_file_fails(
    publisher: Publisher, nnd_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = File(MQM_FILE, publisher.serve("a.tsv", MQM_BYTES))
    second = File("mqm_ted_ende.tsv", publisher.serve("b.tsv", Answer(b"", 503)), sha256(MQM_BYTES))
    serve_set(monkeypatch, "mqm", first, second)
    assert "HTTP 503" in refusal("mqm")
    # What was downloaded first is what counts, whatever happens to the file until the second one can be had.
    (nnd_home / "downloads/mqm" / MQM_FILE).write_bytes(MQM_BYTES.replace(b"Major", b"Minor"))
    publisher.serve("b.tsv", MQM_BYTES)
    report = build("mqm").report["newstest2021_ende"]
    assert report["source_sha256"][MQM_FILE] == sha256(MQM_BYTES)


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"\xff\xfe", b"[" * 5000], ids=["broken", "no object", "binary", "deep"]
)
def test_broken_record_of_hashes_is_refused_by_name(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path, content: bytes
) -> None:
    quiz_from(publisher.serve("q.jsonl", QUIZ))
    build()
    (downloads / "hashes.json").write_bytes(content)
    assert str(downloads / "hashes.json") in refusal()


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("status", [404, 403, 500])
def test_http_error_tells_its_status_and_how_to_pass_the_file(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path, status: int
) -> None:
    url = publisher.serve("q.jsonl", Answer(b"an error page", status))
    quiz_from(url)
    message = refusal()
    assert message.startswith(f"{url}: cannot be downloaded (HTTP {status})")
    assert "nnd build quiz_design --source FILE_OR_DIR" in message
    assert left_behind(downloads) == set(), "an error page is not kept"
    assert publisher.requests["q.jsonl"] == 1 + download.RETRIES


def test_refused_connection_tells_how_to_pass_the_file(publisher: Publisher, quiz_from: Callable[..., None]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]  # nobody listens there after this
    quiz_from(f"http://127.0.0.1:{port}/q.jsonl")
    message = refusal()
    assert "cannot be downloaded (ConnectionError)" in message
    assert WAY_OUT in message


def test_server_that_never_answers_ends_in_a_timeout(
    publisher: Publisher, quiz_from: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        quiz_from(f"http://127.0.0.1:{silent.getsockname()[1]}/q.jsonl")
        message = refusal()
    assert "cannot be downloaded (ReadTimeout)" in message
    assert WAY_OUT in message


@pytest.mark.parametrize("pinned", [None, sha256(QUIZ)], ids=["unpinned", "pinned"])
def test_truncated_answer_is_never_taken_for_the_file(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path, pinned: str | None
) -> None:
    cut = QUIZ[: QUIZ.index(b"\n") + 1]  # the first line: valid JSON Lines of one group
    quiz_from(publisher.serve("q.jsonl", Answer(cut, promised=len(QUIZ))), pinned)
    assert WAY_OUT in refusal()
    assert left_behind(downloads) == set()
    assert publisher.requests["q.jsonl"] == 1 + download.RETRIES


@pytest.mark.parametrize(
    "failure",
    [Answer(b"busy", 503), Answer(QUIZ[:40], promised=len(QUIZ)), Answer(CHANGED)],
    ids=["busy", "truncated", "other content"],
)
def test_failure_that_passes_is_tried_again(
    publisher: Publisher, quiz_from: Callable[..., None], failure: Answer, waits: list[float]
) -> None:
    quiz_from(publisher.serve("q.jsonl", failure, failure, QUIZ), sha256(QUIZ))
    assert build().built[0].tests == 5
    assert publisher.requests == {"q.jsonl": 3}
    assert len(waits) == 2, "it waits before it tries again"
    assert all(seconds > 0 for seconds in waits)


@pytest.mark.parametrize("location", ["http://", "http://[half/", "http://127.0.0.1:999999/", "ftp://127.0.0.1/q"])
def test_redirect_to_nowhere_is_no_hash_mismatch(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path, location: str
) -> None:
    quiz_from(publisher.serve("q.jsonl", Answer(b"", 302, location=location)), sha256(QUIZ))
    message = refusal()
    assert "cannot be downloaded" in message, message
    assert WAY_OUT in message
    assert left_behind(downloads) == set()


def test_broken_proxy_setting_is_no_hash_mismatch(
    quiz_from: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(variable, "http://")
    quiz_from("http://publisher.invalid/q.jsonl")
    message = refusal()
    assert "cannot be downloaded" in message, message


def test_redirect_is_followed(publisher: Publisher, quiz_from: Callable[..., None]) -> None:
    target = publisher.serve("moved.jsonl", QUIZ)
    quiz_from(publisher.serve("q.jsonl", Answer(b"", 302, location=target)), sha256(QUIZ))
    assert build().built[0].tests == 5


def test_home_that_cannot_be_written_is_refused_with_the_way_to_change_it(
    publisher: Publisher, quiz_from: Callable[..., None], nnd_home: Path
) -> None:
    quiz_from(publisher.serve("q.jsonl", QUIZ))
    nnd_home.write_text("a file where a folder belongs")
    message = refusal()
    assert "cannot be written" in message
    assert "NND_HOME" in message


def test_program_error_of_the_network_library_stays_what_it_is(
    publisher: Publisher, quiz_from: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiz_from(publisher.serve("q.jsonl", QUIZ))

    def broken(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(requests.Session, "get", broken)
    with pytest.raises(ZeroDivisionError):
        build()


def test_file_of_another_count_than_the_published_one_is_not_taken_for_the_file(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = QUIZ[: QUIZ.index(b"\n") + 1]
    file = File(QUIZ_FILE, publisher.serve("q.jsonl", Answer(cut, promised=-1), QUIZ))
    serve_set(monkeypatch, "quiz_design", file, published={"authors": 5})
    first = build()
    assert first.built[0].tests < 5
    assert any("another version of the file?" in note for note in first.notes)
    assert any(QUIZ_FILE in note and "not kept" in note for note in first.notes)
    assert left_behind(downloads) <= {"hashes.json"}
    second = build()
    assert second.built[0].tests == 5
    assert not any("not kept" in note for note in second.notes)
    assert json.loads((downloads / "hashes.json").read_text("utf-8")) == {QUIZ_FILE: sha256(QUIZ)}


def test_answer_that_unpacks_to_more_than_the_limit_is_refused(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_BYTES", 1 << 20)
    url = publisher.serve("q.jsonl", Answer(gzip.compress(bytes(8 << 20)), encoding="gzip"))
    quiz_from(url)
    message = refusal()
    assert message.startswith(f"{url}: is larger than 1 MiB")
    assert WAY_OUT in message
    assert left_behind(downloads) == set()
    assert publisher.requests == {"q.jsonl": 1}, "it is not tried again"


def test_server_that_trickles_is_given_up(
    publisher: Publisher, quiz_from: Callable[..., None], downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "PATIENCE", 0.5)
    url = publisher.serve("q.jsonl", Answer(QUIZ, trickle=0.05))
    quiz_from(url)
    start = monotonic()
    message = refusal()
    assert monotonic() - start < 5
    assert message.startswith(f"{url}: the download takes longer than")
    assert WAY_OUT in message
    assert left_behind(downloads) == set()


# ---------------------------------------------------------------- archives

CNN, BBC = "human_annotations/cnn_human.json", "human_annotations/bbc_human.json"


def archive(members: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in members.items():
            bundle.writestr(name, data)
    return target.getvalue()


BUNDLE = archive({CNN: NEWS, BBC: NEWS, "human_annotations/README": b"not wanted"})


@pytest.fixture
def news_from(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what sets the archive that news_gpt3 is taken from."""

    def set_files(url: str, cnn: str | None = sha256(NEWS), bbc: str | None = sha256(NEWS)) -> None:
        files = (
            File("cnn_human.json", url, cnn, member=CNN, config="cnn", optional=True),
            File("bbc_human.json", url, bbc, member=BBC, config="bbc", optional=True),
        )
        serve_set(monkeypatch, "news_gpt3", *files)

    return set_files


@pytest.fixture
def news_downloads(nnd_home: Path) -> Path:
    return nnd_home / "downloads" / "news_gpt3"


def test_archive_is_downloaded_once_for_all_its_members(
    publisher: Publisher, news_from: Callable[..., None], news_downloads: Path
) -> None:
    news_from(publisher.serve("votes.zip", BUNDLE))
    for _ in range(2):
        result = build("news_gpt3")
        assert {s.name: s.tests for s in result.built if not s.name.endswith("_clean")} == {"cnn": 3, "bbc": 3}
        assert not any("unverified" in note for note in result.notes), "the members have pinned hashes"
    assert publisher.requests == {"votes.zip": 1}
    assert left_behind(news_downloads) == {"votes.zip", "cnn_human.json", "bbc_human.json"}
    assert (news_downloads / "bbc_human.json").read_bytes() == NEWS


def test_two_archives_of_one_name_are_two_files(publisher: Publisher, nnd_home: Path, tmp_path: Path) -> None:
    """A recipe of one's own takes a file from each of ``a/main.zip`` and ``b/main.zip``; the members have no known hash."""
    folder = tmp_path / "mine"
    tables = {one: f"q,chosen,rejected\nQ,good {one},bad\n".encode() for one in "ab"}
    urls = {one: publisher.serve(f"{one}/main.zip", archive({"t.csv": tables[one]})) for one in "ab"}
    files = {f"{one}.csv": File(f"{one}.csv", urls[one], member="t.csv") for one in "ab"}
    made = make_recipe({"context": "q", "chosen": "chosen", "rejected": "rejected", "files": {}})
    mine = SetRecipe("mine", folder / "_recipe", replace(made, files=files), shipped=False)
    for _ in range(2):
        result = build_set(mine, progress=False)
        assert {row["high"] for row in read_table(result.folder).to_pylist()} == {"good a", "good b"}
        assert result.report["default"]["source_sha256"] == {f"{one}.csv": sha256(tables[one]) for one in "ab"}
        assert [note.split()[:2] for note in result.notes[:2]] == [["unverified:", f"{one}.csv"] for one in "ab"]
    assert publisher.requests == {"a/main.zip": 1, "b/main.zip": 1}
    recorded = nnd_home / "downloads" / "mine" / "hashes.json"
    assert json.loads(recorded.read_text("utf-8")) == {f"{one}.csv": sha256(tables[one]) for one in "ab"}


def test_member_without_a_published_hash_must_stay_what_it_was(
    publisher: Publisher, news_from: Callable[..., None], news_downloads: Path
) -> None:
    news_from(publisher.serve("votes.zip", BUNDLE), cnn=None)
    assert any("unverified" in note and "cnn_human.json" in note for note in build("news_gpt3").notes)
    for path in news_downloads.glob("*.zip"):
        path.unlink()
    publisher.serve("votes.zip", archive({CNN: NEWS + b" ", BBC: NEWS}))
    message = refusal("news_gpt3")
    assert f"{CNN} is not the file with the recorded at the first download hash (sha256 {sha256(NEWS)})" in message
    assert "cnn_human.json" not in left_behind(news_downloads)


def test_archive_of_a_wrong_member_does_not_block_later_builds(
    publisher: Publisher, news_from: Callable[..., None]
) -> None:
    news_from(publisher.serve("votes.zip", archive({CNN: b"<html>", BBC: NEWS}), BUNDLE), cnn=None)
    assert "is not valid JSON" in refusal("news_gpt3")
    assert {summary.name for summary in build("news_gpt3").built} >= {"cnn", "bbc"}


def test_archive_whose_member_changed_is_refused_and_the_member_not_kept(
    publisher: Publisher, news_from: Callable[..., None], news_downloads: Path
) -> None:
    news_from(publisher.serve("votes.zip", archive({CNN: NEWS + b" ", BBC: NEWS})))
    message = refusal("news_gpt3")
    assert f"{CNN} is not the file with the pinned hash (sha256 {sha256(NEWS)})" in message
    assert "cnn_human.json" not in left_behind(news_downloads)


def test_archive_without_the_member_is_refused_by_name(
    publisher: Publisher, news_from: Callable[..., None], news_downloads: Path
) -> None:
    news_from(publisher.serve("votes.zip", archive({CNN: NEWS})))
    message = refusal("news_gpt3")
    assert f"no zip or tar with {BBC} in it" in message
    assert str(news_downloads / "votes.zip") in re.sub(HASHED, "", message)


def damaged(data: bytes) -> bytes:
    """Return ``data`` with the compressed bytes of its first member overwritten; the directory stays."""
    start = 30 + len(CNN)
    return data[:start] + b"\xff" * 60 + data[start + 60 :]


def unended(data: bytes) -> bytes:
    """Return ``data`` with the directory entry of its first member naming a length beyond the end of its stream."""
    info = zipfile.ZipFile(io.BytesIO(data)).infolist()[0]
    entry = data.index(b"PK\x01\x02")
    size = (info.compress_size - 10).to_bytes(4, "little")
    return data[: entry + 20] + size + data[entry + 24 :]


@pytest.mark.parametrize(
    "content",
    [b"<html>not here</html>", BUNDLE[: len(BUNDLE) // 2], damaged(BUNDLE), unended(BUNDLE)],
    ids=["page", "half", "damaged member", "short member"],
)
def test_archive_that_cannot_be_unpacked_is_refused_by_name(
    publisher: Publisher, news_from: Callable[..., None], news_downloads: Path, content: bytes
) -> None:
    news_from(publisher.serve("votes.zip", content))
    assert str(news_downloads / "votes.zip") in re.sub(HASHED, "", refusal("news_gpt3"))
    assert "cnn_human.json" not in left_behind(news_downloads)


def test_page_in_place_of_an_archive_does_not_stay(
    publisher: Publisher, news_from: Callable[..., None], news_downloads: Path
) -> None:
    news_from(publisher.serve("votes.zip", b"<html>not here</html>"))
    message = refusal("news_gpt3")
    assert "build again" in message
    assert WAY_OUT in message
    assert left_behind(news_downloads) == set()
    publisher.serve("votes.zip", BUNDLE)
    assert {s.name for s in build("news_gpt3").built} >= {"cnn", "bbc"}


def test_nothing_of_an_archive_is_written_but_the_wanted_members_under_their_own_names(
    publisher: Publisher, news_from: Callable[..., None], news_downloads: Path, nnd_home: Path, tmp_path: Path
) -> None:
    escapes = dict.fromkeys(
        ("../out", "../../../out", f"{tmp_path}/out", "..\\out", "human_annotations/../../out"), b"out"
    )
    news_from(publisher.serve("votes.zip", archive({**escapes, CNN: NEWS, BBC: NEWS, "more": b"not wanted"})))
    before = left_behind(tmp_path)
    build("news_gpt3")
    assert left_behind(news_downloads) == {"votes.zip", "cnn_human.json", "bbc_human.json"}
    new = left_behind(tmp_path) - before
    assert {name for name in new if not name.startswith("nnd_home/nnd/")} == {
        str((news_downloads / name).relative_to(tmp_path)) for name in ("votes.zip", "cnn_human.json", "bbc_human.json")
    }


def claiming(data: bytes, size: int) -> bytes:
    """Return ``data`` with its first member said to unpack to ``size`` bytes."""
    entry = data.index(b"PK\x01\x02")
    return data[: entry + 24] + size.to_bytes(4, "little") + data[entry + 28 :]


def test_member_that_is_too_large_is_refused_unread(
    publisher: Publisher, news_from: Callable[..., None], news_downloads: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_UNPACKED", 1 << 20)
    bomb = bytes((1 << 20) + 1)
    news_from(publisher.serve("votes.zip", archive({CNN: bomb, BBC: NEWS})), sha256(bomb))
    assert re.sub(HASHED, "", refusal("news_gpt3")) == (
        f"{news_downloads / 'votes.zip'}: {CNN} is larger than 1 MiB, so the archive is not kept; build again, or download it by "
        "hand and pass it with: nnd build news_gpt3 --source FILE_OR_DIR"
    )
    assert left_behind(news_downloads) == set()


def test_archive_of_too_many_members_is_refused_unread(
    publisher: Publisher, news_from: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_DIRECTORY_BYTES", 10_000)
    news_from(publisher.serve("votes.zip", archive({CNN: NEWS, BBC: NEWS, **{f"{i:0100}": b"" for i in range(100)}})))
    assert "more members than" in refusal("news_gpt3")


def test_member_that_is_larger_than_it_says_is_never_held_as_a_whole(
    publisher: Publisher, news_from: Callable[..., None], news_downloads: Path
) -> None:
    bomb = bytes(64 << 20)
    news_from(publisher.serve("votes.zip", claiming(archive({CNN: bomb, BBC: NEWS}), 1000)), sha256(bomb))
    del bomb
    tracemalloc.start()
    try:
        assert f"no zip or tar with {CNN} in it" in refusal("news_gpt3")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert left_behind(news_downloads) == set()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=["bzip2", "lzma"])
def test_member_that_cannot_be_unpacked_step_by_step_is_refused(
    publisher: Publisher, news_from: Callable[..., None], method: int
) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as bundle:
        bundle.writestr(CNN, NEWS)
        bundle.writestr(BBC, NEWS)
    news_from(publisher.serve("votes.zip", target.getvalue()))
    assert f"no zip or tar with {CNN} in it" in refusal("news_gpt3")


@pytest.mark.slow
def test_only_nnd_errors_come_out_of_mutated_archives(tmp_path: Path) -> None:
    file = File("cnn_human.json", "http://publisher.invalid/votes.zip", sha256(NEWS), CNN)
    good = archive({CNN: NEWS, BBC: NEWS})
    results: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(10_000):
        dice = random.Random(number)
        data = bytearray(good)
        for _ in range(dice.choice([1, 1, 2, 8])):
            at = dice.randrange(len(data)) if dice.random() < 0.5 else len(data) - 1 - dice.randrange(200)
            match dice.randrange(4):
                case 0:
                    data[at] ^= 1 << dice.randrange(8)
                case 1:
                    data[at : at + 4] = bytes(dice.choice([0, 255, dice.randrange(256)]) for _ in data[at : at + 4])
                case 2:
                    del data[at : at + dice.choice([1, 4, 100])]
                case _:
                    data[at:at] = data[at : at + dice.choice([1, 4, 100])]
        path = tmp_path / "votes.zip"
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        try:
            assert download._extract(path, file, tmp_path, {}, "").read_bytes() == NEWS
            results["unpacked"] += 1
        except NNDError as error:
            results["refused"] += 1
            assert str(error).startswith(str(path))  # noqa: PT017
        except Exception as error:
            wrong.append(f"{number}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong[:10])
    assert min(results["unpacked"], results["refused"]) > 1000, results
