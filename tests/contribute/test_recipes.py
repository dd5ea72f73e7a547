"""Checks of recipes and their code: as somebody sent them, and beside built data."""

import json

import pytest
import yaml

from nnd_tasks.contribute.check.checking import check_set
from nnd_tasks.contribute.check.rules import Severity
from nnd_tasks.store import tasks_dir
from tests.conftest import DEMO_ANNOTATIONS
from tests.contribute.made import NAME, Made
from tests.sets.tables import read_arguments

ARGUMENTS = read_arguments(__file__)

GOOD = yaml.safe_load("""
files: {d.csv: {url: https://example.org/d.csv, sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef}}
context: c
candidate: t
label: l
better: [good]
facts:
  license: cc-by-4.0
  language: [en]
  summary: Answers were judged.
  judges: Three people.
  homepage: https://example.org
  citation: "@article{who2020judged,}"
""")
ROWS = "import pandas as pd\n\n\ndef rows(folder):\n    return pd.read_csv(folder / 'd.csv')\n"


@pytest.fixture
def sent(tmp_path):
    """Return the folder of a recipe as somebody may send it."""
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "_recipe").write_text(yaml.safe_dump(GOOD), encoding="utf-8")
    return folder


def found(path):
    return {one.code: one for one in check_set(str(path)).findings}


def test_nothing_is_wrong_with_a_good_recipe(sent):
    for path in (sent, sent / "_recipe"):
        report = check_set(str(path))
        assert (report.name, report.findings) == ("sent", [])


@pytest.mark.parametrize(("settings", "code", "message"), ARGUMENTS["tasks_beside_a_sent_recipe_are_read_and_not_run"])
def test_tasks_beside_a_sent_recipe_are_read_and_not_run(settings, code, message, sent):
    task = {
        "include": str(tasks_dir() / "_base"),
        "task": "y",
        "dataset_path": "nnd/sent",
        "doc_to_text": "{{context}}",
    }
    lines = [
        f"{key}: {value if value.startswith('!') else json.dumps(value)}" for key, value in {**task, **settings}.items()
    ]
    (sent / "y.yaml").write_text("\n".join(lines), encoding="utf-8")
    assert message in found(sent)[code].message
    (sent / "y.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    assert found(sent) == {}


@pytest.mark.parametrize("prompt", ["{{ context.__class__ }}", "{{ 'a' * 10**10 }}", "{{ 'a' | center(10**10) }}"])
def test_the_prompt_of_a_sent_recipe_is_rendered(prompt, sent):
    (sent / "_recipe").write_text(yaml.safe_dump({**GOOD, "prompt": prompt}), encoding="utf-8")
    assert "prompt of the recipe is unsafe" in found(sent)["prompt_invalid"].message
    (sent / "_recipe").write_text(yaml.safe_dump({**GOOD, "prompt": "{{ answer }}", "field": {"answer": "a"}}), "utf-8")
    assert found(sent) == {}


@pytest.mark.parametrize(("changes", "code", "message"), ARGUMENTS["what_is_wrong_with_a_recipe_is_found"])
def test_what_is_wrong_with_a_recipe_is_found(changes, code, message, sent):
    (sent / "_recipe").write_text(yaml.safe_dump({**GOOD, **changes}), encoding="utf-8")
    [(known, one)] = found(sent).items()
    assert known == code
    assert message in one.message


# ---------------------------------------------------------------- prepare.py


@pytest.mark.parametrize(("line", "named"), ARGUMENTS["code_is_read_and_not_run"])
def test_code_is_read_and_not_run(line, named, sent):
    (sent / "prepare.py").write_text(f"{line}\n{ROWS}raise SystemExit('it ran')\n", encoding="utf-8")
    one = found(sent)["prepare_code"]
    assert one.severity is Severity.WARNING
    assert named in one.message


def test_code_that_only_reads_tables_is_a_note(sent, nnd_home):
    imports = "import csv, json\nfrom pathlib import Path\nfrom collections import Counter\nfrom xml.etree import ElementTree\n"
    more = f"{imports}names = [system for system in 'ab']\n"
    (sent / "prepare.py").write_text(more + ROWS, encoding="utf-8")
    assert [(one.code, one.severity) for one in found(sent).values()] == [("prepare_code", Severity.NOTE)]
    made = Made(nnd_home, files={f"nnd/{NAME}/prepare.py": "import os\n" + ROWS})
    made.write()
    assert "import os" in found(made.folder)["prepare_code"].message, "beside a dataset, too"


# ---------------------------------------------------------------- beside the data


@pytest.mark.parametrize(("changes", "messages"), ARGUMENTS["a_set_is_compared_with_its_recipe"])
def test_a_set_is_compared_with_its_recipe(changes, messages, nnd_home):
    known = Made(nnd_home, files={f"task_yamls/{NAME}/_recipe": yaml.safe_dump({**GOOD, **changes})}).found()
    assert known.keys() == messages.keys()
    assert all(messages[code] in one.message for code, one in known.items())


def test_the_command_says_it_and_sets_its_status(nnd, sent):
    assert nnd("check", sent, "--format", "json").status == 0
    (sent / "_recipe").write_text(yaml.safe_dump({**GOOD, "facts": {}}), encoding="utf-8")
    done = nnd("check", sent, "--strict", "--format", "markdown")
    assert (done.status, "**warning** `recipe_fact`" in done.out) == (3, True)
    (sent / "_recipe").write_text("a: &x 1\nb: *x\n", encoding="utf-8")
    assert nnd("check", sent, "-o", sent / "report").status == 2
    assert "recipe_invalid" in (sent / "report").read_text("utf-8")
    assert "is a table, of which nnd new NAME" in nnd("check", DEMO_ANNOTATIONS).err
