"""Results of plain lm-eval, of two trained models on six tasks and two groups."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import once
from tests.exchange.stock_tasks import command, write_tasks


@pytest.fixture(scope="session")
def stock(models, small_lm_eval, tmp_path_factory):
    """Return a folder with the results of two models, each in a folder of its name; no test changes it."""

    def make(out):
        from lm_eval.__main__ import cli_evaluate
        from lm_eval.tasks import manager

        tasks = write_tasks(out / "tasks")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(manager, "__file__", str(small_lm_eval / "lm_eval" / "tasks" / "manager.py"))
            for name in ("tiny-lm-xs", "tiny-lm-m"):
                patch.setattr(sys, "argv", ["lm_eval", *command(tasks, models / name, out / name)])
                cli_evaluate()

    return once(tmp_path_factory, "stock", make)


@pytest.fixture
def results(stock, tmp_path):
    """Return a copy that a test may damage."""
    return Path(shutil.copytree(stock, tmp_path / "results", ignore=shutil.ignore_patterns("tasks")))
