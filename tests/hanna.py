"""HANNA's table of ratings, which is not among the data: its publisher's columns, with the means of ``extra/hanna.jsonl``."""

import csv
import json
from itertools import combinations_with_replacement

CRITERIA = ("Relevance", "Coherence", "Empathy", "Surprise", "Engagement", "Complexity")
AROUND = ("Worker ID", "Assignment ID", "Work time in seconds", "Name")


def write_ratings(means, folder):
    """Write three ratings of each story whose means are those in a file; return the folder of the table."""
    ratings = {round(sum(three) / 3, 10): three for three in combinations_with_replacement(range(1, 6), 3)}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "hanna_stories_annotations.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Story ID", "Prompt", "Human", "Story", "Model", *CRITERIA, *AROUND])
        for number, line in enumerate(means.read_text("utf-8").split("\n")[:-1]):
            story = json.loads(line)
            for rater in range(3):
                given = [ratings[story[name.lower()]][rater] for name in CRITERIA]
                writer.writerow([number, story["prompt"], "", story["story"], "", *given, *["" for _ in AROUND]])
    return folder
