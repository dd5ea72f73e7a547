"""What people judged, read from a table into arrays of codes, and the rule that says what is better (paper, section 2.1).

The paper has three kinds of human evaluation (section 7.2): a single error label, a hierarchical label, a Likert scale. A
`Rule` covers these and two more: an order of labels, and a score with a smallest gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from nnd_tasks.codes import Codes, Index, Texts, combine
from nnd_tasks.schema import cluster_key

_EXAMPLES = 3


@dataclass(frozen=True)
class Rule:
    """What makes one candidate better than another.

    Attributes:
        better: labels that are better than all others.
        order: labels, the worst first; those of equal rank together.
        min_gap: smallest difference of two scores that makes one better.
        majority: a candidate is good if more than half of its raters gave the best mark (Likert scale; paper, section 3.3).
        best: the best mark; None takes the highest mark in the table, per aspect.
        rows: whether each row of the table is a candidate of its own.
    """

    better: tuple[str, ...] = ()
    order: tuple[tuple[str, ...], ...] = ()
    min_gap: float | None = None
    majority: bool = False
    best: float | None = None
    rows: bool = False

    @property
    def by_label(self) -> bool:
        """Whether labels, not numbers, say what is better."""
        return bool(self.better or self.order)


@dataclass
class Dropped:
    """What was left out, and why.

    Attributes:
        counts: reason -> how many rows, candidates or pairs were left out.
        rows: reason -> numbers of the first few of these rows.
        labels: labels of the table that the rule's order does not have.
    """

    counts: dict[str, int] = field(default_factory=dict)
    rows: dict[str, list[int]] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)

    def add(self, reason: str, count: int, rows: Sequence[int] | NDArray[Any] = ()) -> None:
        """Count some more, and keep the first few of their row numbers."""
        if count:
            self.counts[reason] = self.counts.get(reason, 0) + int(count)
            known = self.rows.setdefault(reason, [])
            known += [int(row) for row in rows[: _EXAMPLES - len(known)]]


@dataclass
class Prompts:
    """Distinct prompts: the context and the prompt fields.

    Attributes:
        contexts: context of each prompt.
        fields: prompt field -> its text in each prompt.
        ids: ``cluster_id`` of each prompt.
    """

    contexts: list[str]
    fields: dict[str, list[str]]
    ids: list[str]


def number_prompts(context: Codes, fields: Mapping[str, Codes], texts: Mapping[str, Texts]) -> tuple[Index, Prompts]:
    """Number the distinct prompts in the order of their first appearance.

    Args:
        context: code of each row's context, -1 where it is empty; shape (rows,).
        fields: prompt field -> code of each row's text, likewise.
        texts: ``context`` and each prompt field -> the texts of its codes.

    Returns:
        The number of each row's prompt, and the prompts.
    """
    codes, first = combine(context, *fields.values())

    def of(name: str, column: Codes) -> list[str]:
        known = texts[name].texts
        return [known[code] if code >= 0 else "" for code in column[first].tolist()]

    contexts = of("context", context)
    columns = {name: of(name, column) for name, column in fields.items()}
    ids = [
        cluster_key(text, dict(zip(columns, values, strict=True)))
        for text, *values in zip(contexts, *columns.values(), strict=True)
    ]
    return codes, Prompts(contexts, columns, ids)


#: What a table may know about a candidate besides its text and judgements.
FACTS = ("system", "rater", "category", "subcategory", "severity", "shown", "spans")


@dataclass
class Judgements:
    """Judgements, each of one candidate in one aspect; all arrays have shape (judgements,).

    Attributes:
        prompt: number of the prompt.
        group: number of the group within which pairs are formed.
        candidate: code of the text.
        aspect: number of the aspect that was judged, such as fluency.
        mark: code of the label (integers), or the number that was given.
        place: position of the row among those read.
        row: number of the row as a person counts rows in the file.
        facts: name in `FACTS` -> codes, where the table has it (``shown``: a label to keep beside a score; ``spans``: error spans
            as JSON).
        prompts: the distinct prompts.
        groups: identifier of each group; None where the groups are the prompts.
        aspects: names of the aspects; ``[""]`` where the table names none.
        texts: ``candidate``, ``label`` and each of the facts -> the texts of its codes.
        rows: how many rows the table has.
        dropped: what was left out.
    """

    prompt: Index
    group: Index
    candidate: Codes
    aspect: Codes
    mark: NDArray[Any]
    place: Index
    row: Index
    facts: dict[str, Codes]
    prompts: Prompts
    groups: list[str] | None
    aspects: list[str]
    texts: dict[str, Texts]
    rows: int
    dropped: Dropped
