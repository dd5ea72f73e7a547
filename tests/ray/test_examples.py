"""The example for SLURM, as far as it can be checked without it."""

import re
import shlex
import subprocess

from tests.conftest import REPO
from tests.test_docs import parse

SLURM = REPO / "examples" / "ray_slurm.sh"


def test_the_script_is_one_of_bash_and_its_command_can_be_typed():
    subprocess.run(["bash", "-n", str(SLURM)], check=True)
    text = SLURM.read_text("utf-8").replace("\\\n", " ")
    [line] = re.findall(r"^ *(nnd run .*)", text, re.MULTILINE)
    parse(shlex.split(re.sub(r"\$\(\(.*?\)\)", "8", line))[1:])
    options = dict(line.split("=", 1) for line in re.findall(r"^#SBATCH --(.*)$", text, re.MULTILINE))
    assert {"nodes", "gpus-per-node", "time"} <= options.keys()
