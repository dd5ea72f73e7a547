"""Checks of published sets: what is found in their tests is what a person has read."""

import json
from pathlib import Path

import pytest

from nnd_tasks.contribute.check.checking import check_set
from tests.conftest import needs_data

pytestmark = [pytest.mark.slow, needs_data]
#: Set -> config -> code -> number of tests.
FOUND = json.loads(Path(__file__).with_name("real_sets.json").read_text("utf-8"))
#: Those that take long; the others have all that is found in these.
LONG = ("frank", "mqm", "summeval")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.complete] * (name in LONG)) for name in FOUND])
def test_findings_on_tests_are_as_known(name, real_sets):
    report = check_set(str(real_sets(name)), configs=FOUND[name])
    found = {config: {} for config in FOUND[name]}
    for one in report.findings:
        if one.config and one.count:
            found[one.config][f"{one.code} ({one.severity.label})"] = one.count
    assert found == FOUND[name]
    assert report.counts["error"] == 0
    assert "report_mismatch" not in {one.code for one in report.findings}
