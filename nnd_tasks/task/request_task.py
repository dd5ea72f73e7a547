"""The requests of a document: one for each candidate, with as much of its context as the model's window holds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from nnd_tasks.errors import NNDError
from nnd_tasks.task.base_task import BaseTask
from nnd_tasks.task.request import (
    LEFT_OUT,
    ContextPart,
    OverlongError,
    Prompt,
    Request,
    build_requests,
    shorten,
    split_before_candidate,
)
from nnd_tasks.task.settings import Settings

if TYPE_CHECKING:
    from nnd_tasks.task.lengths import TokenCounter


class RequestTask(BaseTask):
    """A task that makes the requests of its documents, and shortens contexts.

    Attributes:
        settings: of the task.
    """

    settings: Settings
    _metadata: dict[str, Any]
    _model_type: str | None
    _evaluated: bool

    @property
    def counter(self) -> TokenCounter:
        """The tokenizer of the evaluated model, loaded at first use.

        lm-eval's own tests build requests and name no model; then `NoTokenizer` takes its place.
        """
        if not self._evaluated and not {"tokenizer", "pretrained", "model"} & self._metadata.keys():
            from nnd_tasks.task.lengths import NoTokenizer

            return cast("TokenCounter", NoTokenizer())
        return self._token_counter

    @cached_property
    def _token_counter(self) -> TokenCounter:
        from nnd_tasks.task.lengths import TokenCounter  # imports torch and transformers

        return TokenCounter(self._metadata, self._model_type)

    @abstractmethod
    def scorable(self, doc: Mapping[str, Any]) -> list[int]:
        """Return the indices of the candidates that can be scored."""

    def construct_requests(self, doc: Mapping[str, Any], ctx: Prompt | str, **kwargs: Any) -> list[Request]:
        """Return the requests of one document; its context is shortened if they would not fit the model's window.

        With ``context_reliance`` the requests without the context come last.

        Raises:
            NNDError: a candidate has no token of its own, or does not fit with anything of its context.
        """
        identity = self.identity(**kwargs)
        prompt = ctx if isinstance(ctx, Prompt) else Prompt.of(ctx, num_fewshot=0)
        while True:
            try:
                return self._requests_of(doc, prompt, identity)
            except OverlongError as error:
                if error.candidate is None or self.settings.overlong not in ("leave_out", "whole"):
                    raise
                doc = {**doc, LEFT_OUT: [*doc.get(LEFT_OUT, ()), error.candidate]}

    def _requests_of(self, doc: Mapping[str, Any], prompt: Prompt, identity: Mapping[str, Any]) -> list[Request]:
        requests = whole = self._requests("whole", doc, self._pairs(doc, prompt), identity)
        if any(self.counter.overlong(request.prompt_tokens, request.tokens) for request in whole):
            longest = max(whole, key=lambda request: request.prompt_tokens + request.tokens)
            context = self._shorter_context(doc, prompt, longest)
            requests = self._requests("shortened", doc, self._pairs(doc, prompt, context), identity)
        if not self.settings.context_reliance:
            return requests
        without = self._requests("none", doc, self._pairs(doc, prompt, ""), identity)
        if without[0].args == whole[0].args:
            raise NNDError(
                f"task {self.config.task}: context_reliance compares prompts with and without their context, and a prompt of "
                "this task has none; leave it out"
            )
        for request in without:
            request.idx += len(requests)
        return [*requests, *without]

    def _pairs(self, doc: Mapping[str, Any], prompt: Prompt, context: str | None = None) -> list[tuple[str, str]]:
        """Return (prompt, text) of each text to score; with another context, the prompt is rendered again."""
        if context is not None:
            prompt = self.fewshot_context({**doc, "context": context}, **prompt.arguments)
        pairs = self.pairs(doc, str(prompt), chat=prompt.chat)
        return [split_before_candidate(*pair, self.counter) for pair in pairs] if prompt.chat else pairs

    def _requests(
        self, part: ContextPart, doc: Mapping[str, Any], pairs: Sequence[tuple[str, str]], identity: Mapping[str, Any]
    ) -> list[Request]:
        """Return the requests of a document whose prompt has ``part`` of its context, with their token counts."""
        about = {**identity, "doc": doc, "target": self.doc_to_target(doc), "context_part": part}
        return build_requests(pairs, self._owners(doc), about, self.counter)

    def _owners(self, doc: Mapping[str, Any]) -> list[int]:
        """Return the index of the candidate that each of a document's requests is about."""
        return self.scorable(doc)

    def _shorter_context(self, doc: Mapping[str, Any], prompt: Prompt, longest: Request) -> str:
        """Return as much of a document's context as fits beside its longest candidate.

        Raises:
            NNDError: nothing of it fits, or the setting ``overlong`` forbids to shorten it.
        """
        window = f"the model's window of {self.counter.window:,} tokens"
        if (rule := self.settings.overlong) == "refuse" or (rule == "whole" and longest.candidate is not None):
            raise OverlongError(f"{longest.describe()} and its prompt do not fit {window} (overlong={rule})", longest)

        def fits(text: str, which: slice) -> bool:
            return not any(
                self.counter.overlong(*self.counter.lengths(*pair)) for pair in self._pairs(doc, prompt, text)[which]
            )

        context: str | None = doc["context"]  # known not to fit
        one = slice(longest.idx, longest.idx + 1)
        while context:
            context = shorten(context, lambda text: fits(text, one))
            # In the shorter prompt another candidate may have one token more, as tokens merge; then the search goes on.
            if context is not None and fits(context, slice(None)):
                return context
        shots = prompt.arguments["num_fewshot"]
        beside = f" beside {shots} few-shot examples; lower --num_fewshot" if shots else ""
        raise OverlongError(f"{longest.describe()}: {window} has no room for any of its context{beside}", longest)
