"""Build a set of the errors that a search found against some models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.harness.signature import weights_digest
from nnd_tasks.show.report import Cell, Table
from nnd_tasks.statistics import confidence_interval
from nnd_tasks.stress.attack import keep_edits, nearest_words, propose_edits, propose_errors, search
from nnd_tasks.stress.corpora import read_corpus
from nnd_tasks.stress.error_types import choose_errors
from nnd_tasks.stress.likelihood import name_scorers
from nnd_tasks.stress.set_writing import PROMPT, NewSet, StressSet, make_row
from nnd_tasks.stress.stress_set import find_means, prepare_draft
from nnd_tasks.stress.text import load_parser
from nnd_tasks.wording import counted

#: Most changes of a text, one after the other.
STEPS = 3
#: Changes that a report lists for each search, the most frequent first.
_LISTED = 8
_ATTACKS: dict[str, Cell] = {
    "model": "{model}",
    "search": "{search}",
    "texts": "{texts:,}",
    "found": "{rate:.3f}",
    "95% interval": "{low:.3f} to {high:.3f}",
    "gain, nats per token": "{gain:.3f}",
    "noise ratio": "{noise:.3f}",
    "most frequent": lambda row: ", ".join(f"{what} ({count})" for what, count in row["changes"].items()),
}


def build_attack_set(
    name: str,
    models: Sequence[str],
    corpus: str,
    *,
    place: str | Path | None = None,
    errors: str = "all",
    texts: int = 50,
    out: str | Path | None = None,
    replace: bool = False,
) -> StressSet:
    """Search for errors that models prefer, and build the set ``name`` of them and the task ``nnd_NAME``.

    Its categories are the attacked models, its subcategories the searches.

    Args:
        name: of the set; letters, digits and ``_``.
        models: folders or names of the models to attack.
        corpus: as for `nnd_tasks.stress.stress_set.build_stress_set`.
        place: folder of the paper's corpora.
        errors: ``all``, or names of error types separated by commas, for the search of that name.
        texts: how many of the gold texts, drawn at random with a fixed seed; 0 takes all.
        out: the dataset folder; None takes ``$NND_HOME/nnd/NAME``.
        replace: overwrite a set of this name that was made in another way.

    Raises:
        NNDError: an argument is wrong, the corpus or a model cannot be read, nothing was found, or another process builds this
            set.
    """
    golds = read_corpus(corpus, place)
    new = NewSet(name, golds, out, replace)
    scorers = name_scorers(models)
    parser = load_parser()
    known, _ = choose_errors(errors, golds.name, find_means(golds, parser))
    types = keep_edits(known, named=errors != "all")
    if not types:
        raise NNDError(f"--errors {errors}: none of them changes a part of a text")
    drawn = golds.draw(texts)
    contexts = [PROMPT.replace("{{context}}", gold.source) if gold.source else "" for gold in drawn]
    weights = [weights_digest(str(expand(model))) for model in models]
    with new.making("attack", len(drawn), [error.name for error in types], [*models], weights, parser.name) as report:
        draft = prepare_draft(golds, parser, types)
        words = [[word.lower_ for gold in part for word in parser.parse(gold.text)] for part in (golds.texts, drawn)]
        rows = []
        for scorer in scorers:
            with scorer.loaded():
                # Content words are changed only where there is a source.
                near = nearest_words(words[1], Counter(words[0]), scorer) if drawn[0].source else None
                # Error types by their smallest amount, and single words.
                searches = {"errors": propose_errors(types, draft), "edits": propose_edits(parser, near)}
                tried = list(product(searches, range(len(drawn))))
                for kind, i in tqdm(tried, desc=f"attacking {scorer.name}", unit="text", disable=None):
                    found = search(drawn[i], contexts[i], searches[kind], scorer.score, STEPS)
                    rows.append({"model": scorer.name, "search": kind, "gold": i, "text": None, **found})
        attempts = pd.DataFrame(rows)
        found = attempts[attempts["text"].notna()]
        if found.empty:
            raise NNDError(
                f"corpus {golds.name}: no change raises the likelihood of any text that fits a window; try more --texts"
            )
        tests = pd.DataFrame(
            make_row(drawn[one.gold], one.text, one.model, one.search, one.noise, 0, "attack", one.model, one.search)
            for one in found.itertuples()
        )
        attacks = pd.DataFrame(_summarize(part) for _, part in attempts.groupby(["model", "search"], sort=False))
        report |= {"texts": len(drawn), "steps": STEPS, "attacks": attacks.to_dict("records"), "pipeline": parser.name}
        return new.write(
            tests,
            report,
            [Table("attacks", attacks, _ATTACKS)],
            f"{counted(len(tests), 'test')}: for each gold text the smallest change, in as few greedy steps as possible, that a "
            "model prefers to the text (He et al., ACL 2023, appendix J). `category` is the model that was attacked, which fails "
            "these tests by construction; `subcategory` is the search: `errors` combines the error types of the stress sets, "
            "`edits` deletes and replaces words.",
            "Gold texts and small changes that make them worse, found by a search against language models.",
        )


def _summarize(attempts: pd.DataFrame) -> dict[str, Any]:
    """Return what one search found against one model; ``rate`` is of the texts that fit the window, with its 95% interval."""
    fitting = attempts[~attempts["too_long"]]
    found = fitting[fitting["text"].notna()]
    changes = found["steps"].explode().sort_values().value_counts()[:_LISTED].to_dict()
    low, high = confidence_interval(fitting["text"].notna(), [1] * len(fitting))
    return {
        "model": attempts["model"].iloc[0],
        "search": attempts["search"].iloc[0],
        "texts": len(fitting),
        "too_long": len(attempts) - len(fitting),
        "found": len(found),
        "rate": fitting["text"].notna().mean(),
        "low": low,
        "high": high,
        "gain": found["gain"].mean(),
        "noise": found["noise"].mean(),
        "changes": changes,
    }
