"""What results and samples must hold: their types are checked here once, as the files may be of strangers.

Only the parts that are read are declared. Everything else may be there, as long as JSON and UTF-8 can write it again.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from typing_extensions import Self

from nnd_tasks.errors import NNDError, list_mistakes
from nnd_tasks.text import counted

Scalar = str | int | float | bool | None
#: Far above every sum of log-probabilities, and far below what overflows when sums are added.
Nats = Annotated[float, Field(ge=-1e12, le=1e12)]
Count = Annotated[int, Field(ge=0, le=10**12)]
#: How far a mean may be from sum / tokens, relative to it, by rounding.
_CLOSE = 1e-9


class _Checked(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class Score(_Checked):
    """The score of a candidate; ``sum`` and ``mean`` (nats) are null where they are not finite."""

    sum: Nats | None
    mean: Nats | None
    tokens: Annotated[Count, Field(ge=1)]
    bytes: Annotated[Count, Field(ge=1)]
    top1: Count | None = None
    rank: Nats | None = None
    entropy: Nats | None = None
    swapped: Nats | None = None
    mass: Nats | None = None

    @model_validator(mode="after")
    def check_mean(self) -> Self:
        """Raise ValueError where the mean is not the sum per token."""
        if (self.sum is None) != (self.mean is None):
            raise ValueError("sum and mean contradict each other")
        if self.sum is not None and self.mean is not None:
            mean = self.sum / self.tokens
            if abs(mean - self.mean) > _CLOSE * max(abs(mean), 1):
                raise ValueError(f"its mean is {self.mean:.6g}, and its sum per token {mean:.6g}")
        return self


class Test(_Checked):
    """What became of a test; ``high`` and ``low`` are places in the document's candidates."""

    test_id: Annotated[str, Field(min_length=1)]
    category: str
    subcategory: str = ""
    severity: str = ""
    #: Above 1 where an error adds more words than a text has.
    noise_ratio: Annotated[float, Field(ge=0, le=1e6)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    high: Count
    low: Count
    passed: bool | None
    tie: bool


class Mark(_Checked):
    """An error that people marked in a candidate, from character ``start`` to before ``end``."""

    start: Count
    end: Count
    category: str | None
    severity: str | None


class Document(_Checked):
    """A prompt with its candidates."""

    cluster_id: Annotated[str, Field(min_length=1)]
    context: str = ""
    candidates: list[str]
    error_spans: list[list[Mark]] | None = None
    tests: list[dict[str, Any]] | None = None


class Sample(_Checked):
    """A line of a samples file."""

    doc: Document
    candidates: list[Score | None]
    no_context: list[Score | None] | None = None
    tests: list[Test]
    truncated_contexts: Count | None = None

    @model_validator(mode="after")
    def check_places(self) -> Self:
        """Raise ValueError where scores are missing, or a test has a candidate that is not there."""
        texts = len(self.doc.candidates)
        for scores in (self.candidates, self.no_context or self.candidates):
            if len(scores) != texts:
                raise ValueError(f"{counted(len(scores), 'score')} of {counted(texts, 'candidate')}")
        for test in self.tests:
            if max(test.high, test.low) >= texts:
                raise ValueError(f"test {test.test_id} has a candidate that is not there")
        of_document = self.doc.tests if self.doc.tests is not None else [{}] * len(self.tests)
        if len(of_document) != len(self.tests):
            raise ValueError(f"{counted(len(self.tests), 'test')} of {len(of_document)}")
        for test, doc in zip(self.tests, of_document, strict=True):
            fields = {**vars(test), **(test.model_extra or {})}
            if fields | doc != fields and any(doc.get(name, value) != value for name, value in fields.items()):
                raise ValueError(f"test {test.test_id} is not that of the document")
        return self


class Protocol(_Checked):
    """The first part of a signature."""

    __pydantic_extra__: dict[str, Scalar]
    set: str | None = None
    config: str | None = None
    split: str | None = None
    selection: str | None = None
    reader: str | None = None


class Model(_Checked):
    """The second part of a signature."""

    __pydantic_extra__: dict[str, Scalar]
    name: str | None = None
    window: Count | None = None
    trained_on: str | None = None
    arguments: dict[str, Scalar] | None = None


class StoredSignature(_Checked):
    """The signature of a run."""

    line: str
    protocol: Protocol
    model: Model
    environment: dict[str, Scalar]
    spans: str | None = None


class Command(_Checked):
    """The arguments that lm-eval was given."""

    model: str | None = None
    model_args: str | dict[str, Any] | None = None
    batch_size: Scalar = None
    device: str | None = None
    limit: Annotated[float, Field(allow_inf_nan=False)] | None = None
    model_num_parameters: Annotated[int, Field(ge=-1, le=10**18)] | None = None


class TaskResults(BaseModel):
    """What a results file says of one task."""

    model_config = ConfigDict(strict=True)

    signature: StoredSignature
    version: Scalar
    settings: dict[str, Any] | None
    sample: Count | None
    command: Command
    model_name: str | None
    prompts: Count | None


def check_types(model: type[BaseModel], value: Any, location: str, problem: str) -> None:
    """Raise NNDError, with ``location`` and the first wrong part, if a value is not what ``model`` declares.

    Args:
        model: one of this module.
        value: plain JSON.
        location: the file, and the line or the task in it.
        problem: what is then wrong, for the error.
    """
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # half of a character cannot be encoded
        model.model_validate(value)
    except ValidationError as error:
        key, cause = list_mistakes(error)[0]
        message = f"{key:.100}: {cause:.300}" if key else f"{cause:.300}"
        raise NNDError(f"{location}: {problem} ({message}); run the task again") from None
    except ValueError as error:
        raise NNDError(f"{location}: {problem} ({error!s:.300}); run the task again") from None
    except RecursionError:
        raise NNDError(f"{location}: {problem} (its lists and objects are nested too deeply)") from None
