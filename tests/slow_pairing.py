"""A slow, plain way from annotations to tests, which the engine of `nnd_tasks.pairing` is held against.

A *shape* says what a quality is in one kind of human evaluation. The paper has three (section 7.2): a single
error label, a hierarchical label, a Likert scale; a score with a minimum gap is the fourth. A source maps its file
to annotations and names its shape; everything else happens here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Protocol

from nnd_tasks.errors import NNDError
from nnd_tasks.schema import Test, check_field_names, cluster_key, normalize, short_hash


@dataclass(frozen=True, slots=True)
class Annotation:
    """One judged candidate: a row of a human evaluation.

    Attributes:
        context_id: the group in which pairs are formed.
        context: the main text that a model is given.
        candidate: the text that was judged.
        fields: further prompt fields (such as ``answer`` for question generation), column -> text.
        label: error label as published; ``""`` where the evaluation has none.
        category: category of the context or the aspect that was rated, where a label does not give it.
        subcategory: finer label of the same kind.
        severity: severity of the error, where the evaluation records one.
        ratings: one rating per rater (Likert scale).
        score: a number, higher is better.
        system: the system that wrote the candidate.
        rater: who judged it.
    """

    context_id: str
    context: str
    candidate: str
    fields: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    category: str = ""
    subcategory: str = ""
    severity: str = ""
    ratings: tuple[float, ...] = ()
    score: float | None = None
    system: str = ""
    rater: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a shape reads out of an annotation.

    Attributes:
        quality: higher is better; only differences of at least the shape's ``min_gap`` count.
        category: category of the tests in which this annotation is the worse one; ``""`` if it can never be.
        subcategory: finer label of the same.
        label: the label to keep in the dataset.
        score: the number to keep in the dataset, or None.
    """

    quality: float
    category: str = ""
    subcategory: str = ""
    label: str = ""
    score: float | None = None


class Shape(Protocol):
    """One kind of human evaluation."""

    @property
    def min_gap(self) -> float:
        """Smallest difference in quality that makes one candidate better than another; above 0."""

    def judge(self, annotation: Annotation) -> Judgement | None:
        """Return what ``annotation`` says of its candidate, or None when it takes part in no test.

        Raises:
            NNDError: the annotation lacks what the shape judges by.
        """


def _label(annotation: Annotation) -> str:
    if not annotation.label:
        raise NNDError(f"context {annotation.context_id}: a candidate has no label")
    return annotation.label


@dataclass(frozen=True, slots=True)
class SingleErrorLabel:
    """One error label per candidate; no error is better than any error (paper, section 3.1)."""

    no_error: str
    min_gap: float = 1.0

    def judge(self, annotation: Annotation) -> Judgement | None:
        """Quality 1 for ``no_error``, else 0; the error is the category."""
        label = _label(annotation)
        if label == self.no_error:
            return Judgement(1.0, label=label)
        return Judgement(0.0, label, annotation.subcategory, label)


@dataclass(frozen=True, slots=True)
class HierarchicalLabel:
    """An error label within a group of errors; no error is better than any error (paper, section 3.3, FRANK).

    Attributes:
        no_error: the label of a good candidate.
        parents: error label -> its group; None leaves candidates with that error out. A label that is missing
            here is an error, unless ``separator`` is set.
        separator: where labels are paths (``Accuracy/Mistranslation``), what separates their parts; the group of a
            label that ``parents`` doesn't list is then its first part.
    """

    no_error: str
    parents: Mapping[str, str | None] = field(default_factory=dict)
    separator: str = ""
    min_gap: float = 1.0

    def judge(self, annotation: Annotation) -> Judgement | None:
        """Quality 1 for ``no_error``, else 0; the group is the category and the label the subcategory."""
        label = _label(annotation)
        if label == self.no_error:
            return Judgement(1.0, label=label)
        if label in self.parents:
            parent = self.parents[label]
            return None if parent is None else Judgement(0.0, parent, label, label)
        if self.separator:
            return Judgement(0.0, label.split(self.separator, 1)[0], label, label)
        known = ", ".join([self.no_error, *self.parents])
        raise NNDError(f"context {annotation.context_id}: unknown error label {label!r} (known: {known})")


@dataclass(frozen=True, slots=True)
class LikertScale:
    """Several raters on a scale; good when a majority gave the best mark, else bad (paper, section 3.3, SummEval)."""

    best: float
    min_gap: float = 1.0

    def judge(self, annotation: Annotation) -> Judgement | None:
        """Quality 1 when more than half of the ratings are ``best``, else 0; the rated aspect is the category."""
        ratings = annotation.ratings
        if not ratings:
            raise NNDError(f"context {annotation.context_id}: a candidate has no ratings")
        good = 2 * sum(r == self.best for r in ratings) > len(ratings)
        label = ",".join(f"{r:g}" for r in ratings)
        mean = sum(ratings) / len(ratings)
        return Judgement(float(good), annotation.category, annotation.subcategory, label, mean)


@dataclass(frozen=True, slots=True)
class ScoreGap:
    """A number per candidate; better when at least ``min_gap`` higher.

    Attributes:
        min_gap: smallest difference that counts, above 0.
        category: category of all tests where annotations bring none.
        aspects: whether an annotation's category is what was rated.
    """

    min_gap: float
    category: str = "preference"
    aspects: bool = False

    def judge(self, annotation: Annotation) -> Judgement | None:
        """Quality is the score itself."""
        if annotation.score is None:
            return None
        category = annotation.category or self.category
        return Judgement(annotation.score, category, annotation.subcategory, annotation.label, annotation.score)


def aspect_of(annotation: Annotation, shape: Shape) -> str:
    """Return what was rated; candidates are compared within one aspect."""
    rated = isinstance(shape, LikertScale) or (isinstance(shape, ScoreGap) and shape.aspects)
    return annotation.category if rated else ""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A candidate that was judged both good and bad for one prompt, in one rated aspect.

    Attributes:
        cluster_id: the prompt.
        context_id: the group of its first row.
        candidate: its text.
        labels: what it was called, each label once.
    """

    cluster_id: str
    context_id: str
    candidate: str
    labels: tuple[str, ...]


@dataclass(slots=True)
class PairingReport:
    """What pairing saw, for the build report and the card.

    Attributes:
        annotations: rows read.
        left_out: rows that the shape gives no quality.
        groups: contexts.
        groups_with_tests: contexts from which at least one test comes.
        contradictions: candidates whose qualities for one prompt differ by the gap that makes a test.
        contradicted: ids of the tests that use such a candidate.
    """

    annotations: int = 0
    left_out: int = 0
    groups: int = 0
    groups_with_tests: int = 0
    contradictions: list[Contradiction] = field(default_factory=list)
    contradicted: set[str] = field(default_factory=set)

    def counts(self) -> dict[str, int]:
        """Return the numbers alone."""
        names = ("annotations", "left_out", "groups", "groups_with_tests")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class _Judged:
    row: int
    aspect: str
    annotation: Annotation
    candidate: str
    judgement: Judgement


@dataclass(slots=True)
class _Group:
    context: str
    fields: dict[str, str]
    cluster_id: str
    judged: list[_Judged] = field(default_factory=list)

    def key(self, judged: _Judged) -> tuple[str, str, str]:
        """Return what two labels must share to contradict each other: prompt, rated aspect, text."""
        return self.cluster_id, judged.aspect, judged.candidate


def _group(annotations: Iterable[Annotation], shape: Shape, report: PairingReport) -> dict[str, _Group]:
    """Return the groups in the order of the source, each with its judged candidates in theirs."""
    groups: dict[str, _Group] = {}
    names: tuple[str, ...] | None = None
    for annotation in annotations:
        report.annotations += 1
        context = normalize(annotation.context)
        fields = {name: normalize(value) for name, value in annotation.fields.items()}
        if names is None:
            names = tuple(sorted(fields))
            check_field_names(names)
        elif tuple(sorted(fields)) != names:
            raise NNDError(f"context {annotation.context_id}: prompt fields differ from those of earlier rows")
        group = groups.get(annotation.context_id)
        if group is None:
            group = groups[annotation.context_id] = _Group(context, fields, cluster_key(context, fields))
        elif group.context != context or group.fields != fields:
            raise NNDError(f"context {annotation.context_id}: its rows do not all have the same context and fields")
        judgement = shape.judge(annotation)
        if judgement is None:
            report.left_out += 1
            continue
        aspect = aspect_of(annotation, shape)
        group.judged.append(_Judged(report.annotations, aspect, annotation, normalize(annotation.candidate), judgement))
    report.groups += len(groups)
    return groups


def _contradictions(groups: Mapping[str, _Group], gap: float) -> dict[tuple[str, str, str], Contradiction]:
    """Return the candidates that would form a test against themselves."""
    judged: dict[tuple[str, str, str], list[_Judged]] = {}
    every = [(one.row, one, group) for group in groups.values() for one in group.judged]
    for _, one, group in sorted(every, key=lambda entry: entry[0]):
        judged.setdefault(group.key(one), []).append(one)
    found = {}
    for key, ones in judged.items():
        qualities = [one.judgement.quality for one in ones]
        if max(qualities) - min(qualities) >= gap:
            labels = dict.fromkeys(one.judgement.label or f"{one.judgement.quality:g}" for one in ones)
            found[key] = Contradiction(key[0], ones[0].annotation.context_id, ones[0].candidate, tuple(labels))
    return found


def form_tests(annotations: Iterable[Annotation], shape: Shape, report: PairingReport | None = None) -> list[Test]:
    """Form every pair of candidates of a context whose difference in quality is known.

    Within a group, and of one rated aspect after another, all pairs (i, j), i before j in the source, are visited in
    that order; a pair becomes a test when the qualities differ by at least ``shape.min_gap``. Texts are brought to
    NFC, nothing else is done to them; equal texts and repeated tests are kept, as in the authors' release.

    Args:
        annotations: in the order of the source; all rows of a ``context_id`` must agree on context and fields.
        shape: assigns quality.
        report: counts are added to it.

    Raises:
        NNDError: an annotation that ``shape`` cannot judge, a test without a category, contradicting rows.
    """
    if not shape.min_gap > 0:
        raise ValueError(f"min_gap must be above 0, got {shape.min_gap}")
    report = report if report is not None else PairingReport()
    gap = shape.min_gap * (1 - 1e-9)  # scores such as 0.3 - 0.1 must not miss a gap of 0.2 by rounding
    seen: Counter[tuple[str, str, str, str]] = Counter()
    tests: list[Test] = []
    annotations = list(annotations)
    aspects = dict.fromkeys(aspect_of(annotation, shape) for annotation in annotations)
    groups = _group(annotations, shape, report)
    contradictions = _contradictions(groups, gap)
    report.contradictions += contradictions.values()
    for context_id, group in groups.items():
        before = len(tests)
        for aspect in aspects:
            for first, second in combinations([one for one in group.judged if one.aspect == aspect], 2):
                difference = first.judgement.quality - second.judgement.quality
                if not abs(difference) >= gap:  # written so that nan, as of inf - inf, makes no test
                    continue
                high, low = (first, second) if difference > 0 else (second, first)
                if not low.judgement.category:
                    raise NNDError(f"context {context_id}: the worse candidate of a test has no category")
                key = (context_id, high.candidate, low.candidate, low.judgement.category)
                seen[key] += 1
                tests.append(
                    Test(
                        test_id=short_hash(*key, str(seen[key])),
                        context_id=context_id,
                        cluster_id=group.cluster_id,
                        context=group.context,
                        high=high.candidate,
                        low=low.candidate,
                        category=low.judgement.category,
                        high_first=difference > 0,
                        fields=group.fields,
                        subcategory=low.judgement.subcategory,
                        severity=low.annotation.severity,
                        high_label=high.judgement.label,
                        low_label=low.judgement.label,
                        high_system=high.annotation.system,
                        low_system=low.annotation.system,
                        high_score=high.judgement.score,
                        low_score=low.judgement.score,
                        rater=low.annotation.rater,
                    )
                )
                if group.key(first) in contradictions or group.key(second) in contradictions:
                    report.contradicted.add(tests[-1].test_id)
        report.groups_with_tests += len(tests) > before
    return tests
