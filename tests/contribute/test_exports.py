"""The gallery of exports: each sample builds, with nothing lost in silence, and its prepare.py builds it again."""

from pathlib import Path

import pytest
import yaml

import nnd_tasks.contribute.exports as gallery
from nnd_tasks.files import read_yaml
from nnd_tasks.schema import fingerprint
from nnd_tasks.sets.build import build_set
from nnd_tasks.sets.first_use import load
from nnd_tasks.store import read_report, read_table
from tests.contribute.test_new import SAMPLES, new, refusal
from tests.sets.small_files import write_files
from tests.sets.tables import pick

CASES, RATERS = (
    yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8")) for name in ("exports", "raters")
)


def test_each_sample_and_each_kind_has_a_case():
    samples = {path.name for path in SAMPLES.iterdir()}
    assert samples == {case["sample"] for case in CASES}
    for kind in (*gallery.KINDS, "wide", "two_headers", "appraise_ranking"):
        assert any(name.startswith(kind) for name in samples), kind


@pytest.mark.parametrize("case", CASES, ids=[case["sample"] for case in CASES])
def test_a_sample_builds_and_builds_again_from_what_was_written(case, tmp_path, nnd_home):
    said = new(SAMPLES / case["sample"], case.get("options", ""))
    assert "recognised by" in said
    folder = nnd_home / "nnd" / "mine"
    tests, [report] = read_table(folder), read_report(folder).values()
    assert tests.num_rows == case["tests"]
    assert [tests["high"][0].as_py(), tests["low"][0].as_py()] == case["pair"]
    assert report["accounts"]["rows"]["left_out"] == case.get("left_out", {})
    if "spans" in case:
        text, spans = tests["low"][0].as_py(), tests["low_spans"][0].as_py()
        assert text[spans[0]["start"] : spans[0]["end"]] == case["spans"]
    if "label" in case:
        assert read_yaml(nnd_home / "task_yamls" / "mine" / "_recipe")["label"] == case["label"]
    again = build_set("mine", SAMPLES / case["sample"], tmp_path / "again")
    assert fingerprint(read_table(again.folder)) == fingerprint(tests)


@pytest.mark.parametrize("case", RATERS, ids=lambda case: case["options"])
def test_no_judgement_of_several_raters_is_lost_in_silence(case, tmp_path, nnd_home):
    source = write_files(tmp_path, case["files"])
    if "refused" in case:
        assert case["refused"] in refusal(source, case["options"])
        return
    said = " ".join(new(source, case["options"]).split())
    assert all(words in said for words in case.get("said", ()))
    assert sorted(" > ".join(pair) for pair in pick(load("mine").to_list(), "high", "low")) == case["tests"]
    if "judged" in case:
        judged = load("mine", "default_judgements").to_pandas()
        assert judged.groupby("rater")[judged.columns[-1]].agg(sorted).to_dict() == case["judged"]
