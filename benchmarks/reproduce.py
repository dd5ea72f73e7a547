"""Run models of the paper's experiments, and print published beside measured pass rates.

    python benchmarks/reproduce.py                                   # the experiments and their models
    python benchmarks/reproduce.py quiz_design --weights mixqg --weights bartl_sup=FOLDER --limit 50

Each model's results, as lm-eval writes them, are in ``OUT/EXPERIMENT/MODEL``. ``published_runs.yaml`` has the published rates.

Known limits: the authors' weights have not been run, only small stand-ins. Of ``mqm`` there is T5 only: lm-eval cannot run FSMT.
"""

from __future__ import annotations

import argparse
import gc
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from transformers import AutoConfig, AutoTokenizer

from nnd_tasks.results.read_runs import read_results
from nnd_tasks.results.runs import Run
from nnd_tasks.run.run import run_and_save
from nnd_tasks.show.report import file_stem
from nnd_tasks.statistics import clustered_mean

#: Experiment -> its set, published runs and notes.
PUBLISHED: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("published_runs.yaml").read_text("utf-8")
)


def run_model(published: dict[str, Any], weights: str, folder: Path, limit: int | None) -> Run:
    """Evaluate a model as the authors did: float32, end of sequence scored, their rule for ties; return its newest run."""
    arguments = {"pretrained": weights, "dtype": "float32"}  # what transformers loaded every checkpoint as in 2022
    config = AutoConfig.from_pretrained(weights)
    if config.model_type == "bart":  # the authors start its decoder at BOS
        arguments["decoder_start_token_id"] = config.bos_token_id
    if config.model_type == "prophetnet":  # its tokenizer names no EOS token; the authors start and end at [SEP]
        arguments["tokenizer"] = str(folder / "tokenizer")
        tokenizer = AutoTokenizer.from_pretrained(weights, bos_token="[SEP]", eos_token="[SEP]")
        tokenizer.save_pretrained(arguments["tokenizer"])
    metadata = {"append_eos": True, "ties": "authors", **published.get("metadata", {})}
    # No batch size: ProphetNet's scores change with what else is in a batch.
    run_and_save(published["task"], "hf", arguments, metadata=metadata, limit=limit, output_path=folder)
    gc.collect()  # lm-eval's objects refer to each other; the next model needs the memory
    return read_results(folder)[-1]


def measure(tests: pd.DataFrame, experiment: dict[str, Any], rates: dict[str, float]) -> pd.DataFrame:
    """Return published and measured rate, its stderr clustered by prompt, and numbers of tests and prompts of each label."""
    labels = tests[experiment["columns"]]
    counted = tests["passed"].notna() & ~labels.isin(experiment.get("left_out", [])).any(axis=1)
    rows = []
    for label, rate in rates.items():
        chosen = tests[counted if label == "all" else counted & (labels == label).any(axis=1)]
        prompts = chosen.groupby("cluster_id")["passed"]
        measured, error, *_ = clustered_mean(prompts.sum(), prompts.size())
        rows.append([label, rate, measured, measured - rate, error, len(chosen), len(prompts)])
    columns = ["label", "published", "measured", "difference", "stderr", "tests", "prompts"]
    return pd.DataFrame(rows, columns=columns)


def main() -> None:
    """List the experiments, or run models of one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="?", choices=PUBLISHED)
    parser.add_argument("--weights", metavar="MODEL[=FOLDER]", action="append", help="default: all that were released")
    parser.add_argument("--limit", type=int, help="number of prompts")
    parser.add_argument("--out", type=Path, default=Path("nnd_reproduce"))
    options = parser.parse_args()
    if options.experiment is None:
        rows = [{"experiment": name, **model} for name, entry in PUBLISHED.items() for model in entry["models"]]
        table = pd.DataFrame(rows).assign(published=[row["rates"]["all"] for row in rows]).fillna({"released": True})
        print(table[["experiment", "name", "published", "task", "model", "released"]].to_string(index=False))
        return
    experiment = PUBLISHED[options.experiment]
    models = {model["name"]: model for model in experiment["models"]}
    asked = options.weights or [name for name, model in models.items() if model.get("released", True)]
    for name, _, folder in (weights.partition("=") for weights in asked):
        if name not in models:
            parser.error(f"{options.experiment} has no model {name!r}; it has {', '.join(models)}")
        if not folder and not models[name].get("released", True):
            parser.error(f"{name} was never released by the authors; name a folder of yours: --weights {name}=FOLDER")
    for name, _, folder in (weights.partition("=") for weights in asked):
        out = options.out / options.experiment / file_stem(name)
        result = run_model(models[name], folder or models[name]["model"], out, options.limit)
        print(f"{name}: {result.line}")
        print(measure(result.tests, experiment, models[name]["rates"]).to_string(index=False))
    print(*experiment["notes"], sep="\n")


if __name__ == "__main__":
    main()
