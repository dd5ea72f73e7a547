"""Near-Negative Distinction (NND) for EleutherAI's lm-evaluation-harness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from nnd_tasks.ceiling.ceiling import human_ceiling as human_ceiling
    from nnd_tasks.errors import NNDError as NNDError
    from nnd_tasks.likelihood.score_pairs import score_pairs as score_pairs
    from nnd_tasks.results.compare import compare_runs as compare_runs
    from nnd_tasks.results.read_runs import read_results as read_results
    from nnd_tasks.run.run import evaluate as evaluate
    from nnd_tasks.sets.build import build_set as build_set
    from nnd_tasks.sets.first_use import load as load
    from nnd_tasks.training.callback import NNDCallback as NNDCallback

_PUBLIC = {
    "build_set": "nnd_tasks.sets.build",
    "load": "nnd_tasks.sets.first_use",
    "NNDCallback": "nnd_tasks.training.callback",
    "NNDError": "nnd_tasks.errors",
    "compare_runs": "nnd_tasks.results.compare",
    "human_ceiling": "nnd_tasks.ceiling.ceiling",
    "evaluate": "nnd_tasks.run.run",
    "read_results": "nnd_tasks.results.read_runs",
    "score_pairs": "nnd_tasks.likelihood.score_pairs",
}
__all__ = [*sorted(_PUBLIC), "__version__"]


def __dir__() -> list[str]:
    """List the public names, also those that are not imported yet."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import the public names on first use: `import nnd_tasks` itself stays fast."""
    if name in _PUBLIC:
        from importlib import import_module

        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
