"""The one task class that serves every NND set, in the order in which lm-eval calls it.

A document is one prompt with its distinct candidates and the tests between them. Each candidate is one request, however
many tests use it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.api.task import ConfigurableTask

from nnd_tasks import __version__, measures
from nnd_tasks.errors import NNDError
from nnd_tasks.packages import load_optional
from nnd_tasks.schema import Breakdown
from nnd_tasks.task import metrics
from nnd_tasks.task.documents import load_documents
from nnd_tasks.task.reader import Writer, read_reader
from nnd_tasks.task.request import (
    LEFT_OUT,
    PLACEHOLDER,
    ClusterSampler,
    ContextPart,
    Doc,
    OverlongError,
    Prompt,
    Request,
    count_flaws,
    shorten,
    split_before_candidate,
    warn_of_requests,
)
from nnd_tasks.task.sandbox import fill_template
from nnd_tasks.task.settings import READER_KEYS, Settings, check_config, check_places, is_chat_api, plain_metadata
from nnd_tasks.task.signature import Signature, find_model_type
from nnd_tasks.task.task_files import SAMPLER, read_task_yaml

if TYPE_CHECKING:
    from shared_prefix.lengths import BaseCounter

# A name below lm-eval's own logger, so that its verbosity settings apply here too.
logger = logging.getLogger("lm_eval.nnd")


# ---------------------------------------------------------------- what is known after each stage of a run


@dataclass(frozen=True)
class LoadedSet:
    """What `NNDTask.download` knows.

    Attributes:
        origin: ``dataset``, ``config``, ``local`` and ``fingerprint`` of the data, for the results file.
        breakdown: the categories and severities that have rates of their own.
        spans: the rates of error spans, `nnd_tasks.likelihood.span_metrics.SpanMetrics`; None where there are no spans, or no
            token scores.
    """

    origin: dict[str, Any]
    breakdown: Breakdown
    spans: Any


@dataclass(frozen=True)
class ChosenModel:
    """What `NNDTask.prepare` knows.

    Attributes:
        type: what ``--model`` names; None if that is not known.
        rounds_to: the 16-bit type that the model computes in; None if it is wider or not known.
    """

    type: str | None = None
    rounds_to: str | None = None


@dataclass(frozen=True)
class BuiltRequests:
    """What `NNDTask.build_all_requests` knows."""

    tokenization: dict[str, int]  # name of a flaw, or ``empty`` -> number of candidates that have it
    signature: Signature


class NNDTask(ConfigurableTask):  # type: ignore[misc]
    """Near-Negative Distinction: does a model find the better of two candidates likelier (`nnd_tasks.rule`)?

    What a YAML may set under ``metadata:`` is listed in `nnd_tasks.task.settings.Settings`. All templates of a YAML are
    rendered in `nnd_tasks.task.sandbox`; lm-eval itself has no sandbox.

    lm-eval calls a task in this order. What differs between 0.4.13 and 0.5 is said at each method.

    1. ``__init__``, which calls `download`: the set becomes documents, and the first one is rendered to find mistakes.
    2. `prepare`, with `nnd run` and `nnd_tasks.evaluate` only: checks that need the tokenizer and not the model. They load
       the model after this; stock ``lm_eval`` loads it before 1.
    3. ``set_config`` (number of exemplars) and ``set_fewshot_seed``.
    4. `build_all_requests`; for each document of `doc_iterator` `fewshot_context`, which gives a `Prompt`, and
       `construct_requests`, which gives a `Request` for each candidate. A context that is too long is shortened there.
    5. The model answers the requests of all tasks.
    6. `apply_filters`: each request gets its `Answer`.
    7. `process_results` for each document: answers become scores, and scores become passed and failed tests.
    8. `aggregation`: pools the counts of all documents.
    9. `dump_config`, then `higher_is_better`, for the results file.
    """

    # ================================================================ 1. the set becomes documents

    def __init__(self, config: dict[str, Any]) -> None:
        """Build the task from a YAML's configuration, as lm-eval's task factory calls it."""
        check_config(config, ClusterSampler)
        self.metadata: dict[str, Any] = dict(config.get("metadata") or {})
        self.settings = Settings.read(self.metadata)
        metadata = plain_metadata(self.metadata)  # lm-eval copies it into the results
        self.reader: Writer = read_reader(config, self.settings)
        # In a group, 0.5 would put its name before the task's.
        left_out = ("class", "_qualified_name", "variants", *READER_KEYS)
        config = {key: value for key, value in config.items() if key not in left_out}
        config |= {"metadata": metadata, **self.reader.overrides}
        # A fewshot_config in a YAML replaces the one of the YAML that it includes as a whole, with the sampler.
        config["fewshot_config"] = {"sampler": ClusterSampler, **(config.get("fewshot_config") or {})}
        self._prepared = False
        self._evaluated = False  # lm-eval's own tests build requests that no model answers
        self._counter: BaseCounter | None = None
        self.sample_size: int | None = None  # number of prompts of ``--sample``, for the results
        self.model = ChosenModel()
        self.built: BuiltRequests | None = None
        self.rounded_to: str | None = None  # the 16-bit type of the answers, known from `apply_filters` on
        self.pooled = metrics.PooledRecords()
        super().__init__(config=config)
        self.config.filter_list = config.get("filter_list")  # 0.5 puts its own there, and the signature has it
        # Render every template once, as some of them would else fail only after the model is loaded.
        doc, shots = self.eval_docs[0], self.config.fewshot_config
        self.doc_to_text(doc)
        self.doc_to_text(doc, shots.doc_to_text)
        for template in (self.config.gen_prefix, self.config.description, shots.gen_prefix):
            self.resolve_field(doc, template)

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Load the set and group its tests into documents.

        Raises:
            NNDError: the set cannot be built, or is not the one that the YAML declares.
        """
        documents, origin, breakdown = load_documents(self.config, self.settings, dataset_kwargs or {})
        spans = None
        if self.settings.tokens and "error_spans" in documents.features:
            needed_by = f"task {self.config.task}: metadata tokens"
            span_metrics = load_optional("nnd_tasks.likelihood.span_metrics:SpanMetrics", needed_by)
            reliance = self.settings.context_reliance
            errors = [document["error_spans"] for document in documents]
            spans = span_metrics.of(errors, breakdown, context_reliance=reliance)
        self.loaded = LoadedSet(origin, breakdown, spans)
        if self.reader.asks:
            documents = self.reader.add_views(documents)
        self.dataset = {self.config.test_split: documents}

    def scorable(self, doc: Doc) -> list[int]:
        """List the indices of the candidates that can be scored.

        One that is empty or white space has no token to score, unless ``append_eos`` adds one. Others may be left out.
        """
        indices = [i for i, text in enumerate(doc["candidates"]) if self.settings.append_eos or text.strip()]
        return [i for i in indices if i not in doc.get(LEFT_OUT, ()) and self.reader.can_read(doc, i)]

    # ================================================================ 2. before the model is loaded

    def prepare(self, model: Any, *, chat: bool = False) -> None:
        """Tell the task which model will run, and check what can be checked before it is loaded.

        Args:
            model: what ``--model`` names, or a ready-made model.
            chat: whether prompts will go through the chat template.

        Raises:
            NNDError, ModelError: no tokenizer can be loaded, or it cannot do what the run needs.
        """
        self._prepared = self._evaluated = True
        name = model if isinstance(model, str) else getattr(model, "model_type", None)
        self.model = ChosenModel(name)
        self._check_chat(chat=chat)
        # The name of a ready-made model does not tell its precision.
        rounds_to = self.counter.warn_of_rounding() if name and not self.reader.writes else None
        prompt = self.doc_to_text(self.eval_docs[0])
        needed = [name for name in ("tokens", "append_eos", "append_bos") if getattr(self.settings, name)]
        self.counter.check_needs(needed, prompt, self._texts(chat=chat), chat=chat)
        self.model = ChosenModel(name, rounds_to)
        self.reader = self.reader.for_model(reward=self.counter.reward, chat=chat, rounds_to=rounds_to)

    def _check_chat(self, *, chat: bool | None) -> None:
        """Raise NNDError when the BOS token would follow a chat template, or a chat model would write without its own."""
        if not chat and self.reader.writes and getattr(self.counter.tokenizer, "chat_template", None):
            raise NNDError(
                f"task {self.config.task}: the model answers in chats, as its tokenizer has a chat template; add "
                "--apply_chat_template"
            )
        if chat and self.settings.append_bos:
            raise NNDError(
                f"task {self.config.task} puts the BOS token between prompt and candidate, where it would follow the chat "
                "template; leave out --apply_chat_template, or take the task without _gpt2"
            )

    @property
    def counter(self) -> BaseCounter:
        """The tokenizer of the evaluated model, loaded at first use; none in lm-eval's own tests and behind some APIs."""
        if self._counter is None or not self._counter.will_answer:
            from shared_prefix.lengths import make_counter  # imports torch and transformers

            self._counter = make_counter(
                self.metadata,
                self.model.type,
                writes=self.reader.writes,
                chat_api=is_chat_api(self.model.type),
                evaluated=self._evaluated,
            )
        return self._counter

    def _texts(self, *, chat: bool) -> Iterator[str]:
        """Yield the prompts and candidates of the set, after one prompt in the chat template."""
        if chat:
            message = [{"role": "user", "content": self.doc_to_text(self.eval_docs[0])}]
            with suppress(Exception):  # some templates want more than a user's message; lm-eval tells that
                yield self.counter.tokenizer.apply_chat_template(message, tokenize=False)
        for doc in self.eval_docs:
            yield self.doc_to_text(doc)
            yield from self.doc_to_choice(doc)

    # ================================================================ 4. requests: all documents

    def build_all_requests(self, **kwargs: Any) -> None:
        """Build the requests and count their tokens, so that what cannot be scored is found before the model runs.

        Raises:
            NNDError, ModelError: the tokenizer is not known, or a request cannot be scored.
        """
        task = self.config.task
        if kwargs.get("cache_requests"):
            logger.warning(
                "%s: --cache_requests is ignored, it is not keyed by data, prompt or settings; building takes seconds",
                task,
            )
            kwargs |= {"cache_requests": False, "rewrite_requests_cache": False}
        self._check_chat(chat=kwargs.get("apply_chat_template"))
        self._evaluated |= not kwargs.keys() <= {"limit", "samples", "rank", "world_size"}
        if not self.counter.will_answer:
            super().build_all_requests(**kwargs)
            return
        if not self._prepared:
            if self.settings.tokens:
                raise NNDError(
                    "metadata tokens: token scores are kept by `nnd run` and nnd_tasks.evaluate, not by lm_eval itself"
                )
            rounds_to = None if self.reader.writes else self.counter.warn_of_rounding()
            self.model = ChosenModel(find_model_type(), rounds_to)
        if self.reader.writes:
            takes_seeds = "pretrained" not in self.metadata or "vllm" in str(self.model.type)
            self.reader.begin(self.config, self.counter, takes_seeds=takes_seeds)
        super().build_all_requests(**kwargs)
        chosen = self.doc_iterator(rank=0, limit=kwargs.get("limit"), samples=kwargs.get("samples"), world_size=1)
        documents = [doc for _, doc in chosen]
        tokenization = warn_of_requests(self._instances, documents, task, self.counter.window)
        signature = Signature.begin(
            self.loaded.origin,
            self.settings,
            self.config,
            of_reader=self.reader.protocol,
            rendered=self._render_set(),
            chosen=[doc["cluster_id"] for doc in documents],
            seed=getattr(self.sampler, "seed", None),
            options=kwargs,
            tokenizer=self.counter.tokenizer,
        )
        self.built = BuiltRequests(tokenization, signature)
        if self.reader.writes:  # somebody may have to pay for it
            sizes = [(request.prompt_tokens, request.tokens) for request in self._instances]
            given, most = (sum(numbers) for numbers in zip(*sizes, strict=True))
            logger.info(f"{task}: {len(sizes):,} requests, about {given:,} tokens in, at most {most:,} out")

    def _render_set(self) -> list[str]:
        """Render the prompt of every document of the set as plain text, for the signature."""
        shots = self.config.num_fewshot or 0
        system = "\0"  # stands for that of any run, so that the delimiter after it shows
        rendered = []
        for doc in self.eval_docs:
            prefix = self.doc_to_prefix(doc)
            context = super().fewshot_context(doc, num_fewshot=shots, system_instruction=system, gen_prefix=prefix)
            rendered.append(str(context))
        return rendered

    def doc_iterator(self, *, samples: Sequence[int] | None = None, **kwargs: Any) -> Iterable[tuple[int, Any]]:
        """Iterate over the documents of a run with their numbers.

        The number of a document that ``samples`` names is its position there, by which both releases look up its place for
        the samples file. Upstream numbers these documents in the order of the set; 0.5.0.dev1 gives the places themselves,
        and then fails.

        Raises:
            NNDError: ``samples`` is empty, or names a document that is not there.
        """
        if samples is None:
            return super().doc_iterator(**kwargs)  # type: ignore[no-any-return]
        chosen = check_places(samples, len(self.eval_docs), str(self.config.task))
        numbered = [(samples.index(i), self.eval_docs[i]) for i in chosen]
        return islice(numbered, kwargs["rank"], None, kwargs["world_size"])

    # ================================================================ 4. requests: the prompt of a document

    def doc_to_prefix(self, doc: Doc) -> Any:
        """Render ``gen_prefix``, for 0.4.13; 0.5 calls `resolve_field` itself."""
        return self.resolve_field(doc, self.config.gen_prefix)

    def resolve_field(self, doc: Doc, template: str | None = None) -> Any:
        """Render a description, or what an answer begins with (``gen_prefix``); None if the YAML does not set it."""
        if not template:
            return None
        keys = [key for key in ("description", "gen_prefix") if template == getattr(self.config, key)]
        return fill_template(template, doc, f"task {self.config.task}: {[*keys, 'fewshot_config.gen_prefix'][0]}")

    _resolve_field = resolve_field  # the name in 0.5

    def fewshot_context(self, doc: Doc, num_fewshot: int, **kwargs: Any) -> Prompt:
        """Render description, exemplars and prompt; with ``append_bos`` the text of the BOS token comes last."""
        rendered = super().fewshot_context(doc, num_fewshot=num_fewshot, **kwargs)
        chat = getattr(rendered, "prompt", None)  # of lm-eval's `JsonChatStr`
        if not isinstance(rendered, str) and not (self.reader.writes and chat):
            raise NNDError(
                f"task {self.config.task}: with tokenized_requests=False, lm-eval sends chats without rendering them, and no "
                "server gives the likelihood of an answer in a chat; leave out tokenized_requests, or --apply_chat_template"
            )
        bos = self.counter.special_text("bos") if self.settings.append_bos else ""
        prompt = Prompt.of(f"{chat or rendered}{bos}", num_fewshot=num_fewshot, **kwargs)
        prompt.rendered = rendered if chat else None
        return prompt

    def doc_to_text(self, doc: Doc, doc_to_text: Any = None) -> str:
        """Render the prompt, and the question of a reader that asks. Unlike lm-eval, never turn digits into a number."""
        template = self.config.doc_to_text if doc_to_text is None else doc_to_text
        if isinstance(template, str):
            key = "doc_to_text" if template == self.config.doc_to_text else "fewshot_config.doc_to_text"
            prompt = str(fill_template(template, doc, f"task {self.config.task}: {key}"))
        else:
            prompt = str(super().doc_to_text(doc, doc_to_text))
        return f"{prompt}{self.reader.show_question(doc)}" if self.reader.asks else prompt

    def doc_to_target(self, doc: Doc, doc_to_target: Any = None) -> str:
        """Give the right answer of an exemplar."""
        return self.reader.right_answer(doc)

    def doc_to_choice(self, doc: Doc, doc_to_choice: Any = None) -> list[str]:
        """List the texts to score, in the order of `scorable`.

        For a document without any it is a placeholder, because lm-eval needs a request for every document.
        """
        if not self.scorable(doc):
            return [PLACEHOLDER]
        eos = self.counter.special_text("eos") if self.settings.append_eos else ""
        return [f"{self.settings.scored(doc['candidates'][i])}{eos}" for i in self.scorable(doc)]

    # ================================================================ 4. requests: the candidates of a document

    def construct_requests(self, doc: Doc, ctx: Prompt | str, **kwargs: Any) -> list[Request]:
        """Make the requests of one document; its context is shortened if they would not fit the model's window.

        With ``context_reliance`` the requests without the context come last.

        Raises:
            NNDError: a candidate has no token of its own, or does not fit with anything of its context.
        """
        # 0.4.13 gives the document's number in ``metadata`` and reads it there, 0.5 in ``doc_id``, lm-eval's own tests nowhere.
        number = kwargs.get("doc_id")
        if number is None and kwargs.get("metadata"):
            number = kwargs["metadata"][1]
        identity = {"task_name": self.config.task, "doc_id": number, "metadata": (self.config.task, number, 1)}
        prompt = ctx if isinstance(ctx, Prompt) else Prompt.of(ctx, num_fewshot=0)
        while True:
            try:
                return self._fitting_requests(doc, prompt, identity)
            except OverlongError as error:
                if error.candidate is None or self.settings.overlong not in ("leave_out", "whole"):
                    raise
                doc = {**doc, LEFT_OUT: [*doc.get(LEFT_OUT, ()), error.candidate]}

    def _fitting_requests(self, doc: Doc, prompt: Prompt, identity: Mapping[str, Any]) -> list[Request]:
        with_context = requests = self._requests("whole", doc, self._pairs(doc, prompt), identity)
        if any(self.counter.overlong(request.prompt_tokens, request.tokens) for request in with_context):
            longest = max(with_context, key=lambda request: request.prompt_tokens + request.tokens)
            context = self._shorter_context(doc, prompt, longest)
            requests = self._requests("shortened", doc, self._pairs(doc, prompt, context), identity)
        if not self.settings.context_reliance:
            return requests
        without = self._requests("none", doc, self._pairs(doc, prompt, ""), identity)
        if without[0].args == with_context[0].args:
            raise NNDError(
                f"task {self.config.task}: context_reliance compares prompts with and without their context, and a prompt of "
                "this task has none; leave it out"
            )
        for request in without:
            request.idx += len(requests)
        return [*requests, *without]

    def _pairs(self, doc: Doc, prompt: Prompt, context: str | None = None) -> list[tuple[Any, Any]]:
        """Make what a model is given for each candidate: (prompt, text), or what its reader asks; maybe with another context."""
        if context is not None:
            doc = {**doc, "context": context}

        def render_again(view: Doc) -> Prompt:
            return self.fewshot_context(view, **prompt.arguments)

        asked = self.reader.ask(doc, self.scorable(doc), render_again, self.counter)
        if asked:
            return asked
        if context is not None:
            prompt = render_again(doc)
        # As 0.4.13 joins them. 0.5 would leave the delimiter out beside white space.
        prefix = self.config.gen_prefix
        delimiter = "" if prompt.chat and (not prefix or prefix[-1].isspace()) else self.config.target_delimiter
        pairs = [(str(prompt), f"{delimiter}{text}") for text in self.doc_to_choice(doc)]
        return [split_before_candidate(*pair, self.counter) for pair in pairs] if prompt.chat else pairs

    def _requests(
        self,
        context_part: ContextPart,
        doc: Doc,
        pairs: Sequence[tuple[Any, Any]],
        identity: Mapping[str, Any],
    ) -> list[Request]:
        """Make a request of each pair (context, continuation), with its numbers of tokens.

        Raises:
            NNDError: a candidate has no token of its own, or more tokens than the model's window holds.
        """
        requests, target = [], self.doc_to_target(doc)
        measured = self.reader.measure(pairs, self.counter)
        candidates: list[int | None] = [i for i in self.scorable(doc) for _ in range(self.reader.requests_each)]
        for idx, (candidate, pair, numbers) in enumerate(zip(candidates or [None], pairs, measured, strict=True)):
            prompt_tokens, tokens, flaws = numbers
            request = Request(
                "generate_until" if self.reader.writes else "loglikelihood",
                doc,
                pair,
                idx=idx,
                candidate=candidate,
                context_part=context_part,
                prompt_tokens=prompt_tokens,
                tokens=tokens,
                flaws=flaws,
                target=target,
                **identity,
            )
            if not 1 <= tokens <= (self.counter.window or tokens):
                request.refuse(self.counter)
            requests.append(request)
        return requests

    def _shorter_context(self, doc: Doc, prompt: Prompt, longest: Request) -> str:
        """Take as much of a document's context as fits beside its longest candidate.

        Raises:
            NNDError: nothing of it fits, or the setting ``overlong`` forbids to shorten it.
        """
        window = f"the model's window of {self.counter.window:,} tokens"
        rule = self.settings.overlong
        if rule == "refuse" or (rule == "whole" and longest.candidate is not None):
            raise OverlongError(f"{longest.describe()} and its prompt do not fit {window} (overlong={rule})", longest)

        def fits(text: str, which: slice) -> bool:
            pairs = self._pairs(doc, prompt, text)[which]
            return not any(self.counter.overlong(*sizes) for *sizes, _ in self.reader.measure(pairs, self.counter))

        context: str | None = doc["context"]  # does not fit as a whole
        longest_only = slice(longest.idx, longest.idx + 1)
        while context:
            context = shorten(context, lambda text: fits(text, longest_only))
            # In the shorter prompt another candidate may have one token more, as tokens merge; then the search goes on.
            if context is not None and fits(context, slice(None)):
                return context
        shots = prompt.arguments["num_fewshot"]
        beside = f" beside {shots} few-shot examples; lower --num_fewshot" if shots else ""
        raise OverlongError(f"{longest.describe()}: {window} has no room for any of its context{beside}", longest)

    # ================================================================ 6. answers

    def process_instances(self) -> None:
        """Filter the answers and hand the results of `process_results` to lm-eval; only 0.5 calls this.

        0.5 itself would take a metric whose value is a list for one with several values.
        """
        self.apply_filters()
        for scorer in self.scorers:
            results = {}
            for doc_id, group in groupby(self.instances, lambda request: request.doc_id):
                requests = list(group)
                answers = [request.filtered_resps[scorer.name] for request in requests]
                results[doc_id] = self.process_results(requests[0].doc, answers)
            scorer.import_reduced(results)

    def apply_filters(self) -> None:
        """Apply lm-eval's filters, then let the reader make answers of what they give for each request."""
        self._evaluated = True
        super().apply_filters()
        self.rounded_to = self.reader.collect_answers(self._instances, self.counter) or self.model.rounds_to

    # ================================================================ 7. the results of a document

    def process_results(self, doc: Doc, results: Sequence[Any]) -> dict[str, Any]:
        """Compute the metrics of one document; ``candidates`` and ``tests`` carry what ``--log_samples`` writes."""
        values = self.reader.metrics(doc, results, self.loaded.breakdown)
        values |= measures.measure_document(doc["tests"], values["candidates"], self._measures())
        if self.loaded.spans:
            values |= self.loaded.spans.score(doc["candidates"], doc["error_spans"], results, self._unigram)
        return values

    @cached_property
    def _unigram(self) -> Any:
        """See `nnd_tasks.likelihood.scored_tokens.unigram_surprise`; all candidates of the set count, whatever is selected."""
        texts = (f"{self.config.target_delimiter}{text}" for doc in self.eval_docs for text in doc["candidates"])
        return self.loaded.spans.unigram(self.counter.tok_encode(text, add_special_tokens=False) for text in texts)

    # ================================================================ 8. pooling over documents

    def aggregation(self) -> dict[str, Callable[[Any], Any]]:
        """Say how each metric is pooled over documents."""
        return {
            **metrics.aggregations(self._rates(), self._measures()),
            **(self.loaded.spans.aggregations() if self.loaded.spans else {}),
            "tests": self.pooled.count_tests,
            "candidates": self.pooled.count_candidates,
        }

    def _rates(self) -> list[str]:
        rates = metrics.list_rates(self.loaded.breakdown, context_reliance=self.settings.context_reliance)
        of_spans = self.loaded.spans.names if self.loaded.spans else ()
        return [name for name in (*rates, *of_spans) if name not in self.reader.omitted_rates] + [
            *self.reader.own_rates
        ]

    def _measures(self) -> dict[str, tuple[str, str | None]]:
        stats = bool(self.metadata.get("token_stats"))
        return measures.list_measures(self.loaded.breakdown, token_stats=stats) if self.reader.has_measures else {}

    def aggregate(self, bootstrap_iters: int | None = None) -> Any:
        """Pool the results; only 0.5 calls this, and would bootstrap the standard errors of all metrics, which ours have."""
        return super().aggregate(bootstrap_iters=0)

    # ================================================================ 9. the results file

    def dump_config(self) -> dict[str, Any]:
        """Give the configuration for the results file, with what the numbers rest on under ``metadata.nnd``."""
        dumped: dict[str, Any] = super().dump_config()
        dumped["fewshot_config"]["sampler"] = SAMPLER
        # lm-eval's loggers, such as the one of Weights & Biases, read the names of the metrics here.
        counts = ("tests", "candidates", "clusters", "ties", "unscored", "truncated_contexts")
        dumped["metric_list"] = [{"metric": name} for name in (*self._rates(), *self._measures(), *counts)]
        # lm-eval puts the path of the YAML there; 0.5 puts a comma before it.
        source = Path(str(self.metadata.get("config_source", "")).removeprefix(","))
        of_yaml = read_task_yaml(source)[0].get("metadata") if source.is_file() else None
        written, records = Settings.read(of_yaml or {}), self.pooled.candidates
        facts = {
            "version": __version__,
            "normalization": "token",
            **{name: getattr(self.settings, name) for name in ("append_eos", "append_bos", "ties")},
            # What a command must give to ask the same.
            "settings": {name: value for name, value in self.settings if value != getattr(written, name)},
            "rounded_to": self.rounded_to,
            **self.loaded.origin,
            **self.reader.facts,
            **self.pooled.sizes,
            **({} if records is None else {"answers": self.pooled.answers}),
            **({} if self.sample_size is None else {"sample": self.sample_size}),
        }
        if self.built:
            facts["tokenization"] = self.built.tokenization | ({} if records is None else count_flaws(records))
            facts["signature"] = self.built.signature.complete(
                self.metadata,
                self.counter,
                model_type=self.model.type,
                rounded_to=self.rounded_to,
                spans=self.loaded.spans.digest if self.loaded.spans else None,
            )
        dumped["metadata"] = {**dumped.get("metadata", {}), "nnd": facts}
        return dumped

    def higher_is_better(self) -> dict[str, bool]:
        """Say of rates and measures whether higher is better; not of rates that judge no model, and of counts."""
        others = ("survival", "order_flips", "unread", "first")
        rates = {name: True for name in self._rates() if not name.startswith(others)}
        return rates | {name: name.startswith(("margin", "top1")) for name in self._measures()}
