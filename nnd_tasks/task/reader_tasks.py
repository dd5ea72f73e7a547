"""Tasks that ask a model about candidates: is it good (``validator``), or which of two is better (``choice``)?

Tests, prompts and metrics are those of the plain task, whose reader is called ``writer``: which text would the model write?
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import datasets
from pydantic import BaseModel, ConfigDict, ValidationError

from nnd_tasks.errors import NNDError
from nnd_tasks.rule import Likelihood, normalize
from nnd_tasks.schema import short_hash
from nnd_tasks.task.metrics import score_document
from nnd_tasks.task.request import Answer, Prompt, document_metrics, split_before_candidate
from nnd_tasks.task.settings import READER_KEYS, Settings, first_mistake
from nnd_tasks.task.signature import digest
from nnd_tasks.task.task import NNDTask
from nnd_tasks.text import did_you_mean

logger = logging.getLogger("lm_eval.nnd")

#: Column of the documents: of each candidate, what is asked of it and the ``rival`` that it is shown with.
VIEWS = "reader_views"
#: Keys of a document that is rendered: the place of the candidate to ask about, and whether the answers trade places.
VIEW, SWAPPED = "reader_view", "reader_swapped"
#: Rates that say nothing of an answer: it is one token, whatever the candidate's length.
_OF_TEXTS = ("pass_rate_sum", "pass_rate_bytes")


class Asked(BaseModel):
    """What a YAML says of its reader, beside ``metadata``.

    Attributes:
        reader: ``validator``: each candidate is shown alone; ``choice``: both candidates of a test, in both orders.
        question: what to ask: a whole question, which ends in a question mark; or the end of "Is this …?" and of "Which one is
            closer to …?", such as ``a fluent question``. Empty asks whether the text is good, or which one is better.
        questions: category -> question; other categories get ``question``.
        answers: two words, of one token each: of the validator the good and the bad one, of the choice the names of the texts.
            None takes Yes and No, or A and B.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reader: Literal["validator", "choice"]
    question: str = ""
    questions: dict[str, str] = {}
    answers: tuple[str, str] | None = None

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> Asked:
        """Read the keys of a task's YAML.

        Raises:
            NNDError: one of them has a value that it cannot have.
        """
        try:
            asked = cls.model_validate({key: config[key] for key in READER_KEYS if config.get(key) is not None})
        except ValidationError as error:
            key, expected = first_mistake(error)
            if key == "answers":
                expected = (
                    """expected two words, such as answers: ["good", "bad"]; YAML takes yes and no for truth values"""
                )
            raise NNDError(f"task {config.get('task')}: {key}={config.get(key)!r}: {expected}") from None
        if asked.words[0] == asked.words[1]:
            raise NNDError(f"task {config.get('task')}: answers={list(asked.words)}: expected two different words")
        return asked

    @property
    def words(self) -> tuple[str, str]:
        """The two answers."""
        return self.answers or (("Yes", "No") if self.reader == "validator" else ("A", "B"))

    def question_of(self, category: str) -> str:
        """Return the whole question on a test of a category."""
        text = self.questions.get(category, self.question).strip()
        if text.endswith("?"):
            return text
        if self.reader == "validator":
            return f"Is this {text or 'good'}?"
        return f"Which one is closer to {text}?" if text else "Which one is better?"

    def show(self, candidate: str, delimiter: str, question: str, rival: str, *, swapped: bool) -> str:
        """Return what follows the prompt, up to the answer.

        Args:
            candidate: of the choice the text that comes first.
            delimiter: what stands between prompt and candidate.
            question: from `question_of`.
            rival: the text that comes second; for the choice only.
            swapped: name the answers in the other order.
        """
        first, second = self.words
        shown = (
            f"{delimiter}{candidate}" if self.reader == "validator" else f"\n{first}: {candidate}\n{second}: {rival}"
        )
        words = f"{second} or {first}" if swapped else f"{first} or {second}"
        return f"{shown}\n\n{question} Answer {words}.\nAnswer:"


class ReaderTask(NNDTask):
    """A task whose YAML sets ``reader`` to ``validator`` or ``choice``.

    The score of a candidate is log P(Yes) - log P(No). In a choice it is half of log P(A) - log P(B) where the candidate is A
    and its rival B, so that the margin of a test is the mean over both orders of the log-odds for the better text. A test passes
    if the better candidate's score is strictly higher. Each question is also asked with its answers in the other order, for
    ``pass_rate_swapped``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Build the task from a YAML's configuration."""
        self.asked = Asked.read(config)
        self._delimiter = str(config.get("target_delimiter", " "))
        super().__init__({**config, "target_delimiter": " "})
        for name in ("tokens", "append_eos", "append_bos"):
            if getattr(self.settings, name):
                raise NNDError(
                    f"task {self.config.task}: {name} is about the tokens of a text, and a {self.asked.reader} gives an answer "
                    "about it; leave it out"
                )
        self._facts["reader"] = self.asked.model_dump()
        self._answer_delimiter: str | None = None

    # ------------------------------------------------------------ data

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Load the set; a candidate stands once for each question, and in a choice for each rival, that tests give it.

        Raises:
            NNDError: as `NNDTask.download`, or the category of a question seems to be misspelled.
        """
        super().download(dataset_kwargs, **kwargs)
        [(split, documents)] = self.dataset.items()
        known = {test["category"] for tests in documents["tests"] for test in tests}
        for name in self.asked.questions.keys() - known:
            without = f"task {self.config.task}: questions: the set has no category {name!r}"
            if meant := did_you_mean(name, sorted(known - self.asked.questions.keys()), cutoff=0.8):
                raise NNDError(f"{without}; {meant}")
            logger.warning("%s; it has %s", without, ", ".join(sorted(known)))
        kept = documents.remove_columns([name for name in ("error_spans",) if name in documents.column_names])
        self.dataset = {split: datasets.Dataset.from_list([self._with_views(doc) for doc in kept])}

    def _with_views(self, doc: Mapping[str, Any]) -> dict[str, Any]:
        places: dict[tuple[int, int | None, str], int] = {}
        tests = []
        for test in doc["tests"]:
            question = self.asked.question_of(test["category"])
            sides = {}
            for side, other in (("high", "low"), ("low", "high")):
                view = (test[side], test[other] if self.asked.reader == "choice" else None, question)
                sides[side] = places.setdefault(view, len(places))
            tests.append({**test, **sides})
        texts = doc["candidates"]
        views = [{"question": asked, "rival": "" if rival is None else texts[rival]} for _, rival, asked in places]
        return {**doc, "candidates": [texts[own] for own, _, _ in places], "tests": tests, VIEWS: views}

    def scorable(self, doc: Mapping[str, Any]) -> list[int]:
        """Return the indices of the candidates that can be asked about: neither they nor their rivals are blank."""
        blank = [self.asked.reader == "choice" and not view["rival"].strip() for view in doc[VIEWS]]
        return [i for i in super().scorable(doc) if not blank[i]]

    # ------------------------------------------------------------ texts

    def doc_to_text(self, doc: Mapping[str, Any], doc_to_text: Any = None) -> str:
        """Render the prompt, a candidate and the question about it; an exemplar has a candidate of its own choice."""
        place = doc.get(VIEW, self._exemplar(doc)[0])
        view = doc[VIEWS][place]
        text, rival = map(self.settings.scored, (doc["candidates"][place], view["rival"]))
        shown = self.asked.show(text, self._delimiter, view["question"], rival, swapped=doc.get(SWAPPED, False))
        return super().doc_to_text(doc, doc_to_text) + shown

    def doc_to_target(self, doc: Mapping[str, Any], doc_to_target: Any = None) -> str:
        """Return the right answer to the question of an exemplar."""
        return self.asked.words[not self._exemplar(doc)[1]]

    def _exemplar(self, doc: Mapping[str, Any]) -> tuple[int, bool]:
        """Return a candidate of a document's tests, and whether it is the better one; half of all documents show that one."""
        number = int(short_hash(doc["cluster_id"]), 16)
        test, better = doc["tests"][number // 2 % len(doc["tests"])], number % 2 == 0
        return test["high" if better else "low"], better

    # ------------------------------------------------------------ requests

    def _pairs(self, doc: Mapping[str, Any], prompt: Prompt, context: str | None = None) -> list[tuple[str, str]]:
        """Return (prompt with question, answer): of each candidate both answers, then both to the swapped question."""
        if not self.scorable(doc):
            return super()._pairs(doc, prompt, context)
        doc = {**doc, "context": doc["context"] if context is None else context}
        pairs = []
        for place in self.scorable(doc):
            for swapped in (False, True):
                asked = self.fewshot_context({**doc, VIEW: place, SWAPPED: swapped}, **prompt.arguments)
                delimiter = self._delimiter_before(asked)
                pairs += [self._answer_pair(asked, f"{delimiter}{answer}") for answer in self.asked.words]
        return pairs

    def _answer_pair(self, prompt: Prompt, answer: str) -> tuple[str, str]:
        text = str(prompt)
        return split_before_candidate(text, answer, self.counter) if prompt.chat else (text, answer)

    def _delimiter_before(self, prompt: Prompt) -> str:
        """Return what makes both answers one token after a prompt: a space or nothing.

        Raises:
            NNDError: neither does.
        """
        if self._answer_delimiter is None and self.counter.tokenizer is None:  # no model will answer
            return " "
        if self._answer_delimiter is None:
            words = self.asked.words
            for delimiter in ("", " ") if prompt[-1].isspace() else (" ", ""):
                (*before, yes), (*same, no) = (
                    self.counter._encode_pair(*self._answer_pair(prompt, f"{delimiter}{word}"))[1] for word in words
                )
                if before == same and tuple(self.counter.tokenizer.decode([one]).strip() for one in (yes, no)) == words:
                    self._answer_delimiter = delimiter
                    self._facts["reader"]["tokens"] = {words[0]: yes, words[1]: no}
                    break
            else:
                raise NNDError(
                    f"task {self.config.task}: the tokenizer {self.counter.name} has no single token for each of "
                    f"{' and '.join(map(repr, words))} after the question; name two words that are one token each in a YAML of "
                    "your own, such as answers: [good, bad]"
                )
        return self._answer_delimiter

    def _owners(self, doc: Mapping[str, Any]) -> list[int]:
        return [place for place in self.scorable(doc) for _ in range(4)]

    # ------------------------------------------------------------ results

    def prepare(self, model: Any, arguments: Mapping[str, Any], *, chat: bool = False) -> None:
        """Tell the task which model will run, as `NNDTask.prepare`.

        Raises:
            NNDError: as there; or the model gives rewards, and answers no question.
        """
        super().prepare(model, arguments, chat=chat)
        if self.counter.reward:
            raise NNDError(
                f"task {self.config.task}: a reward model answers no question; run the plain task with --model nnd_reward"
            )
        if self._coarse:
            logger.warning(
                "%s: answers differ by so few steps of %s that many tests tie and fail; add dtype=float32 to --model_args",
                self.config.task,
                self._coarse,
            )

    def _reader_part(self) -> dict[str, Any]:
        return {"reader": self.asked.reader, "questions": digest(self.asked.model_dump())}

    def process_results(self, doc: Mapping[str, Any], results: Sequence[Answer]) -> dict[str, Any]:
        """Return the metrics of one document, with ``pass_rate_swapped``, and ``order_flips`` of a choice.

        The record of a candidate also has ``swapped``, its score when the answers trade places in the question, and ``mass``,
        the probability of both answers together.
        """
        values = document_metrics(doc, results, self.settings, self.breakdown, self._scores)
        whole = [one for one in results if one.context_part != "none"]
        swapped = self._scores(doc, whole, self.settings, swapped=True)
        rates = {"pass_rate_swapped": score_document(doc["tests"], swapped, {}, ties=self.settings.ties)["pass_rate"]}
        if self.asked.reader == "choice":  # one letter wins in both orders
            sides = [[values["candidates"][test[side]] for side in ("high", "low")] for test in doc["tests"]]
            scored = [(high["sum"], low["sum"]) for high, low in sides if high and low]
            flips = [(high > 0) == (low > 0) for high, low in scored if None not in (high, low)]
            rates["order_flips"] = (sum(flips), len(flips))
        for record, other, sums in zip(values["candidates"], swapped, self._sums(doc, whole), strict=True):
            if record and other:
                found = {"swapped": normalize(other), "mass": math.exp(sums[0]) + math.exp(sums[1])}
                record |= {name: value if math.isfinite(value) else None for name, value in found.items()}
        values |= rates | {f"{name}_stderr": counts for name, counts in rates.items()}
        return {name: value for name, value in values.items() if name.removesuffix("_stderr") not in _OF_TEXTS}

    def _scores(
        self, doc: Mapping[str, Any], answers: Sequence[Answer], settings: Settings, *, swapped: bool = False
    ) -> list[Likelihood | None]:
        """Return the score of each candidate; None for one that could not be scored."""
        halves = 2 if self.asked.reader == "choice" else 1
        answered = [sums[2:] if swapped else sums[:2] for sums in self._sums(doc, answers)]
        return [Likelihood((sums[0] - sums[1]) / halves, tokens=1, size=1) if sums else None for sums in answered]

    def _sums(self, doc: Mapping[str, Any], answers: Sequence[Answer]) -> list[list[float]]:
        """Return the log-probabilities of the answers about each candidate, in the order of `_pairs`; none if it was left out."""
        sums: list[list[float]] = [[] for _ in doc["candidates"]]
        for answer in answers:
            if answer.candidate is not None:
                sums[answer.candidate].append(float(answer[0]))
        return sums

    def _rates(self) -> list[str]:
        own = ["pass_rate_swapped", *(["order_flips"] if self.asked.reader == "choice" else [])]
        return [*(name for name in super()._rates() if name not in _OF_TEXTS), *own]

    def higher_is_better(self) -> dict[str, bool]:
        """Return the direction of each rate; ``order_flips`` has none."""
        return {name: up for name, up in super().higher_is_better().items() if name != "order_flips"}
