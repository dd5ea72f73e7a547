"""Published, loaded in a fresh cache, and scored: what comes back is what was built."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nnd_tasks.datasets import list_configs, read_table
from nnd_tasks.tables import fingerprint
from tests.conftest import DATA, REPO
from tests.hub_upload.conftest import Client
from tests.hub_upload.hub_server import Hub

LOAD = """
import json, sys
from datasets import load_dataset
tests = load_dataset(*sys.argv[1:], split="test")
tests.to_parquet("loaded.parquet")
print(json.dumps([tests.config_name, tests.column_names]))
"""
RUN = ("--model", "hf", "--device", "cpu", "--limit", "15", "--output_path", "out", "--log_samples")


@pytest.fixture
def published(client: Client, real_sets: Callable[[str], Path], tmp_path: Path) -> Callable[..., Client]:
    """Return what publishes a set, and gives another user who has only the hub."""

    def publish(name: str) -> Client:
        shutil.copytree(real_sets(name), client.home / "nnd" / name)
        source = [] if name == "demo" else ["--source", DATA / name]
        done = client.publish(name, *source, repo=f"nnd/{name}")
        assert done.status == 0, done.err
        return other_user(client.hub, tmp_path / "other")

    return publish


def other_user(hub: Hub, root: Path) -> Client:
    root.mkdir()
    return Client(hub, root, root / "nnd_home", token=None)


def results(root: Path) -> tuple[dict[str, Any], dict[str, float]]:
    [file] = root.rglob("results_*.json")
    found = json.loads(file.read_text(encoding="utf-8"))
    [task] = found["results"]
    values = {key: value for key, value in found["results"][task].items() if isinstance(value, float)}
    return found["configs"][task]["metadata"]["nnd"], values


@pytest.mark.parametrize("config", ["", "clean"])
def test_what_datasets_loads_is_what_was_built(
    config: str, published: Callable[..., Client], real_sets: Callable[[str], Path]
) -> None:
    user = published("quiz_design")
    done = user.run("-c", LOAD, "nnd/quiz_design", *([config] if config else []))
    assert done.status == 0, done.err
    folder = real_sets("quiz_design")
    built = read_table(folder, config or None)
    name, columns = json.loads(done.out)
    assert name == (config or list_configs(folder)[1])
    assert columns == built.column_names
    loaded = pq.read_table(user.root / "loaded.parquet")
    assert fingerprint(loaded) == fingerprint(built)
    assert loaded.num_rows == {"": 2686}.get(config, built.num_rows), "as in the paper"


@pytest.mark.slow
@pytest.mark.parametrize("command", [pytest.param("nnd run", marks=pytest.mark.complete), "lm_eval"])
def test_a_model_is_scored_on_a_published_set_as_on_a_built_one(
    command: str, published: Callable[..., Client], real_sets: Callable[[str], Path], models: Path, tmp_path: Path
) -> None:
    user = published("quiz_design")
    local = other_user(user.hub, tmp_path / "local")
    shutil.copytree(real_sets("quiz_design"), local.home / "nnd" / "quiz_design")
    start = ("nnd_tasks.cli", "run") if command == "nnd run" else ("lm_eval", "run")
    include = () if command == "nnd run" else ("--include_path", REPO / "task_yamls")
    found = []
    for one, asked in ((user, True), (local, False)):
        user.hub.requests.clear()
        done = one.run(
            "-m", *start, *include, *RUN, "--model_args", f"pretrained={models / 'tiny-lm-xs'}",
            "--tasks", "nnd_quiz_design",
        )  # fmt: skip
        assert done.status == 0, done.err
        assert any("quiz_design" in path for _, path in user.hub.requests) == asked
        found.append(results(one.root))
    (there, rates), (here, expected) = found
    assert (there["local"], here["local"]) == (False, True)
    assert there["fingerprint"] == here["fingerprint"] == fingerprint(read_table(real_sets("quiz_design")))
    assert there["signature"]["protocol"] == here["signature"]["protocol"], "so the two may be compared"
    assert rates == expected

    if command == "nnd run":  # what was loaded once needs no hub any more
        shutil.rmtree(user.root / "out")
        done = user.run(
            "-m", *start, *RUN, "--model_args", f"pretrained={models / 'tiny-lm-xs'}",
            "--tasks", "nnd_quiz_design", HF_HUB_OFFLINE="1",
        )  # fmt: skip
        assert done.status == 0, done.err
        assert results(user.root)[1] == expected


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            "nnd_news_gpt3_cnn",
            "the set 'news_gpt3' is not built here; run: nnd build news_gpt3 (the hub has its ids, and no texts)",
        ),
        ("nnd_frank", "the set 'frank' is not built here; run: nnd build frank"),
    ],
)
def test_what_the_hub_cannot_give_has_to_be_built(
    task: str, message: str, published: Callable[..., Client], models: Path
) -> None:
    user = published("news_gpt3")
    model = f"pretrained={models / 'tiny-lm-xs'}"
    done = user.run("-m", "nnd_tasks.cli", "run", *RUN, "--model_args", model, "--tasks", task)
    assert done.status == 1
    assert done.err.splitlines()[-1] == f"nnd: error: {message}"


def test_a_hub_that_is_not_there_is_named(client: Client, models: Path) -> None:
    model = f"pretrained={models / 'tiny-lm-xs'}"
    done = client.run(
        "-m", "nnd_tasks.cli", "run", *RUN, "--model_args", model, "--tasks", "nnd_frank",
        HF_ENDPOINT="http://127.0.0.1:9",
    )  # fmt: skip
    assert done.status == 1
    last = done.err.splitlines()[-1]
    assert last.startswith(
        "nnd: error: the set 'frank' is not built here; run: nnd build frank (and the hub could not be"
    )
