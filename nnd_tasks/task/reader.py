"""Who reads the candidates of a task: the model as a writer, a reward model, or a model that is asked about them.

``writer``: which text would the model write? ``reward``: which text has the higher reward? ``validator``: is this text good?
``choice``: which of two texts is better? Tests, prompts and metrics are the same for all of them. Those that write
their answer are in `nnd_tasks.task.judge_reader`; `read_reader` there picks one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import datasets
import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from typing_extensions import Self

from nnd_tasks.errors import NNDError
from nnd_tasks.rule import Likelihood, normalize
from nnd_tasks.schema import short_hash
from nnd_tasks.task.metrics import Breakdown, document_metrics, score_document, score_likelihoods
from nnd_tasks.task.request import Answer, Prompt, Request, split_before_candidate
from nnd_tasks.task.settings import Settings, first_mistake
from nnd_tasks.task.signature import digest
from nnd_tasks.text import did_you_mean

if TYPE_CHECKING:
    from nnd_tasks.task.lengths import BaseCounter

logger = logging.getLogger("lm_eval.nnd")

#: Column of the documents: of each candidate, what is asked of it and the ``rival`` that it is shown with.
VIEWS = "reader_views"
#: Keys of a document that is rendered: the place of the candidate to ask about, and whether the answers trade places.
VIEW, SWAPPED = "reader_view", "reader_swapped"


class Writer:
    """Which text would the model write? Each candidate is scored as what follows the prompt.

    Other readers override what they do otherwise. Those that ask have further methods (`Asker`), and so have those to which
    a model writes (`nnd_tasks.task.judge_reader.Judge`). All stand in the order in which a task calls them.

    Attributes:
        overrides: keys of the YAML that the reader sets itself.
        writes: whether the model writes text, so that it need not give likelihoods.
        requests_each: number of requests for each candidate.
        protocol: items of the signature's protocol.
        facts: items of the results file.
        omitted_rates: rates of a writer that say nothing of this reader.
        own_rates: further rates.
        has_measures: whether the scores are likelihoods of the candidates, so that `nnd_tasks.measures` says something.
    """

    overrides: Mapping[str, Any] = MappingProxyType({})
    writes = False
    requests_each = 1
    protocol: Mapping[str, Any] = MappingProxyType({})
    facts: Mapping[str, Any] = MappingProxyType({})
    omitted_rates: tuple[str, ...] = ()
    own_rates: tuple[str, ...] = ()
    has_measures = True

    def right_answer(self, doc: Mapping[str, Any], settings: Settings) -> str:
        """Pick a better candidate, if possible one that is not empty: what an exemplar ends with."""
        better = [str(doc["candidates"][test["high"]]) for test in doc["tests"]]
        return settings.scored(next((text for text in better if text.strip()), better[0]))

    def for_model(self, task: str | None, *, reward: bool, chat: bool, rounds_to: str | None) -> Writer:
        """Give the reader of the same task for the model that runs.

        Args:
            task: its name.
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
        return RewardReader() if reward else self

    def collect_answers(
        self, requests: Sequence[Request], counter: BaseCounter, settings: Settings, task: str | None
    ) -> str | None:
        """Put an `Answer` in the place of what the model gave to each request.

        Returns:
            The 16-bit type that its sums are rounded to; None if it is wider, or not known.

        Raises:
            NNDError: the model gives no likelihoods.
        """
        sums: list[float] = []
        for request in requests:
            for name, response in request.filtered_resps.items():
                answer = Answer.to(request, response, counter if settings.tokens else None)
                request.filtered_resps[name] = answer
                sums.append(float(answer[0]))
        return check_sums(sums, task)

    def metrics(
        self, doc: Mapping[str, Any], answers: Sequence[Answer], settings: Settings, breakdown: Breakdown
    ) -> dict[str, Any]:
        """Compute the metrics of one document, see `document_metrics`."""
        return document_metrics(doc, answers, settings, breakdown, score_likelihoods)


class RewardReader(Writer):
    """Which text has the higher reward? The lengths of the texts do not matter."""

    protocol = MappingProxyType({"reader": "reward"})
    has_measures = False

    def metrics(
        self, doc: Mapping[str, Any], answers: Sequence[Answer], settings: Settings, breakdown: Breakdown
    ) -> dict[str, Any]:
        """Compute the metrics of one document from rewards."""
        return document_metrics(doc, answers, settings, breakdown, self._score)

    def _score(self, doc: Mapping[str, Any], answers: Sequence[Answer], settings: Settings) -> list[Likelihood | None]:
        """Give the reward of each candidate, whatever its length."""
        return [score and Likelihood(score.total) for score in score_likelihoods(doc, answers, settings)]


# ---------------------------------------------------------------- sums that say something is wrong

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
            "%s: the log-likelihoods are rounded to %s, which makes ties and wrong outcomes; add "
            "softmax_dtype=float32 to --model_args",
            task,
            rounded_to,
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
    """Return ``bfloat16`` or ``float16`` when all sums can be written exactly in that type, None otherwise.

    lm-eval's hf models sum log-probabilities in the type of the model. In bfloat16 the numbers between -128 and -256 are
    1 apart, so that different candidates get equal sums.

    Args:
        totals: summed log-likelihoods, shape (requests,). From fewer than `ENOUGH` nothing is inferred.
    """
    values = np.asarray([total for total in totals if math.isfinite(total)], dtype=np.float32)
    if values.size < ENOUGH:
        return None
    if not (values.view(np.uint32) & 0xFFFF).any():  # bfloat16 is the upper half of float32
        return "bfloat16"
    with np.errstate(over="ignore"):
        return "float16" if (values.astype(np.float16) == values).all() else None


# ---------------------------------------------------------------- models that are asked


class Asked(BaseModel):
    """What a YAML says of its reader, beside ``metadata``.

    Attributes:
        reader: ``validator`` and ``rating``: each candidate is shown alone; ``choice`` and ``judge``: both candidates of a
            test, in both orders.
        question: what to ask: a whole question, which ends in a question mark; or the end of "Is this …?" and of "Which one is
            closer to …?", such as ``a fluent question``. Empty asks whether the text is good, or which one is better.
        questions: category -> question; other categories get ``question``.
        answers: two words, of one token each: of the validator the good and the bad one, of the choice the names of the texts.
            None takes Yes and No, or A and B.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reader: Literal["validator", "choice", "judge", "rating"]
    question: str = ""
    questions: dict[str, str] = {}
    answers: tuple[str, str] | None = None

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Self:
        """Read the keys of a task's YAML.

        Raises:
            NNDError: one of them has a value that it cannot have.
        """
        try:
            asked = cls.model_validate({key: config[key] for key in cls.model_fields if config.get(key) is not None})
        except ValidationError as error:
            key, expected = first_mistake(error)
            if key == "answers":
                expected = (
                    """expected two words, such as answers: ["good", "bad"]; YAML takes yes and no for truth values"""
                )
            raise NNDError(f"task {config.get('task')}: {key}={config.get(key)!r}: {expected}") from None
        if asked.words[0].casefold() == asked.words[1].casefold():
            raise NNDError(f"task {config.get('task')}: answers={list(asked.words)}: expected two different words")
        return asked

    @property
    def words(self) -> tuple[str, str]:
        """The two answers."""
        return self.answers or (("A", "B") if self.is_about_pairs else ("Yes", "No"))

    @property
    def is_about_pairs(self) -> bool:
        """Whether both candidates of a test are shown together."""
        return self.reader in ("choice", "judge")

    def question_of(self, category: str) -> str:
        """Return the whole question on a test of a category."""
        text = self.questions.get(category, self.question).strip()
        if text.endswith("?"):
            return text
        if not self.is_about_pairs:
            return f"Is this {text or 'good'}?"
        return f"Which one is closer to {text}?" if text else "Which one is better?"

    def show(self, candidate: str, delimiter: str, question: str, rival: str, *, swapped: bool) -> str:
        """Write the text that follows the prompt, up to the answer.

        Args:
            candidate: of the choice the text that comes first.
            delimiter: what stands between prompt and candidate.
            question: from `question_of`.
            rival: the text that comes second; for the choice only.
            swapped: name the answers in the other order.
        """
        first, second = self.words
        shown_texts = (
            f"{delimiter}{candidate}" if self.reader == "validator" else f"\n{first}: {candidate}\n{second}: {rival}"
        )
        words = f"{second} or {first}" if swapped else f"{first} or {second}"
        return f"{shown_texts}\n\n{question} Answer {words}.\nAnswer:"


class Asker(Writer):
    """A validator or a choice: the model answers a question about candidates.

    The score of a candidate is log P(Yes) - log P(No). In a choice it is half of log P(A) - log P(B) where the candidate is A
    and its rival B, so that the margin of a test is the mean over both orders of the log-odds for the better text. A test passes
    if the better candidate's score is strictly higher. Each question is also asked with its answers in the other order, for
    ``pass_rate_swapped``.

    Args:
        asked: what the YAML says.
        delimiter: what stands between a prompt and the candidate of a validator.
    """

    overrides: Mapping[str, Any] = MappingProxyType({"target_delimiter": " "})
    requests_each = 4  # both answers to the question, then both to the swapped one
    has_measures = False
    #: An answer is one token, whatever the candidate's length.
    omitted_rates = ("pass_rate_sum", "pass_rate_bytes", "pass_rate_prompts_sum", "pass_rate_prompts_bytes")

    def __init__(self, asked: Asked, delimiter: str) -> None:
        self.asked = asked
        self.protocol = {"reader": asked.reader, "questions": digest(asked.model_dump())}
        self.facts = {"reader": asked.model_dump()}
        self.own_rates = ("pass_rate_swapped", *(("order_flips",) if asked.reader == "choice" else ()))
        self._delimiter = delimiter
        self._answer_delimiter: str | None = None

    def add_views(self, documents: datasets.Dataset, task: str) -> datasets.Dataset:
        """Let a candidate stand once for each question, and in a choice for each rival, that tests give it.

        Raises:
            NNDError: the category of a question seems to be misspelled.
        """
        categories = {test["category"] for tests in documents["tests"] for test in tests}
        for name in self.asked.questions.keys() - categories:
            without = f"task {task}: questions: the set has no category {name!r}"
            if meant := did_you_mean(name, sorted(categories - self.asked.questions.keys()), cutoff=0.8):
                raise NNDError(f"{without}; {meant}")
            logger.warning("%s; it has %s", without, ", ".join(sorted(categories)))
        columns = [name for name in documents.column_names if name != "error_spans"]
        return datasets.Dataset.from_list([self._with_views(doc) for doc in documents.select_columns(columns)])

    def _with_views(self, doc: Mapping[str, Any]) -> dict[str, Any]:
        indices: dict[tuple[int, int | None, str], int] = {}
        tests = []
        for test in doc["tests"]:
            question = self.asked.question_of(test["category"])
            sides = {}
            for side, opposite in (("high", "low"), ("low", "high")):
                view = (test[side], test[opposite] if self.asked.is_about_pairs else None, question)
                sides[side] = indices.setdefault(view, len(indices))
            tests.append({**test, **sides})
        texts = doc["candidates"]
        views = [
            {"question": question, "rival": "" if rival is None else texts[rival]} for _, rival, question in indices
        ]
        return {**doc, "candidates": [texts[text] for text, _, _ in indices], "tests": tests, VIEWS: views}

    # ------------------------------------------------------------ questions

    def show_question(self, doc: Mapping[str, Any], settings: Settings) -> str:
        """Write a candidate and the question about it; an exemplar has a candidate of its own choice."""
        index = doc.get(VIEW, self._exemplar(doc)[0])
        view = doc[VIEWS][index]
        text, rival = settings.scored(doc["candidates"][index]), settings.scored(view["rival"])
        return self.asked.show(text, self._delimiter, view["question"], rival, swapped=doc.get(SWAPPED, False))

    def right_answer(self, doc: Mapping[str, Any], settings: Settings) -> str:
        """Give the right answer to the question of an exemplar."""
        return self.asked.words[not self._exemplar(doc)[1]]

    def _exemplar(self, doc: Mapping[str, Any]) -> tuple[int, bool]:
        """Pick a candidate of a document's tests, and tell whether it is the better one, which half of all documents show."""
        number = int(short_hash(doc["cluster_id"]), 16)
        test, better = doc["tests"][number // 2 % len(doc["tests"])], number % 2 == 0
        return test["high" if better else "low"], better

    def for_model(self, task: str | None, *, reward: bool, chat: bool, rounds_to: str | None) -> Writer:
        """Refuse a reward model, and warn of 16 bits: the difference of two coarse logits is 0 in many tests.

        Raises:
            NNDError: a reward model answers no question.
        """
        if reward:
            raise NNDError(
                f"task {task}: a reward model answers no question; run the plain task with --model nnd_reward"
            )
        if rounds_to:
            logger.warning(
                "%s: answers differ by so few steps of %s that many tests tie and fail; add dtype=float32 to --model_args",
                task,
                rounds_to,
            )
        return self

    def can_read(self, doc: Mapping[str, Any], index: int) -> bool:
        """Tell whether a candidate has no blank rival."""
        return not self.asked.is_about_pairs or bool(doc[VIEWS][index]["rival"].strip())

    def views(self, doc: Mapping[str, Any], indices: Sequence[int]) -> list[dict[str, Any]]:
        """Make a document for the question about each candidate, and one with its answers in the other order."""
        return [{**doc, VIEW: index, SWAPPED: swapped} for index in indices for swapped in (False, True)]

    def answer_pairs(self, prompt: Prompt, task: str | None, counter: BaseCounter) -> list[tuple[str, str]]:
        """Make (prompt, answer) of both answers to the question that ends a prompt.

        Raises:
            NNDError: an answer is not one token.
        """
        if self._answer_delimiter is None and counter.tokenizer is not None:
            self._answer_delimiter = self._find_delimiter(prompt, task, counter)
        delimiter = " " if self._answer_delimiter is None else self._answer_delimiter
        return [self._answer_pair(prompt, f"{delimiter}{word}", counter) for word in self.asked.words]

    def _answer_pair(self, prompt: Prompt, answer: str, counter: BaseCounter) -> tuple[str, str]:
        return split_before_candidate(str(prompt), answer, counter) if prompt.chat else (str(prompt), answer)

    def _find_delimiter(self, prompt: Prompt, task: str | None, counter: BaseCounter) -> str:
        """Find what makes both answers one token after a prompt: a space or nothing."""
        words = self.asked.words
        for delimiter in ("", " ") if prompt[-1].isspace() else (" ", ""):
            (*before_good, good), (*before_bad, bad) = (
                counter.split(*self._answer_pair(prompt, f"{delimiter}{word}", counter))[1] for word in words
            )
            decoded = tuple(counter.tokenizer.decode([token]).strip() for token in (good, bad))
            if before_good == before_bad and decoded == words:
                self.facts = {"reader": {**self.asked.model_dump(), "tokens": {words[0]: good, words[1]: bad}}}
                return delimiter
        raise NNDError(
            f"task {task}: the tokenizer {counter.name} has no single token for each of "
            f"{' and '.join(map(repr, words))} after the question; name two words that are one token each in a YAML of your "
            "own, such as answers: [good, bad]"
        )

    # ------------------------------------------------------------ results

    def metrics(
        self, doc: Mapping[str, Any], answers: Sequence[Answer], settings: Settings, breakdown: Breakdown
    ) -> dict[str, Any]:
        """Compute the metrics of one document, with ``pass_rate_swapped``, and ``order_flips`` of a choice.

        The record of a candidate also has ``swapped``, its score when the answers trade places in the question, and ``mass``,
        the probability of both answers together.
        """
        values = document_metrics(doc, answers, settings, breakdown, self._scores)
        with_context = [answer for answer in answers if answer.context_part != "none"]
        swapped = self._scores(doc, with_context, settings, swapped=True)
        rates = {"pass_rate_swapped": score_document(doc["tests"], swapped, {}, ties=settings.ties)["pass_rate"]}
        if self.asked.reader == "choice":  # one letter wins in both orders
            sides = [[values["candidates"][test[side]] for side in ("high", "low")] for test in doc["tests"]]
            scored = [(high["sum"], low["sum"]) for high, low in sides if high and low]
            flips = [(high > 0) == (low > 0) for high, low in scored if None not in (high, low)]
            rates["order_flips"] = (sum(flips), len(flips))
        for record, score, sums in zip(values["candidates"], swapped, self._sums(doc, with_context), strict=True):
            if record and score:
                checks = {"swapped": normalize(score), "mass": math.exp(sums[0]) + math.exp(sums[1])}
                record |= {name: value if math.isfinite(value) else None for name, value in checks.items()}
        values |= rates | {f"{name}_stderr": counts for name, counts in rates.items()}
        return {name: value for name, value in values.items() if name.removesuffix("_stderr") not in self.omitted_rates}

    def _scores(
        self, doc: Mapping[str, Any], answers: Sequence[Answer], settings: Settings, *, swapped: bool = False
    ) -> list[Likelihood | None]:
        """Compute the score of each candidate; None for one that could not be scored."""
        halves = 2 if self.asked.reader == "choice" else 1
        answered = [sums[2:] if swapped else sums[:2] for sums in self._sums(doc, answers)]
        return [Likelihood((sums[0] - sums[1]) / halves) if sums else None for sums in answered]

    def _sums(self, doc: Mapping[str, Any], answers: Sequence[Answer]) -> list[list[float]]:
        """List the log-probabilities of the answers about each candidate, in the order of requests; none if it was left out."""
        sums: list[list[float]] = [[] for _ in doc["candidates"]]
        for answer in answers:
            if answer.candidate is not None:
                sums[answer.candidate].append(float(answer[0]))
        return sums
