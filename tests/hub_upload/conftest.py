"""A hub on this machine, sets to publish on it, and the real command in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nnd_tasks.dataset_writing import write_dataset

from nnd_tasks.schema import Test
from nnd_tasks.tables import fingerprint, to_table
from tests import commands
from tests.hub_upload import hub_server
from tests.hub_upload.hub_server import TOKEN, Hub

CITATION = "@misc{somebody2024,\n  title = {Something}\n}"


@dataclass(frozen=True)
class Done:
    """A process that ended."""

    status: int
    out: str
    err: str

    def refusal(self) -> str:
        """Return the one line of a command that ended as a mistake of a user's, or of the world's, does."""
        assert self.status == 1, self
        assert self.out == ""
        lines = [line for line in self.err.splitlines() if not line.startswith("note: ")]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("nnd: error: ")
        return lines[0].removeprefix("nnd: error: ")


@dataclass
class Client:
    """What runs commands against a hub; the token is in the environment, as users have it."""

    hub: Hub
    root: Path
    home: Path
    token: str | None = TOKEN

    def environment(self, **more: str) -> dict[str, str]:
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "NND_", "HUGGING", "COLUMNS"))}
        mine = {
            "HF_ENDPOINT": self.hub.url,
            "HF_HOME": str(self.root / "hf"),
            "HF_HUB_DISABLE_XET": "1",
            "NND_HOME": str(self.home),
            "OMP_NUM_THREADS": "1",
            **({"HF_TOKEN": self.token} if self.token else {}),
        }
        return plain | mine | more

    def start(self, *arguments: str | Path, **more: str) -> commands.Process | subprocess.Popen[str]:
        return commands.start([sys.executable, *arguments], cwd=self.root, env=self.environment(**more))

    def run(self, *arguments: str | Path, **more: str) -> Done:
        done = commands.run([sys.executable, *arguments], cwd=self.root, env=self.environment(**more))
        return Done(done.returncode, done.stdout, done.stderr)

    def publish(self, name: str | Path, *options: str | Path, repo: str = "nnd/mine", **more: str) -> Done:
        return self.run("-m", "hub_upload", name, "--repo", repo, *options, **more)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with hub_server.running() as server:
        yield server


@pytest.fixture
def client(hub: Hub, tmp_path: Path, nnd_home: Path) -> Client:
    root = tmp_path / "user"
    root.mkdir()
    return Client(hub, root, nnd_home)


def some_tests(count: int = 30, word: str = "good") -> pa.Table:
    """Return a table of tests, ten prompts and three categories."""
    tests = [
        Test(
            test_id=f"t{i}",
            context_id=f"c{i % 10}",
            cluster_id=f"k{i % 10}",
            context=f"The context number {i % 10}, long enough to be recognized anywhere.",
            high=f"A {word} answer number {i} to it, which nobody else gives.",
            low=f"A bad answer number {i}.",
            category=("wrong", "dull", "long")[i % 3],
            high_first=bool(i % 2),
        )
        for i in range(count)
    ]
    return to_table(tests)


SetMaker = Callable[..., Path]


@pytest.fixture
def own_set(nnd_home: Path) -> SetMaker:
    """Return what writes a set of a user's own into the home: ``own_set(header=..., tables=...)``."""

    def make(name: str = "mine", header: dict[str, Any] | None = None, **options: Any) -> Path:
        tables = options.get("tables") or {"all": some_tests()}
        meta = {
            "nnd_set": name,
            "license": "mit",
            "language": ["en"],
            "pretty_name": "Mine",
            "task_categories": ["text-generation"],
        } | (header or {})
        body = options.get("body", f"# Mine\n\nAbout it.\n\n## Citation\n\n```bibtex\n{CITATION}\n```\n")
        report = {
            config: {"fingerprint": fingerprint(table), "source_sha256": {"mine.csv": "ab" * 32}, "nnd_tasks": "0.1.0"}
            for config, table in tables.items()
        }
        folder = nnd_home / "nnd" / name
        write_dataset(
            folder,
            tables,
            header={key: value for key, value in meta.items() if value is not None},
            body=lambda summaries, reports: body,
            default="all",
            report=report,
            obsolete=options.get("obsolete", ()),
        )
        return folder

    return make
