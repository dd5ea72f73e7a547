"""Who reads the candidates of a task: the model as a writer, a reward model, or a model that is asked about them.

``writer``: which text would the model write? ``reward``: which text has the higher reward? ``validator``: is this text good?
``choice``: which of two texts is better? Tests, prompts and metrics are the same for all of them. Those that write
their answer are in `nnd_tasks.task.judge_reader`; `read_reader` there picks one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import datasets
import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from typing_extensions import Self

from nnd_tasks.errors import NNDError
from nnd_tasks.rule import Likelihood, normalize
from nnd_tasks.schema import short_hash
from nnd_tasks.task.metrics import Breakdown, Counts, score_document
from nnd_tasks.task.request import Answer, Doc, Prompt, Request, split_before_candidate
from nnd_tasks.task.settings import Settings, first_mistake
from nnd_tasks.task.signature import digest
from nnd_tasks.text import did_you_mean

if TYPE_CHECKING:
    from nnd_tasks.task.lengths import BaseCounter

logger = logging.getLogger("lm_eval.nnd")

#: Of each candidate of a document, the answers about it; none if it was left out.
Groups = Sequence[Sequence[Any]]
#: Column of the documents: of each candidate, what is asked of it and the ``rival`` that it is shown with.
VIEWS = "reader_views"
#: Keys of a document that is rendered: the place of the candidate to ask about, and whether the answers trade places.
VIEW, SWAPPED = "reader_view", "reader_swapped"


class Writer:
    """Which text would the model write? Each candidate is scored as what follows the prompt.

    Other readers override what they do otherwise. Those that ask have further methods (`Asker`), and so have those to which
    a model writes (`nnd_tasks.task.judge_reader.Judge`). All stand in the order in which a task calls them.

    Args:
        settings: of the task.
        task: its name.

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

    def __init__(self, settings: Settings, task: str | None) -> None:
        self.settings, self.task = settings, task

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
        return RewardReader(self.settings, self.task) if reward else self

    def right_answer(self, doc: Doc) -> str:
        """Pick a better candidate, if possible one that is not empty: what an exemplar ends with."""
        better = [str(doc["candidates"][test["high"]]) for test in doc["tests"]]
        return self.settings.scored(next((text for text in better if text.strip()), better[0]))

    def collect_answers(self, requests: Sequence[Request], counter: BaseCounter) -> str | None:
        """Put an `Answer` in the place of what the model gave to each request.

        Returns:
            The 16-bit type that its sums are rounded to; None if it is wider, or not known.

        Raises:
            NNDError: the model gives no likelihoods.
        """
        sums: list[float] = []
        for request in requests:
            for name, response in request.filtered_resps.items():
                answer = Answer.to(request, response, counter if self.settings.tokens else None)
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
        groups, bare = (_by_candidate(doc, answers, bare=without) for without in (False, True))
        scores = self._score_each(doc, groups)
        without_context = self._score_each(doc, bare) if self.settings.context_reliance else None
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
        return values

    def _score_each(self, doc: Doc, groups: Groups) -> list[Likelihood | None]:
        """Score the candidates of a document; None is one that could not be scored."""
        texts = zip(doc["candidates"], groups, strict=True)
        return [self.score(text, answers) if answers else None for text, answers in texts]

    def _record_each(self, scores: Sequence[Likelihood | None], groups: Groups) -> list[Any]:
        """Make the records of the candidates for the samples."""
        records: list[Any] = [None] * len(groups)
        for i, (score, answers) in enumerate(zip(scores, groups, strict=True)):
            if score is not None:
                numbers = {"sum": _finite(score.total), "mean": _finite(normalize(score))}
                records[i] = {**numbers, "tokens": score.tokens, "bytes": score.size, **self.note(answers)}
        return records

    def score(self, text: str, answers: Sequence[Any]) -> Likelihood:
        """Score a candidate by the answers to its requests."""
        total, _, tokens = answers[0]
        return Likelihood(float(total), tokens, max(len(self.settings.scored(text).encode("utf-8")), 1))

    def note(self, answers: Sequence[Any]) -> dict[str, Any]:
        """List what the record of a candidate holds besides its score: flaws as keys that are true, and `TOKEN_STATS`."""
        return dict.fromkeys(answers[-1].flaws, True) | (answers[-1].stats._asdict() if answers[-1].stats else {})


def _by_candidate(doc: Doc, answers: Sequence[Any], *, bare: bool) -> Groups:
    """Group the answers of a document by candidate: those to prompts with its context, or those to bare ones."""
    groups: list[list[Any]] = [[] for _ in doc["candidates"]]
    for answer in answers:
        if answer.candidate is not None and (answer.context_part == "none") == bare:
            groups[answer.candidate].append(answer)
    return groups


def _finite(value: float) -> float | None:
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
        settings: of the task.
        task: its name.
    """

    overrides: Mapping[str, Any] = MappingProxyType({"target_delimiter": " "})
    requests_each = 4  # both answers to the question, then both to the swapped one
    has_measures = False
    #: An answer is one token, whatever the candidate's length.
    omitted_rates = ("pass_rate_sum", "pass_rate_bytes", "pass_rate_prompts_sum", "pass_rate_prompts_bytes")

    def __init__(self, asked: Asked, delimiter: str, settings: Settings, task: str | None) -> None:
        super().__init__(settings, task)
        self.asked = asked
        self.protocol = {"reader": asked.reader, "questions": digest(asked.model_dump())}
        self.facts = {"reader": asked.model_dump()}
        self.own_rates = ("pass_rate_swapped", *(("order_flips",) if asked.reader == "choice" else ()))
        self._delimiter = delimiter
        self._answer_delimiter: str | None = None

    def add_views(self, documents: datasets.Dataset) -> datasets.Dataset:
        """Let a candidate stand once for each question, and in a choice for each rival, that tests give it.

        Raises:
            NNDError: the category of a question seems to be misspelled.
        """
        categories = {test["category"] for tests in documents["tests"] for test in tests}
        for name in self.asked.questions.keys() - categories:
            without = f"task {self.task}: questions: the set has no category {name!r}"
            if meant := did_you_mean(name, sorted(categories - self.asked.questions.keys()), cutoff=0.8):
                raise NNDError(f"{without}; {meant}")
            logger.warning("%s; it has %s", without, ", ".join(sorted(categories)))
        columns = [name for name in documents.column_names if name != "error_spans"]
        return datasets.Dataset.from_list([self._with_views(doc) for doc in documents.select_columns(columns)])

    def _with_views(self, doc: Doc) -> dict[str, Any]:
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

    def for_model(self, *, reward: bool, chat: bool, rounds_to: str | None) -> Writer:
        """Refuse a reward model, and warn of 16 bits: the difference of two coarse logits is 0 in many tests.

        Raises:
            NNDError: a reward model answers no question.
        """
        if reward:
            raise NNDError(
                f"task {self.task}: a reward model answers no question; run the plain task with --model nnd_reward"
            )
        if rounds_to:
            logger.warning(
                "%s: answers differ by so few steps of %s that many tests tie and fail; add dtype=float32 to --model_args",
                self.task,
                rounds_to,
            )
        return self

    # ------------------------------------------------------------ requests

    def show_question(self, doc: Doc) -> str:
        """Write a candidate and the question about it; an exemplar has a candidate of its own choice."""
        index = doc.get(VIEW, self._exemplar(doc)[0])
        view = doc[VIEWS][index]
        text, rival = self.settings.scored(doc["candidates"][index]), self.settings.scored(view["rival"])
        return self.asked.show(text, self._delimiter, view["question"], rival, swapped=doc.get(SWAPPED, False))

    def right_answer(self, doc: Doc) -> str:
        """Give the right answer to the question of an exemplar."""
        return self.asked.words[not self._exemplar(doc)[1]]

    def _exemplar(self, doc: Doc) -> tuple[int, bool]:
        """Pick a candidate of a document's tests, and tell whether it is the better one, which half of all documents show."""
        number = int(short_hash(doc["cluster_id"]), 16)
        test, better = doc["tests"][number // 2 % len(doc["tests"])], number % 2 == 0
        return test["high" if better else "low"], better

    def can_read(self, doc: Doc, index: int) -> bool:
        """Tell whether a candidate has no blank rival."""
        return not self.asked.is_about_pairs or bool(doc[VIEWS][index]["rival"].strip())

    def ask(
        self, doc: Doc, indices: Sequence[int], render: Callable[[Any], Prompt], counter: BaseCounter
    ) -> list[tuple[Any, Any]]:
        """Ask about each candidate, then once more with the answers in the other order; each time with both answers.

        Raises:
            NNDError: an answer is not one token.
        """
        views = [{**doc, VIEW: index, SWAPPED: swapped} for index in indices for swapped in (False, True)]
        prompts = [render(view) for view in views]
        if prompts and self._answer_delimiter is None and counter.tokenizer is not None:
            self._answer_delimiter = self._find_delimiter(prompts[0], counter)
        delimiter = " " if self._answer_delimiter is None else self._answer_delimiter
        return [_join(prompt, f"{delimiter}{word}", counter) for prompt in prompts for word in self.asked.words]

    def _find_delimiter(self, prompt: Prompt, counter: BaseCounter) -> str:
        """Find what makes both answers one token after a prompt: a space or nothing."""
        words = self.asked.words
        for delimiter in ("", " ") if prompt[-1].isspace() else (" ", ""):
            (*before_good, good), (*before_bad, bad) = (
                counter.split(*_join(prompt, f"{delimiter}{word}", counter))[1] for word in words
            )
            decoded = tuple(counter.tokenizer.decode([token]).strip() for token in (good, bad))
            if before_good == before_bad and decoded == words:
                self.facts = {"reader": {**self.asked.model_dump(), "tokens": {words[0]: good, words[1]: bad}}}
                return delimiter
        raise NNDError(
            f"task {self.task}: the tokenizer {counter.name} has no single token for each of "
            f"{' and '.join(map(repr, words))} after the question; name two words that are one token each in a YAML of your "
            "own, such as answers: [good, bad]"
        )

    # ------------------------------------------------------------ answers

    def score(self, text: str, answers: Sequence[Any]) -> Likelihood:
        """Compare the log-probabilities of both answers to the question."""
        return self._compare(*answers[:2])

    def _compare(self, first: Any, second: Any) -> Likelihood:
        return Likelihood((float(first[0]) - float(second[0])) / (2 if self.asked.is_about_pairs else 1))

    def note(self, answers: Sequence[Any]) -> dict[str, Any]:
        """Add ``swapped``, the score when the answers trade places, and ``mass``, the probability of both together."""
        mass = math.exp(answers[0][0]) + math.exp(answers[1][0])
        swapped = self._compare(*answers[2:]).total
        return super().note(answers) | {"swapped": _finite(swapped), "mass": _finite(mass)}

    def metrics(self, doc: Doc, answers: Sequence[Any], breakdown: Breakdown) -> dict[str, Any]:
        """Compute the metrics of one document, with the reader's own rates; see `Writer.metrics`."""
        values = super().metrics(doc, answers, breakdown)
        own = self.count_own(doc, _by_candidate(doc, answers, bare=False), values, breakdown)
        return values | own | {f"{name}_stderr": counts for name, counts in own.items()}

    def count_own(self, doc: Doc, groups: Groups, values: Mapping[str, Any], breakdown: Breakdown) -> dict[str, Counts]:
        """Count the tests that pass when the answers trade places, and those of a choice in which one letter wins twice.

        Args:
            doc: the document.
            groups: of each candidate the answers about it.
            values: the metrics that all readers have.
            breakdown: which rates to report.
        """
        swapped = [self._compare(*answers[2:]) if answers else None for answers in groups]
        rates = {"pass_rate_swapped": score_document(doc["tests"], swapped, {}, ties=self.settings.ties)["pass_rate"]}
        if self.asked.reader == "choice":
            sides = [[values["candidates"][test[side]] for side in ("high", "low")] for test in doc["tests"]]
            scored = [(high["sum"], low["sum"]) for high, low in sides if high and low]
            flips = [(high > 0) == (low > 0) for high, low in scored if None not in (high, low)]
            rates["order_flips"] = (sum(flips), len(flips))
        return rates


def _join(prompt: Prompt, answer: str, counter: BaseCounter) -> tuple[str, str]:
    return split_before_candidate(str(prompt), answer, counter) if prompt.chat else (str(prompt), answer)
