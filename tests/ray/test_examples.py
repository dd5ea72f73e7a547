"""The examples for SLURM and Kubernetes, as far as they can be checked without either."""

import re
import shlex
import subprocess

import pytest
import yaml

from tests.conftest import REPO
from tests.test_docs import parse

SLURM, KUBERAY = REPO / "examples" / "ray_slurm.sh", REPO / "examples" / "ray_kuberay.yaml"


def test_the_script_is_one_of_bash_and_its_command_can_be_typed():
    subprocess.run(["bash", "-n", str(SLURM)], check=True)
    text = SLURM.read_text("utf-8").replace("\\\n", " ")
    [line] = re.findall(r"^ *(nnd run .*)", text, re.MULTILINE)
    parse(shlex.split(re.sub(r"\$\(\(.*?\)\)", "8", line))[1:])
    options = dict(line.split("=", 1) for line in re.findall(r"^#SBATCH --(.*)$", text, re.MULTILINE))
    assert {"nodes", "gpus-per-node", "time"} <= options.keys()


@pytest.fixture(scope="module")
def job():
    return yaml.safe_load(KUBERAY.read_text("utf-8"))


def test_the_job_is_one_of_kuberay_and_its_command_can_be_typed(job):
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert {"entrypoint", "rayClusterSpec"} <= job["spec"].keys()
    [command] = re.findall("(nnd run .*); done", job["spec"]["entrypoint"])
    parse(shlex.split(command)[1:])
    [pin] = re.findall(r"^ray==([\d.]+)", (REPO / "constraints.txt").read_text("utf-8"), re.MULTILINE)
    assert job["spec"]["rayClusterSpec"]["rayVersion"] == pin


def pods(job):
    cluster = job["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert isinstance(group["rayStartParams"], dict)
        yield group["template"]["spec"]


def test_containers_mount_volumes_that_are_there_and_hold_no_secret(job):
    for pod in pods(job):
        volumes = {volume["name"] for volume in pod["volumes"]}
        [container] = pod["containers"]
        assert {"name", "image", "resources"} <= container.keys()
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        values = {variable["name"]: variable for variable in container["env"]}
        assert values["RAY_USAGE_STATS_ENABLED"]["value"] == "0"
        assert "valueFrom" in values["HF_TOKEN"]
        assert all(isinstance(limit, str) for limit in container["resources"]["limits"].values())
