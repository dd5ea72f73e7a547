"""Workflows: strangers' code and built packages never meet a token that may write, and what is fetched has a checksum."""

import re
import shlex
import subprocess

import pytest
import yaml

from tests.conftest import REPO

WORKFLOWS = {path.stem: path.read_text("utf-8") for path in sorted((REPO / ".github" / "workflows").glob("*.yml"))}
JOBS = {f"{name}/{job}": body for name, text in WORKFLOWS.items() for job, body in yaml.safe_load(text)["jobs"].items()}
STEPS = [(job, step) for job, body in JOBS.items() for step in body["steps"]]

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="needs the repository")


def may_write(body):
    return "write" in body.get("permissions", {}).values()


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_read_and_only_single_jobs_more(name):
    workflow = yaml.safe_load(WORKFLOWS[name])
    assert workflow["permissions"] == {"contents": "read"}
    assert {*workflow[True]} <= {"push", "pull_request", "workflow_dispatch"}, (
        "others run with rights for strangers' code"
    )
    assert all(isinstance(body.get("permissions", {}), dict) for body in workflow["jobs"].values())


def test_actions_are_named_by_commit():
    """A tag can be moved to other code, a commit cannot."""
    used = re.findall(r"uses: *(.*)", "".join(WORKFLOWS.values()))
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action)] == []


def test_no_checkout_leaves_its_token_behind():
    checkouts = [step for _, step in STEPS if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("job", [job for job, body in JOBS.items() if may_write(body)])
def test_a_job_that_may_write_takes_what_another_built_and_runs_hashed_tools(job):
    body = JOBS[job]
    needed = [body["needs"]] if isinstance(body["needs"], str) else body["needs"]
    assert not any(may_write(JOBS[f"{job.partition('/')[0]}/{name}"]) for name in needed)
    actions = {step["uses"].partition("@")[0] for step in body["steps"] if "uses" in step}
    assert actions <= {"actions/setup-python", "actions/download-artifact", "actions/deploy-pages"}
    for step in body["steps"]:
        for line in step.get("run", "").splitlines():
            words = shlex.split(line)
            assert words[0] in {"echo", "test", "head", "gh", "uv", "python"}, line
            if words[0] == "python":
                assert {"pip", "install", "--no-deps", "--require-hashes"} <= {*words}, line


def test_downloads_have_a_checksum():
    for job, step in STEPS:
        lines = step.get("run", "").splitlines()
        for i, line in enumerate(lines):
            if re.search(r"\b(curl|wget)\b", line):
                assert "--output" in line, job
                assert "sha256sum --check --strict" in lines[i + 1], job


def test_what_builds_the_release_is_in_the_lock():
    [command] = [step["run"] for job, step in STEPS if job == "release/build" and step.get("id") == "build"]
    select = command.partition(" > ")[0]
    lock = subprocess.run(["sh", "-c", select], cwd=REPO, capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE))
    assert names == {"hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers"}
    assert lock.count("--hash=sha256:") >= 2 * len(names)
    assert "pip install --no-deps --require-hashes" in command
