"""The table in benchmarks/reference.md: pass rates of a model on every set, by category, with 95% intervals.

    nnd build SET                                            # each of them, once
    python benchmarks/reference_table.py                     # SmolLM2-135M-Instruct; hours on two cores
    python benchmarks/reference_table.py --model MODEL --out reference --chat

Each task is a run of its own below ``--out``; one that is there already is not run again, so an interrupted table goes on
where it stopped. A folder is for one type of the weights and one sample. ``--chat`` applies the model's chat template. The
table has every model whose results are below ``--out``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from nnd_tasks.page.smollm2 import SMOLLM2
from nnd_tasks.results.compare import category_rates
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.run.run import run_and_save

CHATS = [f"nnd_wmt_chat_{pair}" for pair in ("de_en", "en_de", "fr_en", "en_fr", "pt_en", "en_pt")]
#: The tasks of the table. Those of `SAMPLES` have a sample of their prompts, because all would take long on two cores.
TASKS = [
    "nnd_demo",
    "nnd_challenge300",
    "nnd_quiz_design",
    "nnd_news_gpt3_bbc",
    "nnd_news_gpt3_cnn",
    "nnd_llmbar",
    "nnd_bio_mqm_en2de",
    "nnd_webnlg",
    "nnd_summeval",
    "nnd_mqm_sxs2023_ende",
    "nnd_bump",
    "nnd_frank",
    "nnd_mqm_ted_ende",
    "nnd_lfqa",
    "nnd_humanevalfix",
    "nnd_summedits",
    "nnd_hanna",
    "nnd_mqm_ende",
    "nnd_prmbench",
    "nnd_wqrm",
    "nnd_lamp",
    "nnd_d2t",
    *CHATS,
    "nnd_mtrag",
    "nnd_bridge",
    "nnd_crscore",
    "nnd_when2call",
]
SAMPLES = {"nnd_prmbench": 50, "nnd_d2t": 20, **dict.fromkeys(CHATS, 100)}


def run_tasks(model: str, out: Path, *, chat: bool, tasks: list[str], dtype: str, sample: int | None) -> None:
    """Run each task that has no results yet, with token scores.

    Args:
        model: as after ``pretrained=``.
        out: a folder for each task is made in it.
        chat: apply the chat template.
        tasks: their names.
        dtype: of the weights.
        sample: number of prompts per task; None takes all, but for ``SAMPLES``.
    """
    for task in tqdm(tasks, unit="task"):
        place = out / Path(model).name / ("chat" if chat else "plain") / task
        if any(place.rglob("results_*.json")):
            continue
        arguments = {"pretrained": model, "dtype": dtype, "softmax_dtype": "float32"}
        options = {"metadata": {"tokens": True}, "apply_chat_template": chat, "sample": sample or SAMPLES.get(task)}
        run_and_save(task, "hf", arguments, batch_size=8, output_path=place, **options)


def print_table(out: Path) -> None:
    """Print a row for each task and category with a column for each model and chat template, then the signature of each run."""
    rows, lines = [], []
    for paired in pair(read_results(out)):
        chat = " with chat template" if paired.runs[0].protocol.get("chat_template") else ""
        rates = category_rates(paired)
        kept = rates[(rates["category"] != "all") | (rates["category"].nunique() > 2)].reset_index(drop=True)
        who = kept["model"].str.extract(r"([^/]+?)(?: [(#].*)?$")[0] + chat  # the name without its path
        *_, total = str(paired.runs[0].protocol["selection"]).partition(" (")[0].split()  # 10 of 60 (digest), or all
        part = "" if total == "all" else f" of {int(total):,}"
        rows.append(kept.assign(task=paired.runs[0].task, who=who, part=part))
        lines += [f"{run.model}{chat}: {run.line}" for run in paired.runs]
    table = pd.concat(rows)
    interval = [
        f" [{low:.3f}, {high:.3f}]" * (low == low) for low, high in zip(table["low"], table["high"], strict=True)
    ]
    table["cell"] = [
        f"{row.rate:.3f}{between}{'†' * row.few} | {row.prompts:,}{row.part * first}"
        for row, between, first in zip(table.itertuples(), interval, ~table.duplicated(["task", "who"]), strict=True)
    ]
    wide = table.pivot(index=["task", "category"], columns="who", values="cell").fillna(" | ")
    order = [
        (task, name)
        for task in dict.fromkeys([*TASKS, *table["task"]])
        for name in dict.fromkeys(table.loc[table["task"] == task, "category"])
    ]
    print("| task | category |", *(f"{who} | prompts |" for who in wide.columns))
    print("|---|---|" + "---|---:|" * len(wide.columns))
    for (task, category), above in zip(order, [("", ""), *order], strict=False):
        name = f"`{task}`" if task != above[0] else ""
        print("|", " | ".join([name, category, *wide.loc[task, category]]), "|")
    print("", *lines, sep="\n")


def main() -> None:
    """Read the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=SMOLLM2, help="as after pretrained= (smollm2)")
    parser.add_argument("--out", type=Path, default=Path("reference"), help="folder of the results")
    parser.add_argument("--chat", action="store_true", help="apply the model's chat template")
    parser.add_argument("--dtype", default="bfloat16", help="of the weights (bfloat16, as SmolLM2 was published)")
    parser.add_argument("--sample", type=int, help="number of prompts per task (all)")
    parser.add_argument("--tasks", type=lambda names: names.split(","), default=TASKS, help="with commas between them")
    options = parser.parse_args()
    run_tasks(
        options.model,
        options.out,
        chat=options.chat,
        tasks=options.tasks,
        dtype=options.dtype,
        sample=options.sample,
    )
    print_table(options.out)


if __name__ == "__main__":
    main()
