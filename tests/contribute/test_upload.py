"""What gets to a hub in memory, and what a refusal says and leaves."""

import hashlib
from types import SimpleNamespace

import pytest
from huggingface_hub import CommitOperationAdd
from huggingface_hub.errors import HfHubHTTPError

from nnd_tasks.contribute.publish import make_plan
from nnd_tasks.store import CARD
from tests.commands import refused
from tests.contribute.conftest import some_tests

TOKEN = "hf_" + "s3cretT0ken" * 3
ANSWER = SimpleNamespace(headers={}, request=None)
REFUSAL = (
    f"403 Forbidden: Bearer {TOKEN}\n\nAt https://me:pw123@hub.example/x?sig={TOKEN}, you may not. {'x' * 440}{TOKEN}"
)
PARQUET = "all/test-00000-of-00001.parquet"


class FakeHub:
    """One repository, with the calls of `huggingface_hub.HfApi` that publishing makes; `HfApi` skips unchanged files, too."""

    endpoint = "https://hub.example"

    def __init__(self, cache):
        self.cache = cache
        self.commits = []  # none: there is no repository
        self.tags = {}
        self.private = False
        self.fails = ""  # the call that is refused

    def __call__(self, *, token, library_name):
        assert token == TOKEN
        return self

    def repo_exists(self, repo, **_):
        self._may("repo_exists")
        return bool(self.commits)

    def dataset_info(self, repo):
        files = [SimpleNamespace(rfilename=path) for path in self.commits[-1]]
        return SimpleNamespace(sha=str(len(self.commits)), private=self.private, siblings=files)

    def create_repo(self, repo, *, private, **_):
        self._may("create_repo")
        self.private = private
        self.commits.append({".gitattributes": b""})

    def hf_hub_download(self, repo, path, *, revision, **_):
        (self.cache / path).write_bytes(self.commits[int(revision) - 1][path])
        return str(self.cache / path)

    def create_commit(self, repo, operations, *, parent_commit, **_):
        self._may("create_commit")
        assert parent_commit == str(len(self.commits))
        files = dict(self.commits[-1])
        for one in operations:
            if isinstance(one, CommitOperationAdd):
                files[one.path_in_repo] = one.path_or_fileobj
            else:
                del files[one.path_in_repo]
        if files != self.commits[-1]:
            self.commits.append(files)
        return SimpleNamespace(oid=str(len(self.commits)))

    def create_tag(self, repo, *, tag, revision, **_):
        self._may("create_tag")
        self.tags.setdefault(tag, revision)

    def _may(self, call):
        if call == self.fails:
            raise HfHubHTTPError(REFUSAL, response=ANSWER)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir()
    fake = FakeHub(tmp_path / "cache")
    monkeypatch.setattr("huggingface_hub.HfApi", fake)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: TOKEN)
    return fake


@pytest.fixture
def publish(nnd):
    return lambda *options: nnd("publish", "mine", "--repo", "me/mine", *options)


def test_everything_arrives_in_one_commit_with_a_tag(hub, publish, own_set):
    mine = own_set(tables={"all": some_tests(), "part": some_tests(12)})
    done = publish()
    assert done.status == 0, done.err
    plan = make_plan("mine", "me/mine")
    assert f"published, with its texts, tagged {plan.version}: https://hub.example/datasets/me/mine" in done.out
    assert hub.commits == [{".gitattributes": b""}, {".gitattributes": b"", **plan.files}]
    assert hub.tags == {plan.version: "2"}
    assert "nothing new" in publish().out
    assert len(hub.commits) == 2

    card = mine.folder / CARD
    card.write_text(card.read_text().replace("Mine.", "Ours."))
    assert publish().status == 0
    assert hub.tags == {plan.version: "2"}, "the data are the same"

    hub.commits.append({**hub.commits[-1], "LICENSE": b"by others", "part/test-00000-of-00001.txt": b"theirs"})
    own_set(tables={"all": some_tests(word="fine")})
    done = publish()
    assert "removed in the same commit: part/test-00000-of-00001.parquet" in done.out
    assert hub.commits[-1].keys() == {
        *(".gitattributes", "LICENSE", "part/test-00000-of-00001.txt"),
        *(CARD, "build_report.json", "mine/_recipe", PARQUET),
    }
    assert len(hub.tags) == 2, "the old version stays"


@pytest.mark.parametrize(
    ("card", "whose"),
    [
        (b"# Our reviews\n", "its card cannot be read"),
        (b"---\nlicense: mit\n---\n", "its card names no nnd_set"),
        (b"---\r\nnnd_set: other\r\n---\r\n# Other\n", "it holds the set other"),
        (None, "it has files and no card"),
    ],
)
def test_a_repository_of_something_else_is_left_alone_until_it_is_asked_for(card, whose, hub, publish, own_set):
    own_set()
    theirs = {"build_report.json": b"{}", "data/test-00000-of-00002.parquet": b"rows", "notes.txt": b"n"}
    hub.commits = [{**theirs, **({CARD: card} if card else {})}]
    line = refused(publish())
    assert f"me/mine: {whose}, so it is left alone; publishing would replace " in line
    assert "and delete data/test-00000-of-00002.parquet;" in line
    assert len(hub.commits) == 1
    assert publish("--replace").status == 0
    assert hub.commits[-1]["notes.txt"] == b"n"
    assert "nothing new" in publish().out, "it is ours now"


@pytest.mark.parametrize(
    ("call", "done"),
    [
        ("repo_exists", "could not be read"),
        ("create_repo", "could not be created"),
        ("create_commit", "could not be changed"),
        ("create_tag", "could not be tagged, though its files are up to date"),
    ],
)
def test_the_hub_says_what_is_wrong_in_one_line_without_the_token(call, done, hub, publish, own_set):
    own_set()
    hub.fails = call
    outcome = publish()
    line = refused(outcome)
    assert f"me/mine of https://hub.example {done}: 403 Forbidden: Bearer *** At https://" in line
    assert "you may not." in line
    assert not any(secret in outcome.out + outcome.err for secret in (TOKEN[:6], "pw123"))
    if call == "create_tag":
        hub.fails = ""
        assert "nothing new" in publish().out
        assert len(hub.tags) == 1
    else:
        assert not any(PARQUET in files for files in hub.commits)


def test_private_is_for_new_repositories(hub, publish, own_set):
    own_set()
    assert publish("--private").status == 0
    assert hub.private
    assert "nothing new" in publish("--private").out
    hub.private = False
    assert "is public already" in refused(publish("--private"))


def test_a_dry_run_shows_all_files_and_asks_the_hub_nothing(hub, publish, own_set, tmp_path):
    own_set()
    hub.fails = "repo_exists"
    done = publish("--dry-run")
    assert done.status == 0, done.err
    for path, content in make_plan("mine", "me/mine").files.items():
        assert f"{len(content):,}  {hashlib.sha256(content).hexdigest()}  {path}" in done.out
    assert "## What baselines reach" in done.out


@pytest.mark.parametrize("repo", ["mine", "a/b/c", "../up", "me/a--b"])
def test_a_name_that_no_repository_has(repo, hub, nnd):
    assert f"--repo {repo}: " in refused(nnd("publish", "mine", "--repo", repo))


def test_without_a_token_nothing_begins(publish, monkeypatch):
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    assert "no token of the hub: run `hf auth login`, or set HF_TOKEN" in refused(publish())
