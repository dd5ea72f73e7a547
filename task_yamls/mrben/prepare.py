"""MR-Ben: solutions of models, right or with the first wrong step and corrections of it; one JSON file per subject."""

from pathlib import Path

import pandas as pd

from nnd_tasks.tables.read import read_json


def rows(folder: Path) -> pd.DataFrame:
    """Return a row per solution (``solution``), and one per wrong step and correction of it (``step``)."""
    found = []
    for path in sorted(folder.glob("*.json")):
        for key, solutions in read_json(path).items():
            question = "\n".join(solutions[0].get(part, "").strip() for part in ("Question", "Options")).strip()
            for number, one in enumerate(solutions, start=1):
                text, label = one["Model_Solution_Steps"], one["Model_Solution_Correctness"]
                # A program is a text, and its wrong step a line of it; the number of any other step does not count blank ones.
                steps = text.split("\n") if isinstance(text, str) else [step for step in text if step.strip()]
                known = {"category": path.stem, "subcategory": one["Subject"], "where": f"{path.name}, {key}, {number}"}
                found.append({"config": "solution", "group": key, "context": question, "candidate": "\n".join(steps),
                              "label": label, "system": one["Sampled_Model"], **known})  # fmt: skip
                if label == "correct":
                    continue
                named, better = one["Model_Solution_First_Error_Step"], one["Model_Solution_Rectified_First_Error_Step"]
                places = [i for i, step in enumerate(steps) if step.strip() and named in (step, str(i + 1))]
                texts = [(text, "correct") for text in ([better] if isinstance(better, str) else better)]
                step = {"config": "step", "group": f"{key} {number}", "context": "", **known}
                if len(places) == 1:  # else it is blank, or stands there several times
                    texts.append((steps[places[0]], "incorrect"))
                    step["context"] = "\n".join([question, *steps[: places[0]]])
                    step["severity"] = "last" if places[0] == len(steps) - 1 else ""
                found += [{**step, "candidate": text, "label": label} for text, label in texts]
    return pd.DataFrame(found)


def mended(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the clean config: steps without their number, and none that is the last of its solution."""
    numbers = dict.fromkeys(("context", "candidate"), r"(?m)^ *Step \d+: *")
    return rows[rows["severity"] != "last"].replace(numbers, "", regex=True)
