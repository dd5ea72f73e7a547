"""Bridge: what a novice tutor answered a pupil, and how an expert revised it."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_records

ERRORS = ["guess", "misinterpret", "careless", "right-idea", "imprecise", "diagnose"]


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per revision; its category is the pupil's error, ``other`` where the expert wrote something else."""
    return pd.DataFrame(
        {
            "context": f"Lesson: {moment['lesson_topic']}\n\n" + "\n".join(
                f"{turn['user'].title()}: {turn['text']}" for turn in moment["c_h"]
            ),
            "chosen": " ".join(turn["text"] for turn in moment["c_r_"]),
            "rejected": " ".join(turn["text"] for turn in moment["c_r"]),
            "category": moment["e"] if moment["e"] in ERRORS else "other",
            "high_system": "expert",
            "low_system": "novice",
            "where": moment["c_id"],
        }
        for name in ("train", "validation", "test")
        for moment in read_records(folder / f"{name}.json")
    )  # fmt: skip
