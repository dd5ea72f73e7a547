"""How long `nnd compare` takes on two thousand tests by six models: seconds for its imports, and for its answer besides them.

    python benchmarks/compare_speed.py

Outcomes are made up. Each time is the best of three fresh processes, in seconds of the wall clock.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.results.fake_runs import write_run  # noqa: E402

PROMPTS, CATEGORIES, MODELS, ROUNDS = 400, "abcde", 6, 3
#: Compares a small table first, which imports everything, then the large one.
COMMAND = """
import sys, time
begin = time.perf_counter()
import nnd_tasks.cli, nnd_tasks.results.compare, nnd_tasks.show.terminal
imported = time.perf_counter()
nnd_tasks.cli.typer_app(["compare", sys.argv[1]], standalone_mode=False)
warm = time.perf_counter()
nnd_tasks.cli.typer_app(["compare", sys.argv[2]], standalone_mode=False)
answered = time.perf_counter()
heavy = sorted({"torch", "transformers", "lm_eval", "matplotlib"} & set(sys.modules))
print(imported - begin, warm - imported, answered - warm, *heavy, file=sys.stderr)
"""


def measure(small: Path, large: Path) -> tuple[float, float, float, str]:
    """Return the seconds of the imports, of a small comparison with what it imports late, and of a large one."""
    command = [sys.executable, "-c", COMMAND, str(small), str(large)]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    imports, first, answer, *heavy = ran.stderr.splitlines()[-1].split()
    return float(imports), float(first), float(answer), " ".join(heavy) or "none"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        small, large = Path(name, "small"), Path(name, "large")
        for i in range(MODELS):
            chances = dict.fromkeys(CATEGORIES, 0.6 + 0.05 * i)
            for folder, prompts in ((small, 12), (large, PROMPTS)):
                write_run(folder, f"model-{i}", chances, contexts=prompts, seed=i)
        imports, first, answer, heavy = map(min, zip(*(measure(small, large) for _ in range(ROUNDS)), strict=True))
    print(f"{PROMPTS * len(CATEGORIES)} tests by {MODELS} models, best of {ROUNDS}")
    print(f"imports: {imports:.2f} s; of torch, transformers, lm_eval and matplotlib: {heavy}")
    print(f"a small comparison, with late imports: {first:.2f} s")
    print(f"the answer: {answer:.2f} s")


if __name__ == "__main__":
    main()
