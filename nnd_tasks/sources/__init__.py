"""Human evaluations, one module each, and the registry of those we know."""

from __future__ import annotations

import difflib

from nnd_tasks.errors import NNDError
from nnd_tasks.sources.base import Source
from nnd_tasks.sources.challenge300 import Challenge300
from nnd_tasks.sources.demo import Demo
from nnd_tasks.sources.frank import Frank
from nnd_tasks.sources.mqm import MQM
from nnd_tasks.sources.news_gpt3 import NewsGPT3
from nnd_tasks.sources.quiz_design import QuizDesign
from nnd_tasks.sources.summeval import SummEval

SOURCES: dict[str, Source] = {
    source.name: source for source in (QuizDesign(), Challenge300(), SummEval(), Frank(), MQM(), NewsGPT3(), Demo())
}


def get_source(name: str) -> Source:
    """Return the source called ``name``.

    Raises:
        NNDError: there is none; near matches are named.
    """
    if name in SOURCES:
        return SOURCES[name]
    near = difflib.get_close_matches(name.removeprefix("nnd_").lower(), SOURCES, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known sets: {', '.join(SOURCES)}"
    raise NNDError(f"there is no set {name!r}; {hint}")
