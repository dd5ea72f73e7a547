"""Build a set of synthetic near-negatives into a dataset folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnd_tasks.datasets import dataset_folder
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.markdown import table as markdown_table
from nnd_tasks.sets.tasks import UserTask, shipped_task
from nnd_tasks.sets.write import making
from nnd_tasks.stress import levels as level_tables
from nnd_tasks.stress.corpora import Corpus, read_corpus
from nnd_tasks.stress.masked import load_fill
from nnd_tasks.stress.registry import ERRORS, NEEDS
from nnd_tasks.stress.set_writing import check_name, check_same, some_of, write_stress_set, write_stress_task
from nnd_tasks.stress.synthesize import SynthesisPlan, frequent_ngrams, synthesize
from nnd_tasks.stress.text import Parser, find_pipeline
from nnd_tasks.tables import ConfigSummary
from nnd_tasks.wording import counted, did_you_mean

#: Words of a text of frequent n-grams: "length 256" in the paper (section 5.3).
_NGRAM_WORDS = {"wikitext": 256}
#: Corpora whose last sentence stays where it is (section 5.5.2).
_KEEP_LAST = {"wikitext"}


@dataclass(frozen=True)
class StressResult:
    """What `build_stress_set` made.

    Attributes:
        folder: the dataset folder.
        summary: of its tests.
        levels: error type -> names of its levels.
        unchanged: error type -> how often it left a text unchanged, which gave no test.
        repeated: error type -> how often a level or seed gave the same text as a lower level or an earlier seed.
        left_out: error type -> what it would need.
        task: the task that scores the set.
    """

    folder: Path
    summary: ConfigSummary
    levels: dict[str, list[str]]
    unchanged: dict[str, int]
    repeated: dict[str, int]
    left_out: dict[str, str]
    task: UserTask


def build_stress_set(
    name: str,
    corpus: str,
    *,
    place: str | Path | None = None,
    errors: str = "all",
    levels: str = "three",
    texts: int | None = 200,
    seeds: int = 1,
    spacy: str | None = None,
    mlm: str | None = None,
    reference: str | Path | None = None,
    prompt: str | None = None,
    out: str | Path | None = None,
    replace: bool = False,
    workers: int = 1,
    progress: bool = True,
) -> StressResult:
    """Build the set ``name`` of synthetic near-negatives, and the task ``nnd_NAME`` that scores it.

    Args:
        name: of the set; letters, digits and ``_``.
        corpus: a corpus of the paper (``wikitext``, ``cnndm``, ``wmt``, ``ted``), a file, or a path for `datasets`.
        place: file or folder of a corpus of the paper.
        errors: ``all``, or names that are separated by commas; ``all`` leaves out those for which the corpus lacks something
            or a package is not installed.
        levels: ``three``, ``paper``, or numbers that are separated by commas; see `nnd_tasks.stress.levels.choose`.
        texts: how many of the gold texts, drawn at random with a fixed seed; None takes all.
        seeds: how often each error is made, each time with other random choices.
        spacy: a spaCy pipeline; None takes ``en_core_web_sm`` if it is installed.
        mlm: folder of a masked language model, for ``bert_diverge``.
        reference: a file to count n-grams in.
        prompt: template of what comes before a text whose corpus has sources; None takes `set_writing.PROMPT`.
        out: the dataset folder; None takes ``$NND_HOME/nnd/NAME``.
        replace: overwrite a set of this name that was made from other texts, errors or levels.
        workers: number of processes.
        progress: show progress.

    Raises:
        NNDError: an argument is wrong, the corpus cannot be read, or another process builds this set.
    """
    for argument, value, least in (("--texts", texts, "0 (all)"), ("--seeds", seeds, "1"), ("--workers", workers, "1")):
        if value is not None and value < 1:
            raise NNDError(f"{argument} {value}: expected {least} or more")
    check_name(name)
    shipped = shipped_task(f"nnd_{name}")
    if shipped and name != f"blindspot_{corpus}":
        raise NNDError(
            f"{name} is the set of the task nnd_{name}, made from another corpus than {corpus}; take another name"
        )
    gold_corpus = read_corpus(corpus, expand(place) if place else None, expand(reference) if reference else None)
    if prompt is not None and (shipped or not gold_corpus.texts[0].source):
        why = f"{name} has a task of its own" if shipped else f"the texts of corpus {gold_corpus.name} have no source"
        raise NNDError(f"--prompt: {why}; leave it out")
    parser = Parser(find_pipeline(spacy))
    wanted, left_out = wanted_errors(errors, gold_corpus, parser, mlm)
    chosen = level_tables.choose(gold_corpus.name, wanted, levels)
    ngrams = _ngrams(gold_corpus, parser, chosen, left_out, named=errors != "all")
    if "bert_diverge" in chosen and mlm is not None:
        load_fill(mlm)  # a wrong folder is an error now, not after hours
    if not chosen:
        raise NNDError(
            f"corpus {gold_corpus.name}: none of the errors can be made; they need: {', '.join(left_out.values())}"
        )
    chosen_texts = some_of(gold_corpus.texts, texts)
    plan = SynthesisPlan(
        texts=tuple(chosen_texts),
        corpus=tuple(one.text for one in gold_corpus.texts),
        levels=chosen,
        seeds=tuple(range(seeds)),
        keep_last=gold_corpus.name in _KEEP_LAST,
        ngrams=ngrams,
        ngram_words=_NGRAM_WORDS.get(gold_corpus.name),
        pipeline=spacy,
        masked=mlm,
    )
    folder = (expand(out) if out is not None else dataset_folder(name)).absolute()
    key = plan.key(parser.name)
    with making(folder, timeout=0):  # no waiting for another build of this set, which may take hours
        if not replace:
            check_same(folder, key)
        made = synthesize(plan, parser, workers=workers, progress=progress)
        if not made.tests:
            raise NNDError(f"corpus {gold_corpus.name}: no error changed any text, so there is no test")
        named = {error: [ERRORS[error].level(amount) for amount in amounts] for error, amounts in chosen.items()}
        report = {
            "plan": key,
            "texts": len(chosen_texts),
            "seeds": seeds,
            "levels": named,
            "unchanged": dict(made.unchanged),
            "repeated": dict(made.repeated),
            "left_out": left_out,
            "pipeline": parser.name,
            "masked_model": Path(mlm).name if mlm else None,
        }
        summary = write_stress_set(
            folder,
            gold_corpus,
            made.tests,
            name=name,
            report=report,
            made=_made,
            replace=replace,
        )
        task = write_stress_task(name, out, folder, prompt, chosen_texts)
    return StressResult(folder, summary, named, dict(made.unchanged), dict(made.repeated), left_out, task)


def _ngrams(
    corpus: Corpus, parser: Parser, levels: dict[str, tuple[float, ...]], left_out: dict[str, str], *, named: bool
) -> dict[int, tuple[tuple[str, ...], ...]] | None:
    """Return the frequent n-grams that the levels ask for.

    Args:
        corpus: has the reference texts in which n-grams are counted.
        parser: splits them into words.
        levels: error type -> amounts; an error for which there are too few n-grams is removed.
        left_out: error type -> why it was removed; gets the errors that are removed here.
        named: the user named the errors, so that none may be removed.

    Raises:
        NNDError: an error that the user named has too few n-grams.
    """
    sizes = {name: int(name[len("frequent_")]) for name in levels if name.startswith("frequent_")}
    if not sizes:
        return None
    most = int(max(amount for name in sizes for amount in levels[name]))
    ngrams = frequent_ngrams(corpus.reference, parser, most)
    for name, size in sizes.items():
        if len(ngrams[size]) < max(levels[name]):
            why = f"a larger reference corpus: {len(ngrams[size]):,} {size}-grams for a level of {max(levels[name]):g}"
            if named:
                raise NNDError(f"--errors {name} needs {why}")
            left_out[name] = why
            del levels[name]
    return ngrams


def wanted_errors(errors: str, corpus: Corpus, parser: Parser, mlm: str | None) -> tuple[list[str], dict[str, str]]:
    """Return the error types to make, and error type -> why it is left out.

    Raises:
        NNDError: the user named an error type that is unknown or cannot be made.
    """
    have = {
        "tags": parser.tags,
        "entities": parser.entities,
        "source": all(gold.source for gold in corpus.texts),
        "reference corpus": bool(corpus.reference),
        "masked model": mlm is not None,
    }
    known = level_tables.PAPER.get(corpus.name, level_tables.OTHER)
    names = list(ERRORS) if errors == "all" else [part.strip() for part in errors.split(",") if part.strip()]
    if not names:
        raise NNDError("--errors: none is named; take all, or names separated by commas")
    wanted: list[str] = []
    left_out: dict[str, str] = {}
    for name in names:
        if name not in ERRORS:
            meant = did_you_mean(name, ERRORS, end=" ")
            raise NNDError(f"--errors: there is no error {name!r}; {meant}there are: {', '.join(ERRORS)}")
        missing = [NEEDS[need] for need in sorted(ERRORS[name].needs) if not have[need]]
        if name not in known:
            has = any(name in table for table in level_tables.PAPER.values())
            other = f"another corpus: the paper does not make it on {corpus.name}"
            missing.insert(0, other if has else "amounts, which nnd_tasks/stress/levels.py sets for no corpus")
        if not missing:
            wanted.append(name)
        elif errors != "all":
            raise NNDError(f"--errors {name} needs {missing[0]}")
        else:
            left_out[name] = missing[0]
    return list(dict.fromkeys(wanted)), left_out


def _made(summary: ConfigSummary, report: Mapping[str, Any]) -> tuple[str, ...]:
    """Return lines for the card on how the tests were made: each error with its levels, and which errors were left out."""
    head = [
        "error",
        "kind",
        "what it does",
        "levels",
        "tests",
        "texts left as they were",
        "nothing new at a level or seed",
    ]
    rows = [
        [
            f"`{error}`",
            ERRORS[error].kind,
            ERRORS[error].definition,
            f"{', '.join(names)} ({ERRORS[error].unit})",
            *[f"{counts.get(error, 0):,}" for counts in (summary.categories, report["unchanged"], report["repeated"])],
        ]
        for error, names in report["levels"].items()
    ]
    left_out = [f"- `{error}`: needs {what}" for error, what in report["left_out"].items()]
    return (
        f"{counted(summary.tests, 'test')} from {counted(report['texts'], 'text')} with {counted(report['seeds'], 'seed')}; "
        "`category` is the error, `subcategory` its level, `noise_ratio` the word-level Levenshtein distance over the words of "
        f"the gold text (halved for switching). Words, sentences and tags: {report['pipeline']}.",
        "",
        *markdown_table(head, rows),
        *(["", "Left out:", "", *left_out] if left_out else []),
    )
