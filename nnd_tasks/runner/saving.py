"""Results that are on the disk whole, or not at all.

lm-eval 0.4.13 catches whatever goes wrong while it writes results and samples, logs it, and ends with status 0: a full
disk leaves files that are cut off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from nnd_tasks.errors import NNDError, first_line


@contextmanager
def whole_results() -> Iterator[None]:
    """Look at each file of results that lm-eval writes; where one is not whole, remove those of the run.

    The error comes at the end of the block: the table of results is printed before.

    Raises:
        NNDError: results or samples could not be written.
    """
    from lm_eval.loggers import evaluation_tracker as module

    tracker_class, warn = module.EvaluationTracker, module.eval_logger.warning
    caught: list[BaseException] = []
    lost: list[NNDError] = []

    def warning(*args: Any, **kwargs: Any) -> None:
        if (error := sys.exc_info()[1]) is not None:  # lm-eval warns where it has caught an exception
            caught.append(error)
        warn(*args, **kwargs)

    def checked(save: Callable[..., None], is_whole: Callable[..., bool]) -> Callable[..., None]:
        def run(tracker: Any, **what: Any) -> None:
            if lost:  # what else there is to write would be half of a run
                return
            caught.clear()
            save(tracker, **what)
            if tracker.output_path and not is_whole(tracker, **what):
                _remove(tracker)
                reason = "a file is not whole"
                if caught:
                    reason = getattr(caught[-1], "strerror", None) or first_line(caught[-1])
                lost.append(
                    NNDError(
                        f"--output_path {tracker.output_path}: the results could not be saved ({reason}), and no file of "
                        "this run was kept; make room and run again (a run with --use_cache FILE keeps the model's answers)"
                    )
                )

        return run

    with (
        patch.object(module.eval_logger, "warning", warning),
        patch.object(
            tracker_class, "save_results_aggregated", checked(tracker_class.save_results_aggregated, _results)
        ),
        patch.object(tracker_class, "save_results_samples", checked(tracker_class.save_results_samples, _samples)),
    ):
        yield
    if lost:
        raise lost[0]


def _folder(tracker: Any) -> Path:
    """Return where lm-eval puts the files of a run."""
    path = Path(tracker.output_path)
    return path.parent if path.suffix == ".json" else path / str(tracker.general_config_tracker.model_name_sanitized)


def _results(tracker: Any, **_: Any) -> bool:
    """Tell whether the file of results is there and can be read."""
    path = Path(tracker.output_path)
    name = path.stem if path.suffix == ".json" else "results"
    with suppress(OSError, ValueError, AttributeError):  # no date_id: it failed before the file had a name
        json.loads((_folder(tracker) / f"{name}_{tracker.date_id}.json").read_text(encoding="utf-8"))
        return True
    return False


def _samples(tracker: Any, *, task_name: str, samples: Sequence[Any]) -> bool:
    """Tell whether the file of a task's samples has all its lines."""
    with (
        suppress(OSError, AttributeError),
        (_folder(tracker) / f"samples_{task_name}_{tracker.date_id}.jsonl").open("rb") as file,
    ):
        return sum(line.endswith(b"\n") for line in file) == len(samples)
    return False


def _remove(tracker: Any) -> None:
    """Remove the files of a run."""
    if date := getattr(tracker, "date_id", None):
        for path in _folder(tracker).glob(f"*_{date}.json*"):
            with suppress(OSError):
                path.unlink()
