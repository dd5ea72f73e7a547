"""Who reads the candidates of a task: a model as a writer, or a reward model; `read_reader` makes the reader that a YAML names.

``writer``: which text would the model write? ``reward``: which text has the higher reward? Models that are asked about the
candidates are in `nnd_tasks.prompted`. Tests, prompts and metrics are the same for all of them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from nnd_tasks.errors import NNDError
from nnd_tasks.packages import load_optional
from nnd_tasks.rule import Likelihood, normalize
from nnd_tasks.schema import Breakdown
from nnd_tasks.task.documents import Documents
from nnd_tasks.task.metrics import Counts, score_document
from nnd_tasks.task.request import ContextPart, Doc, Prompt, Request
from nnd_tasks.task.settings import Settings

if TYPE_CHECKING:
    from nnd_tasks.likelihood.scored_tokens import ScoredTokens
    from shared_prefix.lengths import BaseCounter
    from shared_prefix.token_requests import TokenStats

logger = logging.getLogger("lm_eval.nnd")

#: Of each candidate of a document, the answers about it; none if it was left out.
Groups = Sequence[Sequence[Any]]
#: What a YAML may name under ``reader`` beside ``writer`` -> its class, which is imported only where a YAML names it.
READERS = {
    "validator": "nnd_tasks.prompted.asker:Asker",
    "choice": "nnd_tasks.prompted.asker:Asker",
    "judge": "nnd_tasks.prompted.judge:Judge",
    "rating": "nnd_tasks.prompted.judge:Judge",
}


def read_reader(config: Mapping[str, Any], settings: Settings) -> Writer:
    """Make the reader that a YAML names under ``reader``; without it, a writer.

    Raises:
        NNDError: there is no such reader, one of the keys about it has a value that it cannot have, or a setting does not fit it.
    """
    name = str(config.get("reader", "writer"))
    if name == "writer":
        return Writer(config, settings)
    written = f"task {config.get('task')}: reader={name!r}"
    if name not in READERS:
        raise NNDError(f"{written}: expected {', '.join(map(repr, ('writer', *READERS)))}")
    reader: Writer = load_optional(READERS[name], written)(config, settings)
    return reader


class Answer(tuple[float, bool, int]):
    """What lm-eval writes to the samples for one request: (sum of log-probabilities, is_greedy, number of tokens).

    Attributes:
        candidate: see `Request`.
        context_part: see `Request`.
        flaws: see `Request`.
        tokens: its scored tokens, where the setting ``tokens`` keeps them.
        stats: what the model expected in their places, see `shared_prefix.token_requests.TokenStats`; None where it does
            not say so.
    """

    candidate: int | None
    context_part: ContextPart
    flaws: list[str]
    tokens: ScoredTokens | None
    stats: TokenStats | None

    @classmethod
    def to(cls, request: Request, response: Sequence[Any], tokens_of: Callable[..., Any] = lambda *_: None) -> Answer:
        """Return the model's ``response`` (sum, is_greedy) to a request, with what ``tokens_of`` both gives as its tokens.

        With lm-eval 0.5, it is the only response in a list.

        Raises:
            NNDError: the model gave no log-probabilities of tokens, or the tokenizer does not tell what tokens stand for.
        """
        if isinstance(response, list):
            (response,) = response
        answer = cls((*response[:2], request.tokens))
        answer.candidate, answer.context_part, answer.flaws = request.candidate, request.context_part, request.flaws
        answer.tokens = tokens_of(request, response)
        answer.stats = getattr(response, "stats", None)
        return answer


class Writer:
    """Which text would the model write? Each candidate is scored as what follows the prompt.

    Other readers override what they do otherwise. The methods stand in the order in which a task calls them.

    Args:
        config: what the task's YAML says.
        settings: of the task.

    Attributes:
        overrides: keys of the YAML that the reader sets itself.
        asks: whether the model is asked about the candidates.
        writes: whether the model writes its answer, so that it need not give likelihoods.
        requests_each: number of requests for each candidate.
        protocol: items of the signature's protocol.
        facts: items of the results file.
        omitted_rates: rates of a writer that say nothing of this reader.
        own_rates: further rates.
        has_measures: whether the scores are likelihoods of the candidates, so that `nnd_tasks.measures` says something.
    """

    overrides: Mapping[str, Any] = MappingProxyType({})
    asks = False
    writes = False
    requests_each = 1
    protocol: Mapping[str, Any] = MappingProxyType({})
    facts: Mapping[str, Any] = MappingProxyType({})
    omitted_rates: tuple[str, ...] = ()
    own_rates: tuple[str, ...] = ()
    has_measures = True

    def __init__(self, config: Mapping[str, Any], settings: Settings) -> None:
        self.config, self.settings = config, settings
        self.task = config.get("task")
        if settings.tokens:
            name = "nnd_tasks.likelihood.scored_tokens:ScoredTokens"
            self._scored_tokens = load_optional(name, f"task {self.task}: metadata tokens")

    # ------------------------------------------------------------ before the model is loaded

    def add_views(self, documents: Documents) -> Documents:
        """Let a candidate stand once for each question that tests ask about it; a writer is asked nothing."""
        return documents

    def can_read(self, doc: Doc, index: int) -> bool:
        """Tell whether a candidate that is not blank can be read."""
        return True

    def for_model(self, *, reward: bool, chat: bool, rounds_to: str | None) -> Writer:
        """Give the reader of the same task for the model that runs.

        Args:
            reward: whether the model gives rewards.
            chat: whether prompts go through the chat template.
            rounds_to: the 16-bit type that the model computes in.

        Raises:
            NNDError: such a model cannot read the candidates in this way.
        """
        if reward and chat:
            raise NNDError(
                "--model nnd_reward applies the chat template of its model itself; leave out --apply_chat_template"
            )
        return RewardReader(self.config, self.settings) if reward else self

    def begin(self, config: Any, counter: BaseCounter, *, takes_seeds: bool) -> None:
        """Take what is known of a run before its requests are built.

        Args:
            config: lm-eval's `TaskConfig`, with the generation arguments of the run.
            counter: with the model's window.
            takes_seeds: whether the model takes a seed with each request.
        """

    # ------------------------------------------------------------ requests

    def show_question(self, doc: Doc) -> str:
        """Write what follows the prompt: a candidate and a question about it."""
        return ""

    def right_answer(self, doc: Doc) -> str:
        """Pick a better candidate, if possible one that is not empty: what an exemplar ends with."""
        better = [str(doc["candidates"][test["high"]]) for test in doc["tests"]]
        return self.settings.scored(next((text for text in better if text.strip()), better[0]))

    def ask(
        self, doc: Doc, indices: Sequence[int], render: Callable[[Any], Prompt], counter: BaseCounter
    ) -> list[tuple[Any, Any]]:
        """Make the arguments of the requests that ask about candidates; a writer has none, its candidates are scored.

        Args:
            doc: the document.
            indices: of the candidates.
            render: renders the prompt of a document, with the question about one of its candidates.
            counter: with the tokenizer.
        """
        return []

    def measure(self, pairs: Sequence[tuple[Any, Any]], counter: BaseCounter) -> list[tuple[int, int, list[str]]]:
        """Count the tokens of the prompt and of the answer of requests, and list their flaws (`FLAWS`)."""
        return counter.measure(pairs)

    # ------------------------------------------------------------ answers

    def collect_answers(self, requests: Sequence[Request], counter: BaseCounter) -> str | None:
        """Put an `Answer` in the place of what the model gave to each request.

        Returns:
            The 16-bit type that its sums are rounded to; None if it is wider, or not known.

        Raises:
            NNDError: the model gives no likelihoods.
        """
        sums: list[float] = []
        kept = {"tokens_of": partial(self._scored_tokens.of, counter=counter)} if self.settings.tokens else {}
        for request in requests:
            for name, response in request.filtered_resps.items():
                answer = Answer.to(request, response, **kept)
                request.filtered_resps[name] = answer
                sums.append(float(answer[0]))
        return check_sums(sums, self.task)

    def metrics(self, doc: Doc, answers: Sequence[Any], breakdown: Breakdown) -> dict[str, Any]:
        """Compute the metrics of one document, and what ``--log_samples`` writes of its candidates.

        Args:
            doc: the document.
            answers: to all of its requests.
            breakdown: which rates to report.
        """
        groups, scores = self._score_each(doc, answers)
        bare, without_context = (
            self._score_each(doc, answers, bare=True) if self.settings.context_reliance else ([], None)
        )
        rates = score_document(
            doc["tests"],
            scores,
            breakdown,
            ties=self.settings.ties,
            without_context=without_context,
            unread_fails=self.writes,
        )
        values = {key: value for key, value in rates.items() if key.removesuffix("_stderr") not in self.omitted_rates}
        shortened = [answer for answers in groups for answer in answers if answer.context_part == "shortened"]
        values |= {"truncated_contexts": int(bool(shortened)), "candidates": self._record_each(scores, groups)}
        if without_context is not None:
            values["no_context"] = self._record_each(without_context, bare)
        own = self.count_own(doc, groups, values, breakdown)
        return values | own | {f"{name}_stderr": counts for name, counts in own.items()}

    def _score_each(
        self, doc: Doc, answers: Sequence[Any], *, bare: bool = False
    ) -> tuple[Groups, list[Likelihood | None]]:
        """Group the answers of a document by candidate, and score each; None is one that could not be scored.

        They are those to prompts with its context, or to ``bare`` ones.
        """
        groups: list[list[Any]] = [[] for _ in doc["candidates"]]
        for answer in answers:
            if answer.candidate is not None and (answer.context_part == "none") == bare:
                groups[answer.candidate].append(answer)
        texts = zip(doc["candidates"], groups, strict=True)
        return groups, [self.score(text, group) if group else None for text, group in texts]

    def _record_each(self, scores: Sequence[Likelihood | None], groups: Groups) -> list[Any]:
        """Make the records of the candidates for the samples."""
        records: list[Any] = [None] * len(groups)
        for i, (score, answers) in enumerate(zip(scores, groups, strict=True)):
            if score is not None:
                numbers = {"sum": finite_or_none(score.total), "mean": finite_or_none(normalize(score))}
                records[i] = {**numbers, "tokens": score.tokens, "bytes": score.size, **self.note(answers)}
        return records

    def score(self, text: str, answers: Sequence[Any]) -> Likelihood:
        """Score a candidate by the answers to its requests."""
        total, _, tokens = answers[0]
        return Likelihood(float(total), tokens, max(len(self.settings.scored(text).encode("utf-8")), 1))

    def note(self, answers: Sequence[Any]) -> dict[str, Any]:
        """List what the record of a candidate holds besides its score: flaws as keys that are true, and `TOKEN_STATS`."""
        return dict.fromkeys(answers[-1].flaws, True) | (answers[-1].stats._asdict() if answers[-1].stats else {})

    def count_own(self, doc: Doc, groups: Groups, values: Mapping[str, Any], breakdown: Breakdown) -> dict[str, Counts]:
        """Count what the reader's own rates are about.

        Args:
            doc: the document.
            groups: of each candidate the answers about it.
            values: the metrics that all readers have.
            breakdown: which rates to report.
        """
        return {}


def finite_or_none(value: float) -> float | None:
    """JSON has no other numbers."""
    return value if math.isfinite(value) else None


class RewardReader(Writer):
    """Which text has the higher reward? The lengths of the texts do not matter."""

    protocol = MappingProxyType({"reader": "reward"})
    has_measures = False

    def score(self, text: str, answers: Sequence[Any]) -> Likelihood:
        """Take the reward of a candidate, whatever its length."""
        return Likelihood(float(answers[0][0]))


# ---------------------------------------------------------------- sums that say something is wrong

WHOLE = "whole numbers"
ENOUGH = 8  # from fewer sums, neither rounding nor a server that answers 0 to everything is inferred


def check_sums(sums: Sequence[float], task: str | None) -> str | None:
    """Return the 16-bit type that the model rounded its sums to, and warn of it; None where it did not.

    Also warns of sums that are not finite.

    Args:
        sums: sums of log-probabilities, shape (answers,).
        task: name of the task.

    Raises:
        NNDError: all of them are 0, as from a server that gives no log-probabilities of the prompt.
    """
    if len(sums) >= ENOUGH and not any(sums):
        raise NNDError(
            f"task {task}: every log-likelihood is 0: the server does not give the log-probabilities of the "
            "prompt (it must answer echo=true with logprobs); see docs/backends.md"
        )
    rounded_to = coarse_precision(sums)
    if rounded_to:
        logger.warning(
            "%s: the log-likelihoods are rounded to %s, which makes ties and wrong outcomes; %s",
            task,
            rounded_to,
            "the server or engine must give more digits"
            if rounded_to == WHOLE
            else "add softmax_dtype=float32 to --model_args",
        )
    broken = sum(not math.isfinite(total) for total in sums)
    if broken:
        logger.warning(
            "%s: %d of %d log-likelihoods are infinite or no number; tests with nan count as unscored",
            task,
            broken,
            len(sums),
        )
    return rounded_to


def coarse_precision(totals: Sequence[float]) -> str | None:
    """Return ``bfloat16`` or ``float16`` when all sums can be written exactly in that type, `WHOLE`, or None.

    lm-eval's hf models sum log-probabilities in the type of the model. In bfloat16 the numbers between -128 and -256 are
    1 apart, so that different candidates get equal sums; those above -128 are nearer to one another, so that whole numbers
    alone come from a server that rounds to few digits.

    Args:
        totals: summed log-likelihoods, shape (requests,). From fewer than `ENOUGH` nothing is inferred.
    """
    values = np.asarray([total for total in totals if math.isfinite(total)], dtype=np.float32)
    if values.size < ENOUGH:
        return None
    if (values % 1 == 0).all() and (values > -128).sum() >= ENOUGH:
        return WHOLE
    if not (values.view(np.uint32) & 0xFFFF).any():  # bfloat16 is the upper half of float32
        return "bfloat16"
    with np.errstate(over="ignore"):
        return "float16" if (values.astype(np.float16) == values).all() else None
