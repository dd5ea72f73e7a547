"""Build a set of the errors that a search found against some models, and see which other models they fool."""

from __future__ import annotations

import dataclasses
import gc
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import jinja2
from tqdm import tqdm

from nnd_tasks.analysis.model_names import short_names
from nnd_tasks.datasets import dataset_folder
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import expand
from nnd_tasks.harness.signature import weights_digest
from nnd_tasks.schema import short_hash
from nnd_tasks.sets.tasks import UserTask, shipped_task
from nnd_tasks.sets.write import making
from nnd_tasks.statistics import confidence_interval
from nnd_tasks.stress.attack import (
    SEARCHES,
    Found,
    Propose,
    edit_types,
    nearest_words,
    propose_edits,
    propose_errors,
    search,
)
from nnd_tasks.stress.attack_tables import Attack, card_lines
from nnd_tasks.stress.corpora import Gold, read_corpus
from nnd_tasks.stress.likelihood import Likelihood
from nnd_tasks.stress.set_writing import PROMPT, check_name, check_same, some_of, write_stress_set, write_stress_task
from nnd_tasks.stress.stress_set import wanted_errors
from nnd_tasks.stress.synthesize import SynthesisPlan, resources_of
from nnd_tasks.stress.text import Parser, find_pipeline
from nnd_tasks.tables import ConfigSummary
from nnd_tasks.wording import did_you_mean


@dataclass(frozen=True)
class AttackResult:
    """What `build_attack_set` made.

    Attributes:
        folder: the dataset folder.
        summary: of its tests.
        attacks: one for each model and search.
        transfer: (attacked model, scoring model) -> share of the errors found against the first that the second prefers too, and
            its 95% interval.
        task: the task that scores the set.
    """

    folder: Path
    summary: ConfigSummary
    attacks: list[Attack]
    transfer: dict[tuple[str, str], tuple[float, float, float]]
    task: UserTask


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
) -> AttackResult:
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
    check_name(name)
    if shipped_task(f"nnd_{name}"):
        raise NNDError(f"{name} is the set of a task that comes with nnd-tasks; take another name")
    for argument, value, least in (("--steps", steps, "1"), ("--texts", texts, "0 (all)")):
        if value is not None and value < 1:
            raise NNDError(f"{argument} {value}: expected {least} or more")
    for one in searches:
        if one not in SEARCHES:
            meant = did_you_mean(one, SEARCHES, end=" ")
            raise NNDError(f"--search: there is no search {one!r}; {meant}there are: {', '.join(SEARCHES)}")
    if not models or not searches:
        raise NNDError(f"{'--models' if not models else '--search'}: none is named")
    if repeated := [model for model, count in Counter(models).items() if count > 1]:
        raise NNDError(f"--models: {repeated[0]} is named twice")
    names = short_names([(str(expand(model)), "{}") for model in models])
    gold_corpus = read_corpus(corpus, expand(place) if place else None)
    if prompt is not None and not gold_corpus.texts[0].source:
        raise NNDError(f"--prompt: the texts of corpus {gold_corpus.name} have no source; leave it out")
    parser = Parser(find_pipeline(spacy))
    wanted, _ = wanted_errors(errors, gold_corpus, parser, None)
    types = edit_types(wanted, named=errors != "all")
    if "errors" in searches and not types:
        raise NNDError(f"--errors {errors}: none of them changes a part of a text; `nnd stress errors` lists them")
    chosen = some_of(gold_corpus.texts, texts)
    contexts = _contexts(chosen, prompt)
    plan = SynthesisPlan(
        tuple(chosen), tuple(one.text for one in gold_corpus.texts), {kind.name: (1.0,) for kind in types}, (0,)
    )
    weights = [weights_digest(str(expand(model))) for model in models]
    settings = [list(models), weights, list(searches), steps, prompt]
    key = short_hash("attack", plan.key(parser.name), json.dumps(settings))
    folder = (expand(out) if out is not None else dataset_folder(name)).absolute()
    with making(folder, timeout=0):
        if not replace:
            check_same(folder, key)
        resources = resources_of(plan, parser, progress)
        if replaces := bool(chosen[0].source and "edits" in searches):  # content words, where there is a source
            counts = Counter(_words(plan.corpus, parser))
            own = set(_words((gold.text for gold in chosen), parser))
        attacks: list[Attack] = []
        for model, short in zip(models, names, strict=True):
            with _loaded(model, device, batch_size) as scorer:
                near = nearest_words(own, counts, scorer) if replaces else None
                proposals: Mapping[str, Callable[[Gold], Propose]] = {
                    "errors": lambda gold: propose_errors(types, dataclasses.replace(resources, source=gold.source)),
                    "edits": lambda _, near=near: propose_edits(parser, near),  # type: ignore[misc]
                }
                attacks += [
                    _attack(short, kind, chosen, contexts, proposals[kind], scorer, steps, progress=progress)
                    for kind in searches
                ]
        tests = [
            _test(gold, attack, attack.found[gold]) for attack in attacks for gold in chosen if gold in attack.found
        ]
        if not tests:
            raise NNDError(
                f"corpus {gold_corpus.name}: no change of up to {steps} steps raises the likelihood of any text; try more "
                "--texts or --steps"
            )
        by_gold = {(gold.source, gold.text): context for gold, context in zip(chosen, contexts, strict=True)}
        transfer: dict[tuple[str, str], tuple[float, float, float]] = {}
        for model, short in zip(models, names, strict=True):
            with _loaded(model, device, batch_size) as scorer:
                transfer |= {(attacked, short): rate for attacked, rate in _fooled(scorer, tests, by_gold).items()}
        report = {
            "plan": key,
            "texts": len(chosen),
            "steps": steps,
            "attacks": [
                {
                    "model": attack.model,
                    "search": attack.search,
                    "texts": attack.texts,
                    "too_long": attack.too_long,
                    "found": len(attack.found),
                    "gain": fmean(found.gain for found in attack.found.values()) if attack.found else None,
                    "noise": fmean(found.noise for found in attack.found.values()) if attack.found else None,
                    "changes": dict(attack.common()),
                }
                for attack in attacks
            ],
            "transfer": [[*pair, *rate] for pair, rate in transfer.items()],
            "pipeline": parser.name,
        }
        summary = write_stress_set(
            folder,
            gold_corpus,
            tests,
            name=name,
            report=report,
            made=lambda summary, _: card_lines(summary, attacks, transfer, names),
            replace=replace,
            summary="Gold texts and small changes that make them worse, found by a search against language models.",
        )
        task = write_stress_task(name, out, folder, prompt, chosen)
    return AttackResult(folder, summary, attacks, transfer, task)


def _words(texts: Iterable[str], parser: Parser) -> Iterator[str]:
    """Yield the words of texts in lower case."""
    return (word.text.lower() for text in texts for word in parser.parse(text).words)


def _contexts(texts: Sequence[Gold], prompt: str | None) -> list[str]:
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


@contextmanager
def _loaded(model: str, device: str | None, batch_size: int | str) -> Iterator[Likelihood]:
    """Load a model, and give its memory back at the end."""
    scorer = Likelihood(model, device=device, batch_size=batch_size)
    try:
        yield scorer
    finally:
        del scorer.lm
        gc.collect()


def _attack(
    model: str,
    kind: str,
    texts: Sequence[Gold],
    contexts: Sequence[str],
    propose: Callable[[Gold], Propose],
    scorer: Likelihood,
    steps: int,
    *,
    progress: bool,
) -> Attack:
    """Search for errors in each text."""

    def score(pairs: Sequence[tuple[str, str]]) -> list[float]:
        fitting = [pair for pair in pairs if scorer.fits(*pair)]
        known = dict(zip(fitting, scorer.means(fitting), strict=True))
        return [known.get(pair, float("-inf")) for pair in pairs]

    found: dict[Gold, Found] = {}
    too_long = 0
    pairs = list(zip(texts, contexts, strict=True))
    for gold, context in tqdm(pairs, desc=f"{model}, {kind}", unit="text", disable=not progress):
        if not scorer.fits(context, gold.text):
            too_long += 1
        elif one := search(gold, context, propose(gold), score, steps):
            found[gold] = one
    if too_long == len(texts):
        raise NNDError(f"{model}: no text of the corpus fits its window; take shorter texts")
    return Attack(model, kind, len(texts) - too_long, too_long, found)


def _test(gold: Gold, attack: Attack, found: Found) -> dict[str, Any]:
    cluster = short_hash("stress", gold.source, gold.text)
    return {
        "test_id": short_hash(cluster, "attack", attack.model, attack.search, found.text),
        "context_id": cluster,
        "cluster_id": cluster,
        "context": gold.source,
        "high": gold.text,
        "low": found.text,
        "category": attack.model,
        "high_first": True,
        "subcategory": attack.search,
        "noise_ratio": found.noise,
        "seed": 0,
    }


def _fooled(
    scorer: Likelihood, tests: Sequence[dict[str, Any]], contexts: Mapping[tuple[str, str], str]
) -> dict[str, tuple[float, float, float]]:
    """Return attacked model -> share of its tests that a model fails, and its 95% interval over gold texts.

    Tests that do not fit the model's window are left out.

    Args:
        scorer: the model.
        tests: found against all models.
        contexts: (source, gold text) -> what the model reads before it.
    """
    asked = []
    for test in tests:
        context = contexts[test["context"], test["high"]]
        better, worse = (context, test["high"]), (context, test["low"])
        if scorer.fits(*better) and scorer.fits(*worse):
            asked.append((test, better, worse))
    pairs = list(dict.fromkeys(pair for _, *both in asked for pair in both))
    means = dict(zip(pairs, scorer.means(pairs), strict=True))
    counts: dict[str, dict[str, list[int]]] = {}
    for test, better, worse in asked:
        one = counts.setdefault(test["category"], {}).setdefault(test["cluster_id"], [0, 0])
        one[0] += means[better] <= means[worse]
        one[1] += 1
    rates = {}
    for attacked, clusters in counts.items():
        failed, total = zip(*clusters.values(), strict=True)
        rates[attacked] = (sum(failed) / sum(total), *confidence_interval(failed, total))
    return rates
