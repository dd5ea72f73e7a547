"""Which rule agrees best with people: all rules on the tests of a run, and an honest choice of one.

A rule is compared with the mean per token on the same tests, paired and clustered by prompt. The best of many rules is best by
chance, too. So it is chosen on one half of the sources of prompts and read on the other, both ways round.

Known limits: the interval of ``adjusted`` leaves out the noise of what was learned, which was learned from both halves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from operator import and_, eq
from typing import Any

import numpy as np
import pandas as pd

from nnd_tasks.categories import ALL, is_of_category
from nnd_tasks.errors import NNDError
from nnd_tasks.likelihood.likelihood_rules import RULES, Text, adjust
from nnd_tasks.likelihood.scored_tokens import STATS, unigram_surprise
from nnd_tasks.likelihood.span_metrics import split_words
from nnd_tasks.likelihood.token_scores import CandidateTokens, TokenScores, read_tokens
from nnd_tasks.results.paired import find_conflict
from nnd_tasks.results.runs import Run, check_writers
from nnd_tasks.rule import Likelihood, passes
from nnd_tasks.show.report import Report, make_table
from nnd_tasks.show.values import write_cell
from nnd_tasks.significance import judge_differences, paired_difference, permutation_p
from nnd_tasks.splits import find_source
from nnd_tasks.statistics import FEW, FEW_PROMPTS
from nnd_tasks.text import counted, did_you_mean

BASE, ADJUSTED = "mean", "adjusted"
#: What a rule takes beside token scores, and how a user gets it.
NEEDS = {
    **dict.fromkeys(("z", "entropy", "endogenous"), "run with token_stats=True in --model_args"),
    "pmi": """run with --metadata '{"tokens": true, "context_reliance": true}'""",
    "contrast": "name the results of a weaker model with --amateur",
    ADJUSTED: f"it learns from at least {FEW} prompts",
}
#: A difference of rates that would be worth another rule.
GAIN = 0.03
LEGEND = {
    **FEW_PROMPTS,
    "¶": "all of the gain is on tests whose better text is the longer one, or all where it is the shorter: length will do.",
}


def find_amateur(run: Run, amateurs: Sequence[Run]) -> Run:
    """Return the run of an amateur on the tests of ``run``.

    Raises:
        NNDError: there is no such run, there are several, or it cannot be compared.
    """
    of_task = [other for other in amateurs if other.task == run.task]
    if len(of_task) != 1:
        raise NNDError(f"--amateur: has {counted(len(of_task), 'run')} of {run.task}, which {run.model} ran; name one")
    if conflict := find_conflict(run, of_task[0]):
        raise NNDError(f"--amateur: {conflict}")
    return of_task[0]


def read_scores(run: Run) -> TokenScores:
    """Read the token scores of a run; raise NNDError where it kept none, or their file is damaged."""
    if run.tokens is None:
        raise NNDError(
            f"{run.path}: {run.model} kept no token scores; run it again with --metadata '{{\"tokens\": true}}' and, for all "
            "rules, token_stats=True in --model_args"
        )
    return read_tokens(run)


def apply_rules(run: Run, amateur: Run | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Ask every rule which tests a run passes.

    Args:
        run: with token scores.
        amateur: for `contrast`; with token scores.

    Returns:
        The tests with finite sums; and what each rule says of them: 1, 0 or nan, of `adjust` also 1/2 for a tie.

    Raises:
        NNDError: there are no likelihoods or token scores, or no test has finite sums.
    """
    check_writers([run], "nnd rules")
    tokens, others = read_scores(run), read_scores(amateur) if amateur else {}
    tests = run.tests.dropna(subset="margin_sum").reset_index(drop=True)
    if tests.empty:
        raise NNDError(f"{run.path}: no test has finite likelihoods")
    split, ids_of = cache(split_words), defaultdict[str, list[int]](list)
    for (prompt, _, with_context), own in tokens.items():
        if with_context:
            ids_of[prompt] += own.ids.tolist()
    unigram = unigram_surprise(ids_of.values())

    @cache
    def read(index: int, candidate: int, same: int) -> list[float]:
        document = run.documents[index]
        key, score, bare = (
            (document["cluster_id"], candidate, True),
            document["scores"][candidate],
            document["no_context"],
        )
        own, ends = tokens[key], np.cumsum([0, *map(len, split(document["candidates"][candidate])), 0])
        text = Text(
            own.logprobs.astype(float),
            total=score["sum"],
            size=score["bytes"],
            bare=bare[candidate]["mean"] if bare and bare[candidate] else np.nan,
            expected=own.expected or dict.fromkeys(STATS, own.logprobs * np.nan),
            differs=int(np.searchsorted(own.ends, ends[same], "right")),
            goes_on=int(np.searchsorted(own.starts, ends[same + 1])),
            stretches=divide(own, others[key]) if key in others else ((), ()),
        )
        # Words of the prompt's own topic would look frequent, and the other candidates' words would tell of the one at hand.
        return [*(rule(text) for rule in RULES.values()), float(unigram(own.ids, ids_of[key[0]]).sum())]

    rows = []
    for index, *pair in tests[["document", "high", "low"]].itertuples(index=False):
        same = sum(accumulate(map(eq, *(split(run.documents[index]["candidates"][which]) for which in pair)), and_))
        rows.append([read(index, which, same) for which in pair])
    high, low = np.moveaxis(np.array(rows, dtype=float), 1, 0)
    outcomes = pd.DataFrame(passes(Likelihood(high), Likelihood(low))[:, :-1], columns=[*RULES])
    if tests["cluster_id"].nunique() >= FEW:
        outcomes[ADJUSTED] = np.heaviside(adjust(tests, (high - low)[:, -1]), 0.5)
    return tests, outcomes.dropna(axis="columns", how="all")


def divide(own: CandidateTokens, other: CandidateTokens) -> Any:
    """Add log-probabilities up over the shortest stretches that end with a token of both, shape (2, stretches).

    Of one tokenizer these are its tokens.
    """
    ends = np.intersect1d(own.ends, other.ends)
    return [np.bincount(np.searchsorted(ends, one.ends), one.logprobs, len(ends)) for one in (own, other)]


# ---------------------------------------------------------------- against the mean


def weigh(tests: pd.DataFrame, outcomes: pd.DataFrame) -> pd.DataFrame:
    """Compare rules with the mean per token, each on the tests of which both say something.

    Returns:
        By ``rule``: ``tests``, ``prompts``, ``few``, ``base`` (rate of the mean), ``rate``, ``difference`` with its
        ``standard_error``, ``low`` and ``high``, ``p``, and ``length``: whether only tests that one length rule wins make its
        gain.
    """
    gains = outcomes.drop(columns=BASE).sub(outcomes[BASE], axis=0)
    by_prompt, longer = gains.groupby(tests["cluster_id"]), tests["high_bytes"] - tests["low_bytes"]
    totals, counts = by_prompt.sum(), by_prompt.count()
    changes = [paired_difference(0 * totals[rule], totals[rule], counts[rule]) for rule in gains]
    table = pd.DataFrame(changes, gains.columns.rename("rule")).rename(columns={"mean": "difference"})
    rates, prompts, gain = outcomes[gains.columns].mean(), (counts > 0).sum(), table["difference"]
    least = np.minimum(gains[longer > 0].sum(), gains[longer < 0].sum())
    known = {"tests": counts.sum(), "prompts": prompts, "few": prompts < FEW, "base": rates - gain, "rate": rates}
    return table.assign(**known, p=permutation_p(totals), length=(gain > 0) & (least <= 0))


def judge(table: pd.DataFrame) -> pd.DataFrame:
    """Add ``p_holm``, ``mde`` and ``verdict``; all tests are one family of hypotheses, the categories together another."""
    table = judge_differences(table.assign(question=table["category"] != ALL, span=1.0))
    shown, gain = table["significant"], table["difference"]
    kinds = {"worse": shown & (gain < 0), "better": shown & (gain >= GAIN), "a little better": shown}
    # Where no prompt differs there is no MDE. Then at most 3 / n of all prompts do, by the rule of three.
    same = (gain == 0) & (table["standard_error"] == 0) & (3 / table["prompts"] <= GAIN)
    kinds["refuted"] = (table["mde"] <= GAIN) | same
    return table.assign(verdict=np.select([*kinds.values()], [*kinds], "open"))


def report_rules(run: Run, names: Sequence[str] = (), amateurs: Sequence[Run] = ()) -> Report:
    """Compare rules with the mean per token, by category, and the best rule of the other half of the sources of prompts.

    Args:
        run: with token scores.
        names: of rules; without any, all.
        amateurs: runs of a weaker model, for `contrast`.

    Raises:
        NNDError: there is no such rule; or as `apply_rules` and `find_amateur`.
    """
    known = [*RULES, ADJUSTED]
    for name in names:
        if name not in known:
            raise NNDError(f"--rules {name}: no rule; {did_you_mean(name, known, end=' ')}they are {', '.join(known)}")
    tests, outcomes = apply_rules(run, find_amateur(run, amateurs) if amateurs else None)
    wanted = dict.fromkeys([BASE, *(names or known)])
    notes = [
        f"{name} is left out: {NEEDS.get(name, 'no text has such tokens')}" for name in wanted if name not in outcomes
    ]
    if lost := len(run.tests) - len(tests):
        notes.append(f"{counted(lost, 'test')} without finite likelihoods left out")
    outcomes = outcomes.filter([*wanted])
    sources = [find_source(str(document.get("context") or document["candidates"][0])) for document in run.documents]
    half = pd.factorize(np.array(sources), sort=True)[0][tests["document"]] % 2
    tables, best = {}, {}
    for category in (ALL, *sorted({*tests["category"]})):
        chosen = is_of_category(tests, category)
        own, first = outcomes[chosen], half[chosen] == 0
        gains = own.sub(own[BASE], axis=0)
        names = [gains[part].mean().fillna(0).idxmax() for part in (~first, first)]
        own = own.assign(chosen=np.where(first, *(own[name] for name in names)))
        tables[category], best[category] = weigh(tests[chosen], own), names
    table = judge(pd.concat(tables, names=["category"]).reset_index())
    table["best"] = (": " + table["category"].map(best).str.join(" / ")).where(table["rule"] == "chosen", "")
    overall = table[table["category"] == ALL].assign(task=run.task, model=run.model, mean=outcomes[BASE].mean())
    last = overall.iloc[-1]
    return Report(
        f"rules_{run.task}_{run.model}",
        f"{run.task}, {run.model}: rules against the mean per token",
        findings=[
            f"Of these rules, {best[ALL][0]} passes most tests of one half of the sources of prompts, {best[ALL][1]} of the "
            f"other. Each on the half that did not choose it, they pass {abs(100 * last['difference']):.1f} points "
            f"{'less' if last['difference'] < 0 else 'more'} than the mean per token (p {write_cell('{p:p}', last)})."
        ],
        tables=[make_table("rules", table)],
        notes=notes,
        legend=LEGEND,
        brief=[make_table("rules_overall", overall)],
        facts={"signatures": {run.model: run.line}},
    )
