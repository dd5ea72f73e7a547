"""Models that were trained on a set are noted, and compared on tests that they have not seen."""

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.comparison_report import report_comparison
from nnd_tasks.results.paired import pair
from nnd_tasks.results.read_runs import read_results
from tests.results.fake_runs import write_run
from tests.sets.tables import read_arguments

ARGUMENTS = read_arguments(__file__)


def run(folder, name, trained_on="", split=None, seed=0):
    """Return a run on the set ``made_up``, all of it or one split."""
    write_run(
        folder / f"{name}-{split}", name, contexts=12, seed=seed,
        protocol={"split": split} if split else {}, about={"trained_on": trained_on} if trained_on else {},
    )  # fmt: skip
    [found] = read_results(folder / f"{name}-{split}")
    return found


@pytest.mark.parametrize(
    ("trained_on", "split", "seen"),
    ARGUMENTS["what_a_model_has_seen"],
)
def test_what_a_model_has_seen(trained_on, split, seen, tmp_path):
    one = run(tmp_path, "a", trained_on, split)
    assert one.training_overlap == seen
    plain = run(tmp_path, "b", "", split, seed=1)
    if seen:
        with pytest.raises(NNDError, match=rf"a was trained on {seen[0]}, which is in these tests.*--allow trained_on"):
            compare_runs([plain, one])
    [found] = compare_runs([plain, one], ["trained_on"] if seen else [])
    findings = " ".join(report_comparison(found).findings)
    assert ("a was trained on" in findings) == bool(trained_on)
    assert ("these tests hold" in findings) == bool(seen)
    assert ("none of its texts is in these tests" in findings) == (split == "test" and trained_on == "made_up:train")
    assert "b was trained" not in findings


def test_models_trained_alike_are_compared(tmp_path):
    alike = [run(tmp_path, name, "made_up:train", seed=i) for i, name in enumerate("ab")]
    assert [one.models for one in pair(alike)] == [["a", "b"]]


def test_the_command_says_what_to_do(nnd, tmp_path):
    run(tmp_path / "r", "a", "made_up:train")
    run(tmp_path / "r", "b", seed=1)
    assert "run both with --split test" in nnd("compare", tmp_path / "r").err
