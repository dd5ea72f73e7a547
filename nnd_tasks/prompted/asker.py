"""Models that are asked about the candidates: is this text good (``validator``), which of two texts is better (``choice``)?

The model answers with one token, of which it gives the likelihood. `nnd_tasks.prompted.judge` has models that write their answer.

Known limits: another wording of a question may give another rate. Where answers are rounded to 16 bits many tests tie, and fail.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from typing_extensions import Self

from nnd_tasks.errors import NNDError, list_mistakes
from nnd_tasks.rule import Likelihood
from nnd_tasks.schema import Breakdown, short_hash
from nnd_tasks.task.documents import Documents
from nnd_tasks.task.metrics import Counts, score_document
from nnd_tasks.task.reader import Groups, Writer, finite_or_none
from nnd_tasks.task.request import Doc, Prompt, split_before_candidate
from nnd_tasks.task.settings import Settings
from nnd_tasks.task.signature import digest

if TYPE_CHECKING:
    from shared_prefix.lengths import BaseCounter

logger = logging.getLogger("lm_eval.nnd")

#: Column of the documents: of each candidate, what is asked of it and the ``rival`` that it is shown with.
VIEWS = "reader_views"
#: Keys of a document that is rendered: the place of the candidate to ask about, and whether the answers trade places.
VIEW, SWAPPED = "reader_view", "reader_swapped"


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
        frames: reader -> what follows the texts in place of the English sentences, such as ``Is it {question}? Say {first} or
            {second}.``, with ``{lowest}`` and ``{highest}`` of a rating. ``question`` is then put in as it stands.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reader: str
    question: str = ""
    questions: dict[str, str] = {}
    answers: tuple[str, str] | None = None
    frames: dict[str, str] = {}

    @field_validator("frames")
    @classmethod
    def _can_be_filled(cls, frames: dict[str, str]) -> dict[str, str]:
        for reader, frame in frames.items():
            if reader not in ("validator", "choice", "judge", "rating"):
                raise ValueError(f"expected validator, choice, judge or rating, not {reader!r}")
            try:
                frame.format_map(dict.fromkeys(("question", "first", "second", "lowest", "highest"), ""))
            except (LookupError, ValueError):
                raise ValueError(
                    "expected only {question}, {first}, {second}, {lowest} and {highest} in braces"
                ) from None
        return frames

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Self:
        """Read the keys of a task's YAML.

        Raises:
            NNDError: one of them has a value that it cannot have.
        """
        try:
            asked = cls.model_validate({key: config[key] for key in cls.model_fields if config.get(key) is not None})
        except ValidationError as error:
            key, expected = list_mistakes(error)[0]
            key = key.partition(".")[0]
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
        if text.endswith("?") or self.reader in self.frames:
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
        if swapped:
            first, second = second, first
        frame = self.frames.get(self.reader, "{question} Answer {first} or {second}.\nAnswer:")
        return f"{shown_texts}\n\n{frame.format(question=question, first=first, second=second)}"

    def describe(self) -> dict[str, Any]:
        """Return the keys, ``frames`` where it changes what is asked."""
        return self.model_dump(exclude=set() if self.reader in self.frames else {"frames"})


class Asker(Writer):
    """A validator or a choice: the model answers a question about candidates.

    The score of a candidate is log P(Yes) - log P(No). In a choice it is half of log P(A) - log P(B) where the candidate is A
    and its rival B, so that the margin of a test is the mean over both orders of the log-odds for the better text. A test passes
    if the better candidate's score is strictly higher. Each question is also asked with its answers in the other order, for
    ``pass_rate_swapped``.

    Args:
        config: what the task's YAML says.
        settings: of the task.

    Raises:
        NNDError: one of the keys about the reader has a value that it cannot have, or a setting does not fit the reader.
    """

    form: type[Asked] = Asked
    #: Setting that says nothing of this reader -> what it is about.
    useless_settings: Mapping[str, str] = MappingProxyType(
        dict.fromkeys(("tokens", "append_eos", "append_bos"), "the tokens of a text")
    )

    overrides: Mapping[str, Any] = MappingProxyType({"target_delimiter": " "})
    asks = True
    requests_each = 4  # both answers to the question, then both to the swapped one
    has_measures = False
    #: An answer is one token, whatever the candidate's length.
    omitted_rates = ("pass_rate_sum", "pass_rate_bytes", "pass_rate_prompts_sum", "pass_rate_prompts_bytes")

    def __init__(self, config: Mapping[str, Any], settings: Settings) -> None:
        super().__init__(config, settings)
        self.asked = self.form.read(config)
        name = self.asked.reader
        for key, subject in self.useless_settings.items():
            if getattr(settings, key):
                raise NNDError(
                    f"task {self.task}: {key} is about {subject}, and a {name} gives an answer about it; leave it out"
                )
        self.protocol = {"reader": name, "questions": digest(self.asked.describe())}
        self.facts = {"reader": self.asked.describe()}
        self.own_rates = ("pass_rate_swapped", *(("order_flips",) if name == "choice" else ()))
        self._delimiter = str(config.get("target_delimiter", " "))
        self._answer_delimiter: str | None = None

    def add_views(self, documents: Documents) -> Documents:
        """Let a candidate stand once for each question, and in a choice for each rival, that tests give it."""
        categories = {test["category"] for doc in documents for test in doc["tests"]}
        for name in self.asked.questions.keys() - categories:
            there = ", ".join(sorted(categories))
            logger.warning("task %s: questions: the set has no category %r; it has %s", self.task, name, there)
        return Documents(map(self._with_views, documents))

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
        kept = {name: value for name, value in doc.items() if name != "error_spans"}
        return {**kept, "candidates": [texts[text] for text, _, _ in indices], "tests": tests, VIEWS: views}

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
                self.facts = {"reader": {**self.asked.describe(), "tokens": {words[0]: good, words[1]: bad}}}
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
        return super().note(answers) | {"swapped": finite_or_none(swapped), "mass": finite_or_none(mass)}

    def count_own(self, doc: Doc, groups: Groups, values: Mapping[str, Any], breakdown: Breakdown) -> dict[str, Counts]:
        """Count the tests that pass when the answers trade places, and those of a choice in which one letter wins twice."""
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
