"""Numbers of compare, adjust and signal that no definition proves to the last digit: drawn p values, MDEs, fits, verdicts.

They are in ``pins.json``; ``python -m tests.results.test_pins --write`` replaces them.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from nnd_tasks.results.compare import compare_runs
from nnd_tasks.results.comparison_report import give_verdicts
from nnd_tasks.results.read_runs import read_results
from nnd_tasks.studies.adjust import adjust
from nnd_tasks.studies.signal import report_signals
from tests.pins import Collect, Pins, check_pins, flat, write_pins
from tests.results import fake_runs, token_runs

FILE = Path(__file__).with_name("pins.json")


def write_models(folder: Path) -> Path:
    """Write three models of one family, of which the larger ones pass more tests of one category."""
    for i, size in enumerate((70, 160, 410)):
        chances = {"same": 0.6, "rises": 0.4 + 0.25 * i}
        fake_runs.write_run(folder, f"org/pin-{size}m", chances, contexts=40, seed=i, parameters=size * 10**6)
    return folder


def pin(table: pd.DataFrame, *columns: str) -> Pins:
    return flat(table[list(columns)].to_dict("list"))


def collect_compare(folder: Path) -> Pins:
    [comparison] = compare_runs(read_results(write_models(folder)))
    sentences = give_verdicts(comparison.rates, comparison.differences)
    numbers = pin(comparison.differences, "p", "p_holm", "mde", "low", "high")
    return numbers | {f"sentence/{i}": sentence for i, sentence in enumerate(sentences)}


def collect_adjust(folder: Path) -> Pins:
    [run] = read_results(token_runs.write_run(folder, "m", token_runs.documents(40)))
    rates, _ = adjust(run)
    return pin(rates, *(name for name in rates if "adjusted" in name))


def collect_signal(folder: Path) -> Pins:
    [report] = report_signals(read_results(write_models(folder)))
    tables = {table.name: table.data for table in report.tables}
    words = {f"verdict/{i}": verdict for i, verdict in enumerate(tables["verdicts"]["verdict"])}
    return pin(tables["signals"], *tables["signals"].columns.drop(["category", "measure"])) | words


COLLECTORS: dict[str, Collect] = {"compare": collect_compare, "adjust": collect_adjust, "signal": collect_signal}


@pytest.mark.parametrize("name", COLLECTORS)
def test_numbers_are_those_that_are_pinned(name: str, tmp_path: Path) -> None:
    check_pins(COLLECTORS[name], name, FILE, tmp_path)


if __name__ == "__main__":
    write_pins(COLLECTORS, FILE)
