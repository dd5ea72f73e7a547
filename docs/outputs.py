"""What the commands of the manual print: run them, and write or check the files of ``docs/outputs``.

    python docs/outputs.py             # name the files that no longer come out
    python docs/outputs.py --write     # write them again
    python docs/outputs.py --score demo    # score a part of the sample with the real models: demo, readers, errors

All commands run one after the other in one folder. Models are not run: `Recorded` answers from ``docs/outputs/scores``, where
``--score`` has put the log-likelihoods of SmolLM2-135M-Instruct, of its untrained twin, and of small models
(``NND_TEST_MODELS``). Folders are masked, and a line with ``…`` stands for lines that are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from shared_prefix.lengths import BaseCounter

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "outputs"
SCORES = FOLDER / "scores"
#: Models of different sizes that read the demo, from the smallest to the largest.
SIZES = ("tiny-lm-xs", "tiny-lm-s", "tiny-lm-m", "SmolLM2-135M-Instruct")
READERS = "nnd_demo,nnd_demo_validator,nnd_demo_choice --sample 20"


class Shown(NamedTuple):
    """A command of the manual.

    Attributes:
        name: of the file with its output; empty for a command whose output is not shown.
        command: what runs.
        typed: what a reader types, where that is not ``command``.
        first: how many lines of its output are shown; 0 shows all.
        skip: how many lines before them are left out.
        status: with which it ends; `nnd check` ends with 2 where a set cannot be published yet.
    """

    name: str
    command: str
    typed: str = ""
    first: int = 0
    skip: int = 0
    status: int = 0


def request_id(context: str, continuation: str) -> str:
    """Name a request by 32 hex digits of its texts."""
    return hashlib.sha256(f"{context}\0{continuation}".encode()).hexdigest()[:32]


@register_model("recorded")
class Recorded(LM):
    """A model whose scores were recorded.

    Args:
        model: its name.
        part: the last part of the file's name.
    """

    generate_until = loglikelihood_rolling = None

    def __init__(self, model: str, part: str, **options: object) -> None:
        super().__init__()
        self._sums = read_recorded(model, part)["sum"]

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Look up the sums of requests."""
        return [(float(self._sums[request_id(*request.args)]), False) for request in requests]


class RecordedCounter(BaseCounter):
    """Looks up how many tokens a recorded model has scored."""

    will_answer, name = True, "of the recorded model"

    def __init__(self, metadata: dict[str, Any], *_: object, **__: object) -> None:
        self._tokens = read_recorded(metadata["model"], metadata["part"])["tokens"].to_dict()

    def lengths(self, context: str, continuation: str) -> tuple[int, int]:
        """Look up the number of tokens of a continuation."""
        return 1, int(self._tokens.get(request_id(context, continuation), 1))


def read_recorded(model: str, part: str) -> pd.DataFrame:
    """Read the sums and numbers of tokens of a recorded model, by `request_id`."""
    return pd.read_parquet(SCORES / f"{model}_{part}.parquet").set_index("id")


def scored(model: str, what: str, tasks: str, folder: str) -> str:
    """Write a command that answers tasks from recorded scores.

    Args:
        model: whose scores.
        what: the last part of the file's name.
        tasks: names, and options after them.
        folder: gets the results.
    """
    return (
        f"nnd run --model recorded --model_args model={model},part={what} --tasks {tasks}"
        f" --output_path {folder} --log_samples"
    )


COMMANDS = [
    Shown("list", "nnd list --task code"),
    Shown("build", "nnd build demo", first=6),
    Shown("show", "nnd show demo", first=11),
    Shown(
        "run",
        scored("SmolLM2-135M-Instruct", "demo", "nnd_demo", "results"),
        typed="nnd run --model hf --model_args pretrained=smollm2 --tasks nnd_demo --output_path results --log_samples",
        skip=1,
    ),
    Shown("", scored("untrained", "demo", "nnd_demo", "results")),
    Shown("compare_brief", "nnd compare results --brief"),
    Shown("compare", "nnd compare results", first=21),
    Shown("report", "nnd report results -o report.html"),
    *(Shown("", scored(model, "demo", "nnd_demo", "sizes")) for model in SIZES),
    Shown("trend", "nnd trend sizes --tags models.csv", first=9),
    Shown("", scored("SmolLM2-135M-Instruct", "readers", READERS, "readers")),
    Shown("readers", "nnd compare readers --readers", first=13),
    Shown("stress_build", "nnd stress build my_errors --corpus texts.txt --errors repetition,token_drop --texts 20"),
    Shown("", scored("SmolLM2-135M-Instruct", "errors", "nnd_my_errors", "errors")),
    Shown("stress_report", "nnd stress report errors --brief"),
    Shown("new", "nnd new answers --from examples/answers.csv --better right"),
    Shown("keys", "nnd new --keys"),
    Shown("check", "nnd check answers", skip=1, first=10, status=2),
]
#: Verbs that no file shows, each with the reason.
NOT_SHOWN = {
    "ceiling": "the demo has no raters; docs/ceiling.md has the numbers of sets that have",
    "demo": "it runs models for a minute; its end is that of nnd compare",
    "register": "it writes into the environment",
    "rules": "recorded scores have no tokens; docs/likelihood.md has what it found",
    "runs": "its paths are those of a machine",
    "publish": "its output is long; the guide to contributing is run by tests",
}
TAGS = "model,family,parameters\ntiny-lm-xs,all,360000\ntiny-lm-s,all,870000\ntiny-lm-m,all,3900000\n" + (
    "SmolLM2-135M-Instruct,all,135000000\n"
)


# ---------------------------------------------------------------- running


@contextlib.contextmanager
def workspace(folder: Path) -> Iterator[None]:
    """Work in a folder with a home of its own, and the files that the commands read.

    Args:
        folder: it is made.
    """
    (folder / "examples").mkdir(parents=True)
    shutil.copy(ROOT / "examples" / "answers.csv", folder / "examples")
    (folder / "models.csv").write_text(TAGS, encoding="utf-8")
    rows = pd.read_csv(ROOT / "task_yamls" / "demo" / "demo_annotations.csv", keep_default_na=False)
    texts = rows["context"].drop_duplicates()
    (folder / "texts.txt").write_text("\n".join(" ".join(text.split()) for text in texts) + "\n", encoding="utf-8")
    variables = {"NND_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    before = Path.cwd()
    os.chdir(folder)
    try:
        # A new set adds its tasks to what is registered in lm-eval: here nothing is.
        nowhere = patch("nnd_tasks.task.task_files.lm_eval_tasks_dir", lambda: folder / "lm_eval" / "tasks")
        counts = patch("shared_prefix.lengths.make_counter", RecordedCounter)
        with nowhere, counts, patch.dict(os.environ, variables):
            for name in ("COLUMNS", "FORCE_COLOR", "NND_DEBUG"):
                os.environ.pop(name, None)
            yield
    finally:
        os.chdir(before)


def run_command(command: str, status: int = 0) -> str:
    """Run a command in this process, and return what it prints: results, else messages.

    Args:
        command: its words.
        status: with which it ends.

    Raises:
        RuntimeError: it ends with another.
    """
    from nnd_tasks import cli

    printed, errors = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", shlex.split(command)),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
    ):
        ended = 0
        try:
            cli.main()
        except SystemExit as end:
            ended = int(end.code or 0)
    if ended != status:
        raise RuntimeError(f"{command}: ended with {ended}: {errors.getvalue().strip()[-500:]}")
    messages = [line for line in errors.getvalue().splitlines() if line.startswith(("written:", "nnd:"))]
    return printed.getvalue() or "\n".join(messages)  # without the warnings of libraries


def cut_output(shown: Shown, printed: str, folder: Path) -> str:
    """Return the command and the lines of its output that are shown, without names of folders.

    Args:
        shown: the command.
        printed: its output.
        folder: where it ran.
    """
    lines = printed.replace(f"{SCORES}/", "").replace(str(folder / "home"), "$NND_HOME").splitlines()
    kept = lines[shown.skip : shown.skip + shown.first] if shown.first else lines[shown.skip :]
    before, after = ["…"] * bool(shown.skip), ["…"] * (shown.skip + len(kept) < len(lines))
    text = "\n".join([f"$ {shown.typed or shown.command}", *before, *(line.rstrip() for line in kept), *after])
    return text.replace(str(folder), "…") + "\n"


def make_outputs(folder: Path) -> dict[str, str]:
    """Run all commands, and return name -> text of each file.

    Args:
        folder: where they run; it is made.
    """
    outputs = {}
    with workspace(folder):
        for shown in COMMANDS:
            printed = run_command(shown.command, shown.status)
            if shown.name:
                outputs[shown.name] = cut_output(shown, printed, folder)
    return outputs


# ---------------------------------------------------------------- scoring


def read_scores(samples: Path) -> pd.DataFrame:
    """Read id, sum and number of tokens of each request in a file of samples."""
    rows = []
    for line in samples.read_text("utf-8").splitlines():
        sample = json.loads(line)
        for pair, (total, _, tokens) in zip(sample["arguments"].values(), sample["filtered_resps"], strict=True):
            rows.append((request_id(pair["arg_0"], pair["arg_1"]), round(float(total), 5), int(tokens)))
    return pd.DataFrame(rows, columns=["id", "sum", "tokens"])


def score_sample(what: str, folder: Path) -> None:
    """Run models on a part of the sample, and write their scores; files that are there stay.

    Args:
        what: the last part of the files' names: demo, readers or errors.
        folder: where they run.
    """
    import transformers

    from nnd_tasks.page.demo import make_untrained_twin
    from nnd_tasks.page.smollm2 import SMOLLM2, resolve_model
    from nnd_tasks.run.run import run_and_save

    tasks = {"demo": "nnd_demo", "readers": READERS, "errors": "nnd_my_errors"}[what]
    models = {"SmolLM2-135M-Instruct": resolve_model(SMOLLM2)}
    if what == "demo":
        models["untrained"] = str(make_untrained_twin(models["SmolLM2-135M-Instruct"], folder / "untrained"))
        folders = {"tiny-lm-s": "tiny-lm-s/step-01244"}
        models |= {name: str(Path(os.environ["NND_TEST_MODELS"], folders.get(name, name))) for name in SIZES[:-1]}
    for model, path in models.items():
        if (SCORES / f"{model}_{what}.parquet").exists():
            continue
        names, *options = tasks.split(" ", 1)
        sample = int(options[0].split()[1]) if options else None
        arguments = {"pretrained": path, "dtype": "float32"}
        run_and_save(names.split(","), "hf", arguments, output_path=folder / "scored" / model, sample=sample)
        samples = sorted((folder / "scored" / model).rglob("samples_*.jsonl"))
        scores = pd.concat(map(read_scores, samples)).drop_duplicates("id").sort_values("id")
        about = {"engine": f"transformers {transformers.__version__}", "model": model}
        table = pa.Table.from_pandas(scores, preserve_index=False).replace_schema_metadata(about)
        pq.write_table(table, SCORES / f"{model}_{what}.parquet", compression="zstd")


def main() -> int:
    """Check the files, or write them; return 1 if one no longer comes out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the files")
    parser.add_argument("--score", help="run the models, and write their scores: demo, readers or errors")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.score:
            with workspace(Path(folder).resolve() / "sample"):
                for shown in COMMANDS:
                    if shown.name in ("build", "stress_build"):
                        run_command(shown.command)
                score_sample(options.score, Path(folder).resolve())
            return 0
        outputs = make_outputs(Path(folder).resolve() / "sample")
    stale = []
    for name, text in outputs.items():
        path = FOLDER / f"{name}.txt"
        if options.write:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text("utf-8") != text:
            stale.append(name)
            print(f"comes out otherwise: {path}\n{text}")
    print(f"{len(outputs)} files, {len(stale)} no longer come out")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
