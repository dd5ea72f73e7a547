"""Build a set of the errors that a search found against some models, and see which other models they fool."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from tqdm import tqdm

from nnd_tasks.analysis.model_names import short_names
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import expand
from nnd_tasks.harness.signature import weights_digest
from nnd_tasks.sets.tasks import shipped_task
from nnd_tasks.show.report import Table
from nnd_tasks.statistics import confidence_interval
from nnd_tasks.stress.attack import SEARCHES, keep_edits, nearest_words, propose_edits, propose_errors, search
from nnd_tasks.stress.corpora import Gold, read_corpus
from nnd_tasks.stress.error_types import choose_errors
from nnd_tasks.stress.likelihood import Scorer
from nnd_tasks.stress.set_writing import PROMPT, NewSet, StressSet, make_row
from nnd_tasks.stress.stress_set import find_means, prepare_draft
from nnd_tasks.stress.text import load_parser
from nnd_tasks.wording import counted, did_you_mean

#: Changes that a report lists for each search, and that a table shows, the most frequent first.
_LISTED, _SHOWN = 8, 4


def build_attack_set(
    name: str,
    models: Sequence[str],
    corpus: str,
    *,
    place: str | Path | None = None,
    searches: Sequence[str] = tuple(SEARCHES),
    errors: str = "all",
    steps: int = 3,
    texts: int | None = 50,
    spacy: str | None = None,
    prompt: str | None = None,
    device: str | None = None,
    batch_size: int | str = 1,
    out: str | Path | None = None,
    replace: bool = False,
    progress: bool = True,
) -> StressSet:
    """Search for errors that models prefer, and build the set ``name`` of them and the task ``nnd_NAME``.

    Its categories are the attacked models, its subcategories the searches.

    Args:
        name: of the set; letters, digits and ``_``.
        models: folders or names of the models to attack.
        corpus: as for `nnd_tasks.stress.stress_set.build_stress_set`.
        place: file or folder of a corpus of the paper.
        searches: keys of `SEARCHES`.
        errors: ``all``, or names of error types separated by commas, for the search of that name.
        steps: most changes of a text, one after the other.
        texts: how many of the gold texts, drawn at random with a fixed seed; None takes all.
        spacy: a spaCy pipeline; None takes ``en_core_web_sm`` if it is installed.
        prompt: template of what comes before a text whose corpus has sources; None takes `set_writing.PROMPT`.
        device: as lm-eval's ``--device``.
        batch_size: as lm-eval's ``--batch_size``.
        out: the dataset folder; None takes ``$NND_HOME/nnd/NAME``.
        replace: overwrite a set of this name that was made in another way.
        progress: show progress.

    Raises:
        NNDError: an argument is wrong, the corpus or a model cannot be read, nothing was found, or another process builds this
            set.
    """
    golds = read_corpus(corpus, expand(place) if place else None)
    new = NewSet(name, golds, out, prompt, replace)
    new.check(steps=steps, texts=texts)
    if shipped_task(f"nnd_{name}"):
        raise NNDError(f"{name} is the set of a task that comes with nnd-tasks; take another name")
    for one in searches:
        if one not in SEARCHES:
            meant = did_you_mean(one, SEARCHES, end=" ")
            raise NNDError(f"--search: there is no search {one!r}; {meant}there are: {', '.join(SEARCHES)}")
    if not models or not searches:
        raise NNDError(f"{'--models' if not models else '--search'}: none is named")
    if repeated := [model for model, count in Counter(models).items() if count > 1]:
        raise NNDError(f"--models: {repeated[0]} is named twice")
    names = short_names([str(expand(model)) for model in models])
    scorers = [
        Scorer(model, short, device=device, batch_size=batch_size) for model, short in zip(models, names, strict=True)
    ]
    parser = load_parser(spacy)
    known, _ = choose_errors(errors, golds.name, find_means(golds, parser, None))
    types = keep_edits(known, named=errors != "all")
    if "errors" in searches and not types:
        raise NNDError(f"--errors {errors}: none of them changes a part of a text")
    drawn = golds.draw(texts)
    contexts = _render_prompts(drawn, prompt)
    weights = [weights_digest(str(expand(model))) for model in models]
    named = [error.name for error in types]
    with new.making("attack", len(drawn), named, [*models], weights, [*searches], steps, prompt, parser.name) as report:
        draft = prepare_draft(golds, parser, types, progress=progress)
        replaces = bool(drawn[0].source and "edits" in searches)  # content words, where there is a source
        words = [[word.lower_ for gold in part for word in parser.parse(gold.text)] for part in (golds.texts, drawn)]
        rows = []
        for scorer in scorers:
            with scorer.loaded():
                near = nearest_words(words[1], Counter(words[0]), scorer) if replaces else None
                tried = list(product(searches, range(len(drawn))))
                for kind, i in tqdm(tried, desc=f"attacking {scorer.name}", unit="text", disable=not progress):
                    own = dataclasses.replace(draft, source=drawn[i].source)
                    propose = propose_errors(types, own) if kind == "errors" else propose_edits(parser, near)
                    found = search(drawn[i], contexts[i], propose, scorer.score, steps)
                    rows.append({"model": scorer.name, "search": kind, "gold": i, "text": None, **found})
        attempts = pd.DataFrame(rows)
        if (too_long := attempts.groupby("model")["too_long"].all()).any():
            raise NNDError(f"{too_long.idxmax()}: no text of the corpus fits its window; take shorter texts")
        found = attempts[attempts["text"].notna()]
        if found.empty:
            raise NNDError(
                f"corpus {golds.name}: no change of up to {steps} steps raises the likelihood of any text; try more --texts or "
                "--steps"
            )
        tests = pd.DataFrame(
            make_row(drawn[one.gold], one.text, one.model, one.search, one.noise, 0, "attack", one.model, one.search)
            for one in found.itertuples()
        )
        attacks = pd.DataFrame(_summarize(part) for _, part in attempts.groupby(["model", "search"], sort=False))
        fooled = []
        for scorer in scorers:
            with scorer.loaded():
                fooled += _count_fooled(scorer, tests, [contexts[i] for i in found["gold"]])
        transfer = pd.DataFrame(fooled)
        details = attacks.drop(columns=["rate", "low", "high", "common"]).to_dict("records")
        report |= {"texts": len(drawn), "steps": steps, "attacks": details, "pipeline": parser.name}
        report["transfer"] = transfer.to_numpy().tolist()
        return new.write(
            tests,
            report,
            _describe(attacks, transfer),
            f"{counted(len(tests), 'test')}: for each gold text the smallest change, in as few greedy steps as possible, that a "
            "model prefers to the text (He et al., ACL 2023, appendix J). `category` is the model that was attacked, which fails "
            "these tests by construction; `subcategory` is the search: `errors` combines the error types of the stress sets, "
            "`edits` deletes and replaces words.",
            "Gold texts and small changes that make them worse, found by a search against language models.",
        )


def _render_prompts(texts: Sequence[Gold], prompt: str | None) -> list[str]:
    """Return what a model reads before each text, as the task renders it.

    Raises:
        NNDError: the template cannot be rendered.
    """
    if not texts[0].source:
        return [""] * len(texts)
    try:
        template = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True).from_string(  # noqa: S701
            PROMPT if prompt is None else prompt
        )
        return [template.render(context=gold.source) for gold in texts]
    except Exception as error:  # what a template computes can fail in any way
        raise NNDError(f"--prompt: {reason_of(error)}; it may use {{{{context}}}}") from error


def _summarize(attempts: pd.DataFrame) -> dict[str, Any]:
    """Return what one search found against one model; ``rate`` is of the texts that fit the window, with its 95% interval."""
    fitting = attempts[~attempts["too_long"]]
    found = fitting[fitting["text"].notna()]
    counts = Counter(step for steps in found["steps"] for step in steps)
    changes = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_LISTED])
    low, high = confidence_interval(fitting["text"].notna().tolist(), [1] * len(fitting))
    return {
        "model": attempts["model"].iloc[0],
        "search": attempts["search"].iloc[0],
        "texts": len(fitting),
        "too_long": len(attempts) - len(fitting),
        "found": len(found),
        "rate": len(found) / len(fitting),
        "low": low,
        "high": high,
        "gain": found["gain"].mean() if len(found) else None,
        "noise": found["noise"].mean() if len(found) else None,
        "changes": changes,
        "common": ", ".join(f"{what} ({count})" for what, count in [*changes.items()][:_SHOWN]),
    }


def _count_fooled(scorer: Scorer, tests: pd.DataFrame, contexts: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row per attacked model: the share of its tests that a model fails, and its 95% interval over gold texts.

    Tests that do not fit the model's window are left out.

    Args:
        scorer: the model; it is loaded.
        tests: found against all models.
        contexts: what the model reads before each.
    """
    pairs = {side: list(zip(contexts, tests[side], strict=True)) for side in ("high", "low")}
    asked = list(dict.fromkeys([*pairs["high"], *pairs["low"]]))
    means = dict(zip(asked, scorer.score(asked), strict=True))
    scores = tests.assign(**{side: [means[pair] for pair in pairs[side]] for side in pairs})
    scores = scores[scores[["high", "low"]].min(axis=1) > -math.inf]
    scores["failed"] = scores["high"] <= scores["low"]
    rows = []
    for attacked, part in scores.groupby("category", sort=False):
        texts = part.groupby("cluster_id", sort=False)["failed"].agg(["sum", "count"])
        low, high = confidence_interval(texts["sum"].tolist(), texts["count"].tolist())
        rate = float(part["failed"].mean())
        rows.append({"attacked": attacked, "scoring": scorer.name, "rate": rate, "low": low, "high": high})
    return rows


def _describe(attacks: pd.DataFrame, transfer: pd.DataFrame) -> list[Table]:
    """Return tables of what the searches found, and whom else it fools."""
    found = {
        "model": "{model}",
        "search": "{search}",
        "texts": "{texts:,}",
        "found": "{rate:.3f}",
        "95% interval": "{low:.3f} to {high:.3f}",
        "gain, nats per token": "{gain:.3f}",
        "noise ratio": "{noise:.3f}",
        "most frequent": "{common}",
    }
    shares = {"found against": "{attacked}", "{scoring}": "{rate:.3f} ({low:.3f} to {high:.3f})"}
    caption = "Share of the errors found against a model (rows) that a model (columns) prefers too:"
    return [Table("attacks", attacks, found), Table("transfer", transfer, shares, caption)]
