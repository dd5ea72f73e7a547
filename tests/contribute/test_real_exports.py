"""Exports that the tools' own packages write are recognised and build what the samples build.

``nox -s exports`` runs this file. ``NND_TEST_EXPORTS`` names the Python that has these packages.
"""

import os
import subprocess

import pytest

from nnd_tasks.store import read_report, read_table
from tests.contribute.test_new import SAMPLES, new, refusal

PYTHON = os.environ.get("NND_TEST_EXPORTS", "")
pytestmark = pytest.mark.skipif(
    not PYTHON, reason="nox -s exports runs it, with the packages in an environment of their own"
)

CONVERT = """
import sys
from label_studio_sdk.converter import Converter
config = '''<View><Text name="text" value="$text"/><Choices name="quality" toName="text"><Choice value="right"/>
<Choice value="wrong"/></Choices>
<Rating name="stars" toName="text"/><Labels name="errors" toName="text"><Label value="place"/></Labels></View>'''
converter = Converter(config, project_dir=None)
converter.convert_to_json_min(sys.argv[1], sys.argv[2], is_dir=False)
converter.convert_to_csv(sys.argv[1], sys.argv[2], is_dir=False, sep=",")
"""
#: Three texts of two users, one of whom discarded a response; as nested and as flat records.
RECORDS = """
import json, sys, uuid
import argilla as rg
from argilla.records._io import GenericIO
users = [uuid.UUID(int=1), uuid.UUID(int=2)]
given = [("Tin.", [("good", "submitted"), ("bad", "discarded")]), ("Oak.", [("bad", "submitted"), ("good", "draft")])]
given += [("Ash.", [])]
records = [
    rg.Record(
        fields={"question": "Name a metal.", "answer": text},
        responses=[rg.Response("quality", value, user, status=status) for (value, status), user in zip(responses, users)],
        suggestions=[rg.Suggestion("quality", "bad")],
    )
    for text, responses in given
]
for name, flat in (("nested", False), ("flat", True)):
    with open(f"{sys.argv[1]}/{name}.json", "w") as file:
        json.dump(GenericIO.to_list(records, flatten=flat), file, default=str)
"""


def run(script, *arguments):
    subprocess.run([PYTHON, "-c", script, *map(str, arguments)], check=True)


@pytest.mark.parametrize("file", ["result.json", "result.csv"])
def test_label_studio(file, tmp_path, nnd_home):
    run(CONVERT, SAMPLES / "label_studio.json", tmp_path)
    said = new(tmp_path / file, "--label quality --better right --spans errors")
    assert "recognised by annotation_id, lead_time" in said
    [test] = read_table(nnd_home / "nnd" / "mine").to_pylist()
    assert (test["high"], test["rater"]) == ("The Dead Sea.", "ann@example.org")
    [span] = test["low_spans"]
    assert test["low"][span["start"] : span["end"]] == "Baltic"


def test_argilla(tmp_path, nnd_home):
    run(RECORDS, tmp_path)
    new(tmp_path / "flat.json", "--better good")
    [test], [report] = (
        read_table(nnd_home / "nnd" / "mine").to_pylist(),
        read_report(nnd_home / "nnd" / "mine").values(),
    )
    assert (test["high"], test["low"]) == ("Tin.", "Oak.")
    left_out = {"by_recipe: status = 'discarded'": 1, "by_recipe: status = 'draft'": 1, "no_judgement": 1}
    assert report["accounts"]["rows"]["left_out"] == left_out
    refused = refusal(tmp_path / "nested.json", "--better good --replace")  # to_list without flatten has no status
    assert "of every candidate people said both equally often" in refused
