"""Small made-up files in each publisher's format: those in ``small/SET/``, whose README says which tests they give."""

import shutil
from pathlib import Path

FOLDER = Path(__file__).with_name("small")
QUIZ_FILE = "quiz_design_groups.jsonl"
FRANK_FILE = "human_annotations_sentence.json"
MQM_FILE = "mqm_newstest2021_ende.tsv"
#: Set -> number of tests of its first config.
SMALL = {"quiz_design": 5, "challenge300": 8, "summeval": 2, "frank": 3, "mqm": 4, "news_gpt3": 3}


def small_text(name):
    """Return the text of the first file of the set ``name``, line ends as they are."""
    return sorted((FOLDER / name).iterdir())[0].read_bytes().decode("utf-8")


def write_files(folder, files):
    """Write ``files`` into ``folder``, line ends as they are."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode("utf-8"))
    return folder


def small_source(folder, name):
    """Copy the small files of the set ``name`` into ``folder``."""
    return shutil.copytree(FOLDER / name, folder, dirs_exist_ok=True)
