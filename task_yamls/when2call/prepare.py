"""When2Call: a question with tools, and four behaviours, one of which is right."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per wrong behaviour, beside the right one."""
    return pd.DataFrame(
        {
            "context": f"[{', '.join(question['tools'])}]",
            "question": question["question"],
            "chosen": question["answers"][question["correct_answer"]],
            "rejected": answer,
            "category": behaviour,
            "high_system": question["correct_answer"],
            "low_system": behaviour,
            "where": f"{question['source_id']} {question['uuid']}",
        }
        for question in read_records(folder / "when2call_test_llm_judge.jsonl")
        for behaviour, answer in question["answers"].items()
        if behaviour != question["correct_answer"]
    )
