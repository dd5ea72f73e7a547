"""Uploads to a hub on this machine: what gets there, and what every kind of failure leaves there."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hub_upload.plan import make_plan
from nnd_tasks.datasets import read_report
from tests.hub_upload.conftest import Client, Done, SetMaker, some_tests
from tests.hub_upload.hub_server import READ_ONLY, TOKEN, Fault, Handler, Hub

ATTRIBUTES = {".gitattributes"}
#: The card of an earlier version of the set, as far as publishing reads it.
OLD = b"---\nnnd_set: mine\n---\nold"


def head(hub: Hub, repo: str = "nnd/mine") -> dict[str, bytes]:
    return hub.repos[repo].commits[-1][1]


def secrets_in(client: Client, *done: Done) -> list[str]:
    """Return where the token, or a part of it, can be read: outputs and every file of the user's."""
    part = TOKEN[3:20]
    found = [f"output {i}" for i, one in enumerate(done) if part in one.out + one.err]
    for folder in (client.root, client.home):
        found += [str(path) for path in folder.rglob("*") if path.is_file() and part.encode() in path.read_bytes()]
    return found


def test_everything_arrives_in_one_commit_with_a_tag(client: Client, own_set: SetMaker) -> None:
    own_set()
    done = client.publish("mine")
    assert done.status == 0, done.err
    plan = make_plan("mine", "nnd/mine")
    repo = client.hub.repos["nnd/mine"]
    assert {path: head(client.hub)[path] for path in head(client.hub) if path not in ATTRIBUTES} == {
        file.path: file.data for file in plan.files
    }
    assert len(repo.commits) == 2, "the hub's first one, and ours"
    assert repo.tags == {plan.version: repo.commits[-1][0]}
    assert not repo.private
    assert f"published with its texts: {client.hub.url}/datasets/nnd/mine" in done.out
    assert secrets_in(client, done) == []


def test_nothing_changed_nothing_uploaded(client: Client, own_set: SetMaker) -> None:
    own_set()
    assert client.publish("mine").status == 0
    before = client.hub.state()
    client.hub.requests.clear()
    done = client.publish("mine")
    assert done.status == 0
    assert "nothing was uploaded" in done.out
    assert client.hub.state() == before
    assert client.hub.writes() == []


def test_a_new_card_keeps_the_version_and_new_data_make_one(client: Client, own_set: SetMaker) -> None:
    own_set(tables={"all": some_tests(), "part": some_tests(12)})
    assert client.publish("mine").status == 0
    repo = client.hub.repos["nnd/mine"]
    first = dict(repo.tags)
    repo.add({**head(client.hub), "LICENSE": b"by others", "extra/test-00000-of-00001.txt": b"theirs"})

    own_set(tables={"all": some_tests(), "part": some_tests(12)}, body="# M\n\n```bibtex\n@misc{a,}\n```\n")
    done = client.publish("mine")
    assert "uploaded in one commit: README.md\n" in done.out
    assert repo.tags == first

    own_set(tables={"all": some_tests(word="fine")}, obsolete=["part"])
    done = client.publish("mine")
    assert done.status == 0, done.err
    assert "removed in the same commit: part/test-00000-of-00001.parquet" in done.out
    assert len(repo.tags) == 2
    assert first.items() < repo.tags.items(), "the old version stays"
    kept = {".gitattributes", "LICENSE", "extra/test-00000-of-00001.txt"}
    assert set(head(client.hub)) == kept | {"README.md", "build_report.json", "all/test-00000-of-00001.parquet"}


def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it never came to this"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("stop", "method", "path"),
    [(signal.SIGKILL, "PUT", "/lfs/"), (signal.SIGINT, "PUT", "/lfs/"), (signal.SIGKILL, "POST", "/commit/")],
)
def test_an_interrupted_upload_changes_nothing_and_can_be_repeated(
    client: Client, own_set: SetMaker, stop: signal.Signals, method: str, path: str
) -> None:
    own_set()
    assert client.publish("mine").status == 0
    before = client.hub.state()
    own_set(tables={"all": some_tests(word="fine")})
    client.hub.requests.clear()
    client.hub.faults = [Fault(method, path, lambda handler: handler.server.released.wait(60))]
    process = client.start("-m", "hub_upload", "mine", "--repo", "nnd/mine")
    wait_for(lambda: any(m == method and path in p for m, p in client.hub.requests))
    process.send_signal(stop)
    client.hub.released.set()
    out, err = process.communicate(timeout=300)
    if stop == signal.SIGINT:
        assert Done(process.returncode, out, err).refusal() == "nnd/mine: interrupted; nothing was changed"
    else:
        assert process.returncode == -stop
    assert client.hub.state() == before
    client.hub.faults = []
    done = client.publish("mine")
    assert done.status == 0, done.err
    assert {file.path: file.data for file in make_plan("mine", "nnd/mine").files}.items() <= head(client.hub).items()
    assert len(client.hub.repos["nnd/mine"].commits) == 3
    assert secrets_in(client, Done(0, out, err), done) == []


def status(code: int, text: str = "no", **headers: str) -> Callable[[Handler], object]:
    return lambda handler: handler.answer(code, {"error": text}, **headers)


def somebody_commits(handler: Handler) -> None:
    """Let another commit be first, then do what was asked."""
    repo = handler.server.repos["nnd/mine"]
    repo.add({**repo.commits[-1][1], "theirs.txt": b"1"}, "of another")
    handler.server.faults = []
    handler.may_read = handler.may_write = True
    handler.commit("nnd/mine", "main")


LIMITED = status(429, "slow down", Retry_After="3600")
QUOTING = status(403, f"Bearer {TOKEN} is refused", X_Error_Message=f"Bearer {TOKEN} is refused")
INVALID = lambda handler: handler.answer(400, {"errors": [{"message": "no such licence"}]})  # noqa: E731
#: What goes wrong -> (method, path, act, what the line says).
FAULTS: dict[str, tuple[str, str, Callable[[Handler], object], str]] = {
    "unauthorized": ("POST", "/preupload/", status(401), r"does not accept the token \(401\)"),
    "forbidden": ("POST", "/commit/", status(403), r"may not write there \(403\).*write access to nnd"),
    "quoting the token": ("POST", "/commit/", QUOTING, r"may not write there \(403\)"),
    "broken, quoting the token": ("POST", "/commit/", status(418, TOKEN, X_Error_Message=TOKEN), r"answers 418"),
    "conflict": ("POST", "/commit/", status(409), r"changing the repository \(409\)"),
    "outdated": ("POST", "/commit/", status(412), r"changed the repository meanwhile \(412\)"),
    "limited at once": ("GET", "/api/datasets/", LIMITED, r"\(429\); publish again in 3600 seconds"),
    "limited before the data": ("POST", "/preupload/", LIMITED, r"\(429\); publish again in 3600 seconds"),
    "limited at the batch": ("POST", "/objects/batch", LIMITED, r"\(429\); publish again in 3600 seconds"),
    "limited with the data": ("PUT", "/lfs/", LIMITED, r"\(429\); publish again in 3600 seconds"),
    "limited at the end": ("POST", "/commit/", status(429), r"\(429\); publish again later"),
    "broken": ("POST", "/commit/", status(500), "the hub answers 500"),
    "dropped": ("POST", "/commit/", Handler.drop, "cannot be reached"),
    "bad metadata": ("POST", "/validate-yaml", INVALID, "no such licence"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_the_hub_refuses_is_one_line_and_changes_nothing(case: str, client: Client, own_set: SetMaker) -> None:
    method, path, act, message = FAULTS[case]
    own_set()
    plan = make_plan("mine", "nnd/mine")
    client.hub.repos["nnd/mine"] = repo = _repo_with({"README.md": OLD, ".gitattributes": b""})
    before = client.hub.state()
    client.hub.faults = [Fault(method, path, act)]
    begun = time.monotonic()
    done = client.publish("mine")
    assert time.monotonic() - begun < 30, "the hub's library would wait for an hour"
    line = done.refusal()
    assert re.search(message, line), line
    assert line.startswith("nnd/mine: ")
    assert line.endswith("; nothing was changed")
    assert client.hub.state() == before
    assert secrets_in(client, done) == []
    if "token" in case:
        assert secrets_in(client, client.publish("mine", NND_DEBUG="1", HF_DEBUG="1")) == [], "nor in a traceback"
    if "data" in case:
        client.hub.faults = []
        assert client.publish("mine").status == 0, "and then it goes through"
        assert repo.tags.keys() == {plan.version}


def _repo_with(files: dict[str, bytes], private: bool = False) -> Any:
    from tests.hub_upload.hub_server import Repo

    repo = Repo(private)
    repo.add(files, "before")
    return repo


def commits_and_drops(handler: Handler) -> None:
    """Do what was asked, without telling."""
    handler.may_read = handler.may_write = True
    handler.answer = lambda *args, **more: None  # type: ignore[method-assign]
    handler.commit("nnd/mine", "main")
    handler.drop()


def test_a_commit_whose_answer_was_lost_is_not_called_off(client: Client, own_set: SetMaker) -> None:
    own_set()
    client.hub.repos["nnd/mine"] = _repo_with({"README.md": OLD})
    client.hub.faults = [Fault("POST", "/commit/", commits_and_drops)]
    assert client.publish("mine").refusal().endswith("; whether the commit arrived is not known: publish again")
    client.hub.faults = []
    assert client.publish("mine").out.startswith("tagged v1-")


def test_who_was_slower_changes_nothing(client: Client, own_set: SetMaker) -> None:
    own_set()
    client.hub.repos["nnd/mine"] = _repo_with({"README.md": OLD})
    client.hub.faults = [Fault("POST", "/commit/", somebody_commits)]
    assert "(412)" in client.publish("mine").refusal()
    assert head(client.hub) == {"README.md": OLD, "theirs.txt": b"1"}


@pytest.mark.parametrize(
    ("card", "whose"),
    [
        pytest.param(b"# Our reviews\n", "its card names no nnd_set", marks=pytest.mark.complete),
        (b"---\r\nnnd_set: other\r\n---\r\n# Other\n", "it holds the set other"),
        (b"---\na: &a [1]\nnnd_set: mine\nb: *a\n---\n", "its card cannot be read"),
        pytest.param(None, "it has files and no card", marks=pytest.mark.complete),
    ],
)
def test_a_repository_of_something_else_is_left_alone_until_it_is_asked_for(
    card: bytes | None, whose: str, client: Client, own_set: SetMaker
) -> None:
    own_set()
    theirs = {"build_report.json": b"{}", "data/test-00000-of-00002.parquet": b"rows", "notes.txt": b"n"}
    client.hub.repos["nnd/mine"] = _repo_with({**theirs, **({"README.md": card} if card else {})})
    before = client.hub.state()
    line = client.publish("mine").refusal()
    assert line.startswith(f"nnd/mine: {whose}, so it is left alone; publishing would replace ")
    assert "build_report.json" in line
    assert ("README.md" in line) == (card is not None)
    assert "and delete data/test-00000-of-00002.parquet;" in line
    assert line.endswith("name another repository with --repo, or add --replace")
    assert client.hub.state() == before

    done = client.publish("mine", "--replace")
    assert done.status == 0, done.err
    assert "note: replaces " in done.err
    assert "note: deletes data/test-00000-of-00002.parquet\n" in done.err
    assert head(client.hub)["notes.txt"] == b"n"
    assert b"nnd_set: mine" in head(client.hub)["README.md"]
    assert "nothing was uploaded" in client.publish("mine").out, "it is ours now"


def test_a_set_whose_card_does_not_name_it_can_be_published_twice(client: Client, own_set: SetMaker) -> None:
    own_set(header={"nnd_set": None})
    assert client.publish("mine").status == 0
    assert "nothing was uploaded" in client.publish("mine").out


def test_without_its_tag_a_version_is_tagged_next_time(client: Client, own_set: SetMaker) -> None:
    own_set()
    client.hub.faults = [Fault("POST", "/tag/", status(403))]
    line = client.publish("mine").refusal()
    assert "the files are up to date, without the tag v1-" in line
    client.hub.faults = []
    commits = [oid for oid, _ in client.hub.repos["nnd/mine"].commits]
    done = client.publish("mine")
    assert done.out.startswith("tagged v1-")
    assert [oid for oid, _ in client.hub.repos["nnd/mine"].commits] == commits
    assert list(client.hub.repos["nnd/mine"].tags.values()) == commits[-1:]


def test_a_repository_that_cannot_be_made(client: Client, own_set: SetMaker) -> None:
    own_set()
    client.token = READ_ONLY
    line = client.publish("mine").refusal()
    assert "may not write there (403)" in line
    assert client.hub.repos == {}
    client.token = "hf_unknown"
    assert "does not accept the token (401)" in client.publish("mine").refusal()
    assert client.hub.repos == {}


def test_of_a_new_repository_the_line_says_that_it_is_empty(client: Client, own_set: SetMaker) -> None:
    own_set()
    client.hub.faults = [Fault("POST", "/commit/", status(500))]
    assert client.publish("mine").refusal().endswith("; the new repository is empty")
    assert set(head(client.hub)) == ATTRIBUTES


def test_private_is_for_new_repositories(client: Client, own_set: SetMaker) -> None:
    own_set()
    assert client.publish("mine", "--private").status == 0
    assert client.hub.repos["nnd/mine"].private
    assert "nothing was uploaded" in client.publish("mine", "--private").out
    client.hub.repos["nnd/mine"].private = False
    before = client.hub.state()
    assert "is public already" in client.publish("mine", "--private").refusal()
    assert client.hub.state() == before


def test_a_hub_that_does_not_answer_is_not_waited_for(client: Client, own_set: SetMaker) -> None:
    own_set()
    client.hub.faults = [Fault("GET", "/api/datasets/", lambda handler: handler.server.released.wait(60))]
    begun = time.monotonic()
    assert "cannot be reached" in client.publish("mine", "--timeout", "0.5").refusal()
    assert time.monotonic() - begun < 20
    line = client.publish("mine", HF_ENDPOINT="http://127.0.0.1:9").refusal()
    assert "cannot be reached" in line
    assert "HF_ENDPOINT" in line


@pytest.mark.parametrize(
    ("options", "environment", "message"),
    [
        ({"name": "nothing"}, {}, "there is no set 'nothing'"),
        ({"name": "frank"}, {}, "set 'frank' is not built here; run: nnd build frank"),
        ({"repo": "mine"}, {}, "--repo mine: expected NAMESPACE/NAME"),
        ({"repo": "a/b/c"}, {}, "--repo a/b/c: expected NAMESPACE/NAME"),
        ({"repo": "../up"}, {}, "--repo ../up: expected NAMESPACE/NAME"),
        ({"repo": "nnd/a--b"}, {}, "--repo nnd/a--b: expected NAMESPACE/NAME"),
        ({}, {"HF_TOKEN": ""}, "no token of the hub: run `hf auth login`, or set HF_TOKEN"),
        ({}, {"HF_TOKEN": f"{TOKEN} {TOKEN}"}, "the token of the hub holds white space"),
        ({}, {"HF_TOKEN": f"{TOKEN}é"}, "the token of the hub holds white space or letters"),
        ({}, {"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
    ],
)
def test_wrong_inputs_ask_the_hub_nothing(
    options: dict[str, str], environment: dict[str, str], message: str, client: Client, own_set: SetMaker
) -> None:
    own_set()
    done = client.publish(options.get("name", "mine"), repo=options.get("repo", "nnd/mine"), **environment)
    assert message in done.refusal()
    assert client.hub.requests == []
    assert secrets_in(client, done) == []


def test_a_dry_run_shows_files_and_card_and_asks_the_hub_nothing(client: Client, own_set: SetMaker) -> None:
    folder = own_set()
    client.token = None
    done = client.run("-m", "nnd_tasks.cli", "publish", "mine", "--repo", "nnd/mine", "--dry-run")
    assert done.status == 0, done.err
    assert client.hub.requests == []
    assert done.err == "note: mine was not made by nnd build or nnd new: not built again\n"
    rows = re.findall(r"^ +([\d,]+)  ([0-9a-f]{64})  (\S+)$", done.out, flags=re.MULTILINE)
    client.token = TOKEN
    assert client.publish("mine").status == 0
    there = {path: data for path, data in head(client.hub).items() if path not in ATTRIBUTES}
    assert {path: (int(size.replace(",", "")), sha) for size, sha, path in rows} == {
        path: (len(data), _sha256(data)) for path, data in there.items()
    }
    assert there["README.md"].decode() in done.out
    assert there["all/test-00000-of-00001.parquet"] == (folder / "all/test-00000-of-00001.parquet").read_bytes()
    assert read_report(folder)


def test_a_dry_run_shows_the_task_and_writes_all_that_would_go_out(
    client: Client, tmp_path: Path, nnd_home: Path
) -> None:
    from nnd_tasks.new.draft import draft_set, write_set

    from tests.conftest import REPO
    from tests.hub_upload.test_plan import ANSWERS

    source = str(REPO / "examples" / "answers.csv")
    write_set(draft_set("answers", source, ANSWERS))
    out = tmp_path / "out"
    out.mkdir()
    publish = ("-m", "nnd_tasks.cli", "publish", "answers", "--repo", "me/answers", "--source", source, "--out", out)
    assert "add --dry-run" in client.run(*publish).refusal()
    done = client.run(*publish, "--dry-run")
    assert done.status == 0, done.err
    plan = make_plan("answers", "me/answers", source=source)
    written = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert written == {file.path: file.data for file in plan.files}
    assert plan.task is not None
    assert "\ndataset_path: me/answers\n" in plan.task
    assert plan.task in done.out
    assert "pip install nnd-tasks" not in plan.card, "it is on no index"
    assert "something is there already" in client.run(*publish, "--dry-run").refusal()
    assert client.hub.requests == []


def _sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def test_a_folder_can_be_published_too(client: Client, own_set: SetMaker, tmp_path: Path) -> None:
    folder = own_set()
    moved = folder.rename(tmp_path / "elsewhere")
    done = client.publish(moved)
    assert done.status == 0, done.err
    assert "README.md" in head(client.hub)
