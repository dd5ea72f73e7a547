"""Models that write their verdict: a judge says which of two texts is better, a rating gives one text a number.

Such a model may sit behind a chat API that gives no likelihoods. Both orders of a pair are asked, each in a request of its own.

Known limits: another wording of a question may give another rate. A verdict that stands in prose alone cannot be read.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from pydantic import Field, field_validator

from nnd_tasks.errors import NNDError
from nnd_tasks.prompted.asker import VIEW, Asked, Asker
from nnd_tasks.rule import Likelihood
from nnd_tasks.schema import Breakdown, metric_slugs
from nnd_tasks.servers.client import WrittenText
from nnd_tasks.task.documents import Documents
from nnd_tasks.task.metrics import Counts
from nnd_tasks.task.reader import Groups
from nnd_tasks.task.request import ContextPart, Doc, Prompt, Request
from nnd_tasks.task.settings import SAMPLE, Settings
from nnd_tasks.task.signature import digest

if TYPE_CHECKING:
    from shared_prefix.lengths import BaseCounter

logger = logging.getLogger("lm_eval.nnd")

TIE = "tie"
#: What lm-eval gives the model unless a YAML or ``--gen_kwargs`` say otherwise. Without ``until`` lm-eval ends answers at a
#: blank line, which cuts reasoning.
_GENERATION: Mapping[str, Any] = {"temperature": 0.0, "max_gen_toks": 512, "until": []}
#: Characters of a token, about, where no tokenizer is known.
_TOKEN = 4
#: Share of answers that cannot be read, above which a run is warned of.
_MANY = 0.1


class AskedInWriting(Asked):
    """What a YAML says of a judge or a rating, beside what it says of any reader.

    Attributes:
        tie: whether a judge may answer ``tie``.
        scale: lowest and highest rating.
        ending: what the question ends with, in place of what asks for a line such as ``Answer: A``.
        repeats: number of answers to each question; they differ where ``generation_kwargs`` ask for samples.
    """

    tie: bool = False
    scale: tuple[int, int] = (1, 10)
    ending: str = ""
    repeats: int = Field(1, ge=1)

    @field_validator("scale")
    @classmethod
    def _ascends(cls, scale: tuple[int, int]) -> tuple[int, int]:
        if scale[0] >= scale[1]:
            raise ValueError("expected the lowest and the highest number, such as scale: [1, 10]")
        return scale

    @property
    def options(self) -> list[str]:
        """The words that a judge may answer."""
        return [*self.words, TIE] if self.tie else [*self.words]

    def show(self, candidate: str, delimiter: str, question: str, rival: str, *, swapped: bool) -> str:
        """Write the text that follows the prompt; see `Asked.show`."""
        if self.reader == "rating":
            lowest, highest = self.scale
            ending = self.ending or 'End with a line "Rating: N", where N is the number.'
            frame = self.frames.get("rating")
            asked = (
                frame.format(question=question, lowest=lowest, highest=highest)
                if frame
                else f"{question} Rate it from {lowest} (not at all) to {highest} (fully). {ending}"
            )
            return f"{delimiter}{candidate}\n\n{asked}"
        first, second = self.words
        *lines, last = [f'"Answer: {word}"' for word in self.options]
        ending = self.ending or f"End with a line {', '.join(lines)} or {last}."
        frame = self.frames.get("judge")
        asked = frame.format(question=question, first=first, second=second) if frame else f"{question} {ending}"
        return f"\n{first}: {candidate}\n{second}: {rival}\n\n{asked}"

    def read_answer(self, answer: str) -> float | None:
        """Read an answer.

        Returns:
            Of a judge, 1 for the text that is shown first, -1 for the other, 0 for a tie; of a rating, its number. None where
            nothing can be read.
        """
        if self.reader == "rating":
            return read_number(answer, *self.scale)
        word = read_word(answer, self.options)
        return None if word is None else {self.words[0]: 1.0, self.words[1]: -1.0}.get(word, 0.0)


class WrittenAnswer(str):
    """What a model wrote as the answer to one request.

    Attributes:
        candidate: see `nnd_tasks.task.request.Request`.
        context_part: see there.
        usage: see `WrittenText`; None without a server.
    """

    candidate: int | None
    context_part: ContextPart
    usage: Mapping[str, Any] | None

    @classmethod
    def of(cls, request: Request, response: Any) -> WrittenAnswer:
        """Take the model's text; with lm-eval 0.5, it is the only one in a list."""
        if isinstance(response, list):
            (response,) = response
        answer = cls(response or "")
        answer.candidate, answer.context_part = request.candidate, request.context_part
        answer.usage = response.usage if isinstance(response, WrittenText) else None
        return answer


class Judge(Asker):
    """A judge or a rating: the model writes its answer, which `read_word` and `read_number` read.

    A judge is asked about the two texts of a test in both orders. Its mean verdict over both orders is from -1 to 1, and a test
    passes if it is above 0. Of a rating, a test passes if the better text's number is higher. A tie fails, and so does a test
    of which an answer cannot be read: to leave these out would reward silence. The score of a candidate is its mean number, or
    half of its mean verdict where it is shown first, so that the difference of both is what decides a test, as for a choice.

    Rates of its own: ``pass_rate_half`` counts a tie as half passed, so that guessing gives 0.5; ``unread`` is the share of
    answers that cannot be read; of a judge, ``both_right`` and ``order_flips`` are the shares of tests where both orders are
    right and where one letter wins in both, and ``first`` is the share of verdicts for the text that is shown first.

    A YAML may set ``generation_kwargs``, too.
    """

    writes = True
    form = AskedInWriting
    asked: AskedInWriting
    useless_settings = MappingProxyType({**Asker.useless_settings, "context_reliance": "likelihoods"})

    def __init__(self, config: Mapping[str, Any], settings: Settings) -> None:
        super().__init__(config, settings)
        if settings.ties != "fail":
            raise NNDError(
                f"task {self.task}: ties={settings.ties} is about likelihoods, and a tie of a {self.asked.reader} fails; "
                "leave it out"
            )
        self.requests_each = self.asked.repeats
        self._generation: Mapping[str, Any] = {**_GENERATION, **(config.get("generation_kwargs") or {})}
        self.overrides = {
            **type(self).overrides,
            "output_type": "generate_until",
            "generation_kwargs": self._generation,
        }
        self._takes_seeds = False

    def add_views(self, documents: Documents) -> Documents:
        """Let a candidate stand once for each question and rival; see `Asker.add_views`."""
        slugs = metric_slugs(test["category"] for document in documents for test in document["tests"])
        of_pairs = ("both_right", "order_flips", "first") if self.asked.is_about_pairs else ()
        self.own_rates = ("pass_rate_half", *(f"pass_rate_half_{slug}" for slug in slugs.values()), "unread", *of_pairs)
        return super().add_views(documents)

    def begin(self, config: Any, counter: BaseCounter, *, takes_seeds: bool) -> None:
        """Take the generation arguments of the run.

        Args:
            config: lm-eval's `TaskConfig`.
            counter: with the model's window.
            takes_seeds: whether the model takes a seed with each request.

        Raises:
            NNDError: answers do not fit the model's window, samples would all be the same, or a rating has exemplars.
        """
        if self.asked.reader == "rating" and config.num_fewshot:
            raise NNDError(
                f"task {self.task}: no rating is known to be right, so it has no exemplars; leave out --num_fewshot"
            )
        # The temperature says whether answers are samples; lm-eval's cache keeps none of a request with this key.
        generation = {key: value for key, value in config.generation_kwargs.items() if key != "do_sample"}
        most, window = generation["max_gen_toks"], counter.window
        aliases = [name for name in ("max_tokens", "max_new_tokens") if generation.get(name) is not None]
        if aliases or not isinstance(most, int) or most < 1:
            raise NNDError(
                f"task {self.task}: generation_kwargs={generation}: expected the most tokens of an answer under max_gen_toks"
            )
        if window is not None and counter.backend == "causal" and most >= window:
            raise NNDError(
                f"task {self.task}: answers of {most:,} tokens leave no room in the model's window of {window:,}; add "
                "--gen_kwargs max_gen_toks=N with a smaller number"
            )
        if self.asked.repeats > 1 and generation["temperature"] == 0:
            raise NNDError(
                f"task {self.task}: {self.asked.repeats} answers at temperature 0 are the same; add --gen_kwargs temperature=1"
            )
        self._generation, self._takes_seeds = generation, takes_seeds and generation.get("seed", 0) is not None
        self.protocol = {**self.protocol, "generation": digest(generation)}

    # ------------------------------------------------------------ requests

    def right_answer(self, doc: Doc) -> str:
        """Give the right answer to the question of an exemplar; a rating has none."""
        if self.asked.reader == "rating":
            return ""
        word = super().right_answer(doc)
        return word if self.asked.ending else f"Answer: {word}"

    def ask(
        self, doc: Doc, indices: Sequence[int], render: Callable[[Any], Prompt], counter: BaseCounter
    ) -> list[tuple[Any, Any]]:
        """Ask about each candidate, as often as answers are wanted: (prompt, generation arguments).

        Where there is none, one request stands for the document. Samples have arguments of their own, by which lm-eval's cache
        tells them apart. A server gets a seed; a model of transformers, and a server that takes no seed, gets a stop sequence
        that nobody writes.
        """
        prompts = [render(view) for view in [{**doc, VIEW: index} for index in indices] or [dict(doc)]]
        until = self._generation["until"]
        stops = [until] if isinstance(until, str) else [*(until or ())]
        numbers = range(self.asked.repeats)
        own: list[dict[str, Any]] = [
            {"seed": i} if self._takes_seeds else {"until": [*stops, f"{SAMPLE}{i}|>"]} for i in numbers
        ]
        if self.asked.repeats == 1 or not indices:
            own = [{}]
        return [
            (str(prompt) if prompt.rendered is None else prompt.rendered, {**self._generation, **arguments})
            for prompt in prompts
            for arguments in own
        ]

    def measure(self, pairs: Sequence[tuple[Any, Any]], counter: BaseCounter) -> list[tuple[int, int, list[str]]]:
        """Count the tokens of prompts, about where there is no tokenizer, and those that answers may have."""
        texts = [prompt if isinstance(prompt, str) else prompt.prompt for prompt, _ in pairs]
        counts = (
            [math.ceil(len(text) / _TOKEN) for text in texts]
            if counter.tokenizer is None
            else [len(counter.tok_encode(text)) + 1 for text in texts]  # lm-eval may put a BOS token before it
        )
        return [(count, answer["max_gen_toks"], []) for count, (_, answer) in zip(counts, pairs, strict=True)]

    # ------------------------------------------------------------ answers

    def collect_answers(self, requests: Sequence[Request], counter: BaseCounter) -> str | None:
        """Put a `WrittenAnswer` in the place of each text, and warn where many cannot be read.

        The run goes on where none can be read: the results of its other tasks are not lost, and these answers are kept.
        """
        unread, answers = [], 0
        for request in requests:
            for name, response in request.filtered_resps.items():
                answer = WrittenAnswer.of(request, response)
                request.filtered_resps[name] = answer
                if answer.candidate is not None:
                    answers += 1
                    if self.asked.read_answer(answer) is None:
                        unread.append(answer)
        if len(unread) > _MANY * answers:
            kinds = Counter(map(_describe_unread, unread)).most_common(3)
            logger.warning(
                "%s: %d of %d answers cannot be read, and their tests fail: %s; the first is %r; ask for a form that "
                "docs/readers.md lists (ending), leave more room (--gen_kwargs max_gen_toks=N), or use the model's chat template",
                self.task,
                len(unread),
                answers,
                "; ".join(f"{count:,} {kind}" for kind, count in kinds),
                str(unread[0])[-300:],
            )
        return None

    def score(self, text: str, answers: Sequence[Any]) -> Likelihood:
        """Take the mean of what was read of a candidate's answers; nan if one of them could not be read."""
        numbers = [math.nan if (value := self.asked.read_answer(answer)) is None else value for answer in answers]
        return Likelihood(math.fsum(numbers) / len(numbers) / (2 if self.asked.is_about_pairs else 1))

    def note(self, answers: Sequence[Any]) -> dict[str, Any]:
        """Keep ``answers``, what the model wrote, and ``read``, what was read of each: null is nothing.

        ``usage`` has for each what a server tells: the numbers of tokens, ``in`` and ``out``, and why it ``ended``.
        """
        return {
            "answers": [str(answer) for answer in answers],
            "read": [self.asked.read_answer(answer) for answer in answers],
            "usage": [answer.usage for answer in answers],
        }

    def count_own(self, doc: Doc, groups: Groups, values: Mapping[str, Any], breakdown: Breakdown) -> dict[str, Counts]:
        """Count tests with a tie as half passed, answers that cannot be read, and what tells whether order or letter decides."""
        records = values["candidates"]
        read = [value for record in records if record for value in record["read"]]
        scored = [test for test in values["tests"] if test["passed"] is not None]
        rates = {"pass_rate_half": _half_credit(scored), "unread": (read.count(None), len(read))}
        for name, (column, value) in breakdown.items():
            if column == "category":
                of_category = [test for test in scored if test["category"] == value]
                rates[name.replace("pass_rate_", "pass_rate_half_", 1)] = _half_credit(of_category)
        if self.asked.is_about_pairs:
            sums = [[records[test[side]]["sum"] for side in ("high", "low")] for test in scored]
            high, low = np.sign(np.array(sums, dtype=float).reshape(-1, 2)).T
            rates["both_right"] = (int(((high == 1) & (low == -1)).sum()), len(scored))
            rates["order_flips"] = (int((high * low == 1).sum()), len(scored))
            rates["first"] = (read.count(1.0), read.count(1.0) + read.count(-1.0))
        return rates


def _describe_unread(answer: WrittenAnswer) -> str:
    """Say in a few words what an answer holds that cannot be read."""
    usage = answer.usage or {}
    ended = f", ended by {usage['ended']}" if usage.get("ended", "stop") not in ("stop", "end_turn") else ""
    if answer.strip():
        return f"have a text without a verdict{ended}"
    return f"have {usage['instead']} and no text{ended}" if "instead" in usage else f"have no text{ended}"


def _half_credit(tests: Sequence[Mapping[str, Any]]) -> Counts:
    """Count tests, a tie as half passed, and all of them."""
    return sum(test["passed"] + test["tie"] / 2 for test in tests), len(tests)


# ---------------------------------------------------------------- what an answer says

# It is read after a mark, never from prose. A mark is ``[[A]]``, ``\boxed{A}``, a key of JSON such as ``"verdict": "A"``, or a
# line such as ``Answer: A``. Only an answer without any mark may say it in a first or last line that is nothing else. Where an
# answer says two things, nothing is read.

_Value = TypeVar("_Value", str, float)

_WORD_KEYS = "answer|verdict|winner|choice|decision|judge?ment"
_NUMBER_KEYS = "answer|verdict|rating|score|grade|judge?ment"
#: What a text may be called before its name: ``Answer: Text A``.
_NOUN = r"(?:(?:text|response|option|candidate|assistant)\s+)?"
#: White space and what Markdown and LaTeX put around a word.
_AROUND = " \t*_`~$\"'“”()[]{}<>"
#: White space within a line.
_SPACE = r"[^\S\n]"
#: Reasoning that is no part of an answer. A chat template may have opened it, so that only its end is there.
_THOUGHTS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_OPEN_THOUGHTS = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\{\s*(?:\\text\w*\{)?([^{}\n]{1,40})\}{1,2}")
_BRACKETS = re.compile(r"\[\[([^\[\]\n]{1,40})\]\]")


def read_word(answer: str, words: Sequence[str]) -> str | None:
    """Read which of some words an answer says, in upper or lower case.

    Args:
        answer: what the model wrote.
        words: those that it may say, as they were asked for.

    Returns:
        One of ``words``; None where none can be read, or several.
    """
    pattern = re.compile(rf"{_NOUN}({'|'.join(map(re.escape, words))})", re.IGNORECASE)
    by_folded = {word.casefold(): word for word in words}

    def interpret(value: str) -> str | None:
        match = pattern.fullmatch(value)
        return by_folded.get(match[1].casefold()) if match else None

    return _read(answer, _WORD_KEYS, interpret)


def read_number(answer: str, lowest: float, highest: float) -> float | None:
    """Read which number on a scale an answer says: ``7``, ``7.5``, ``7/10`` or ``7 out of 10``.

    Args:
        answer: what the model wrote.
        lowest: the lower end of the scale.
        highest: its upper end, which alone may stand after a slash.

    Returns:
        The number; None where none on the scale can be read, or several.
    """
    pattern = re.compile(rf"(-?\d+(?:\.\d+)?)(?:\s*(?:/|out of)\s*{highest:g})?", re.IGNORECASE)

    def interpret(value: str) -> float | None:
        match = pattern.fullmatch(value)
        return float(match[1]) if match and lowest <= float(match[1]) <= highest else None

    return _read(answer, _NUMBER_KEYS, interpret)


def _read(answer: str, keys: str, interpret: Callable[[str], _Value | None]) -> _Value | None:
    answer = _BOXED.sub(r"[[\1]]", _THOUGHTS.sub("", answer))
    if _OPEN_THOUGHTS.search(answer):
        return None
    json_key = re.compile(rf"[\"'](?:{keys})[\"']\s*:\s*([^,}}\n]{{1,40}})", re.IGNORECASE)
    # Up to the colon it is one line, so that the time grows as the answer does.
    line = re.compile(
        rf"^(?:{_SPACE}|[>#*_`\"'“-])*(?:(?:my|the|final|overall){_SPACE}+)*(?:{keys})"
        rf"(?:{_SPACE}+is)?(?:{_SPACE}|[*_`])*[:\uff1a=]\s*([^\n]*)$",
        re.IGNORECASE | re.MULTILINE,
    )
    marked = [_strip(match[1]) for mark in (_BRACKETS, json_key, line) for match in mark.finditer(answer)]
    # After a mark, one word that is no answer contradicts the others; a sentence is no mark.
    values: list[_Value | None] = []
    for text in marked:
        value = interpret(text)
        if value is not None or len(text.split()) == 1:
            values.append(value)
    if not values:
        lines = [line for line in map(_strip, answer.splitlines()) if line]
        said: list[_Value | None] = [interpret(line) for line in lines]
        # Lines between the first and the last one do not count, unless they name another answer: those are headings.
        if any(value is not None for value in [*said[:1], *said[-1:]]):
            values = [value for value in said if value is not None]
    return values[0] if len({*values}) == 1 else None


def _strip(text: str) -> str:
    """Take away what is around a word; a full stop or an exclamation mark may be inside or outside of that."""
    return text.strip(_AROUND).rstrip(".!。").strip(_AROUND)
