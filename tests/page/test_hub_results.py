"""Rates of one model in the form of the hub (`nnd report --hub`)."""

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from nnd_tasks.results.read_runs import read_results
from tests.results import token_runs


def test_rates_of_one_model_are_entries_of_the_hub(tmp_path, nnd):
    documents = token_runs.documents(12, each=2)
    results, file = token_runs.write_run(tmp_path / "a", "m", documents), tmp_path / "rates.yaml"
    done = nnd("report", results, "--hub", file)
    assert done.status == 0, done.err
    [entry] = parse_eval_result_entries(yaml.safe_load(file.read_text("utf-8")))
    [run] = read_results(results)
    assert entry.value == pytest.approx(run.tests["passed"].mean(), abs=1e-4)
    assert (entry.dataset_id, entry.task_id) == (run.protocol["set"], f"{run.protocol['config']}_likelihood")
    assert run.short_line in entry.notes

    other = token_runs.write_run(tmp_path / "b", "n", documents)
    assert "the file is for one model, and these are of" in nnd("report", results, other, "--hub", file).err
    for option in ("--allow", "--output"):
        assert "takes --select only" in nnd("report", results, "--hub", file, option, "prompt").err
    assert "-o page.html names the page" in nnd("report", results, "--out", "page.html").err
