"""The one task class that serves every NND set.

A document is one prompt with its distinct candidates and the tests between them. Each candidate is one request, however
many tests use it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from nnd_tasks import __version__
from nnd_tasks.errors import NNDError
from nnd_tasks.task import metrics
from nnd_tasks.task.documents import cluster_documents, load_tests, sample_of, take_split
from nnd_tasks.task.prompts import ClusterSampler
from nnd_tasks.task.request import (
    LEFT_OUT,
    Answer,
    Prompt,
    check_sums,
    count_flaws,
    document_metrics,
    score_likelihoods,
    score_rewards,
    warn_of_requests,
)
from nnd_tasks.task.request_task import RequestTask
from nnd_tasks.task.sandbox import check_languages
from nnd_tasks.task.settings import (
    READER_KEYS,
    Settings,
    check_bos,
    check_categories,
    check_config,
    check_metadata,
    plain_metadata,
    settings_asked,
)
from nnd_tasks.task.signature import (
    answers_digest,
    chat_digest,
    model_part,
    protocol_part,
    selection,
    whole_signature,
)
from nnd_tasks.task.span_metrics import SpanMetrics, unigram_surprise
from nnd_tasks.task.task_yaml import SAMPLER

# A name below lm-eval's own logger, so that its verbosity settings apply here too.
logger = logging.getLogger("lm_eval.nnd")


class NNDTask(RequestTask):
    """Near-Negative Distinction: does a model find the better of two candidates likelier?

    A test passes when the mean log-likelihood per token of the better candidate is strictly higher (paper, Eq. 1 and 2).
    What a YAML may set under ``metadata:`` is listed in `nnd_tasks.task.settings.Settings`.

    lm-eval calls a task in this order, 0.5 without `doc_to_prefix`:

    1. ``__init__``, which calls `download`: the set becomes documents, and the first one is rendered to find mistakes.
    2. `prepare`, with `nnd run` and `nnd_tasks.evaluate` only: checks that need the tokenizer and not the model. They load
       the model after this; stock ``lm_eval`` loads it before 1.
    3. ``set_config`` (number of exemplars) and ``set_fewshot_seed``.
    4. `build_all_requests`; for each document `doc_to_prefix`, `fewshot_context`, which gives a `Prompt`, and
       `construct_requests`, which gives a `Request` for each candidate. A context that is too long is shortened there.
    5. The model answers the requests of all tasks.
    6. `apply_filters`: each request gets its `Answer`.
    7. `process_results` for each document: answers become scores, and scores become passed and failed tests.
    8. `aggregation`: pools the counts of all documents.
    9. `dump_config`, then `higher_is_better`, for the results file.
    """

    def __new__(cls, config: Mapping[str, Any]) -> NNDTask:
        """Make a `ReaderTask` of a YAML that names another reader than ``writer``."""
        if config.get("reader", "writer") != "writer":
            from nnd_tasks.task.reader_tasks import ReaderTask  # imports this module

            cls = ReaderTask
        return object.__new__(cls)

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Build the task from a YAML's configuration, as lm-eval's task factory calls it."""
        # In a group, 0.5 would put its name before the task's.
        left_out = ("class", "_qualified_name", "variants", *READER_KEYS)
        config = {key: value for key, value in config.items() if key not in left_out}
        check_config(config, ClusterSampler)
        # A fewshot_config in a YAML replaces the one of the YAML that it includes as a whole, with the sampler.
        config["fewshot_config"] = {"sampler": ClusterSampler, **(config.get("fewshot_config") or {})}
        self._metadata: dict[str, Any] = dict(config.get("metadata") or {})
        self.settings = Settings.read(self._metadata)
        #: What the results say of the run under ``metadata.nnd``; what else is known comes with the steps of the run.
        self._facts: dict[str, Any] = {
            "version": __version__,
            "normalization": "token",
            **{name: getattr(self.settings, name) for name in ("append_eos", "append_bos", "ties")},
            "settings": settings_asked(self._metadata),
            "rounded_to": None,
        }
        config["metadata"] = plain_metadata(self._metadata)  # lm-eval copies it into the results
        self._model_type: str | None = None  # what ``--model`` names; stock lm-eval does not pass it to tasks
        self._prepared = False
        self._evaluated = False  # lm-eval's own tests build requests that no model answers
        self._coarse: str | None = None  # the 16-bit type that the model computes in
        self._protocol: dict[str, Any] = {}  # see `protocol_part`
        self._chat_template: str | None = None  # digest of the chat template, if the run uses it
        super().__init__(config=config)
        self.config.filter_list = config.get("filter_list")  # 0.5 puts its own there, and the signature has it
        self.check_templates(self.eval_docs[0])

    # ------------------------------------------------------------ data

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Load the set and group its tests into documents.

        Raises:
            NNDError: the set is not built, or is not the one that the YAML declares.
        """
        path, split = self.config.dataset_path, self.config.test_split
        if not path or not split:
            raise NNDError(f"task {self.config.task}: its YAML must set dataset_path and test_split (include _base)")
        tests, origin, where = load_tests(path, self.config.dataset_name, split, dataset_kwargs or {})
        self._facts |= origin
        about = f"from {where} (config {origin['config']}, fingerprint {origin['fingerprint']})"
        logger.info("%s: %d tests %s", self.config.task, len(tests), about)
        check_languages(self.config.doc_to_text, str(origin["config"]), self.config.task, where)
        check_categories(self.settings.categories, set(tests["category"]), self.config.task, where)
        documents = cluster_documents(take_split(tests, self.settings.split, where), where)
        self.breakdown = metrics.break_down(test for document in documents for test in document["tests"])
        self.dataset = {split: documents}
        self._spans, reliance = None, self.settings.context_reliance
        if self.settings.tokens and "error_spans" in documents.column_names:
            self._spans = SpanMetrics.of(documents["error_spans"], self.breakdown, context_reliance=reliance)

    def scorable(self, doc: Mapping[str, Any]) -> list[int]:
        """Return the indices of the candidates that can be scored.

        One that is empty or white space has no token to score, unless ``append_eos`` adds one. Others may be left out.
        """
        every, out = enumerate(doc["candidates"]), doc.get(LEFT_OUT, ())
        return [i for i, text in every if (self.settings.append_eos or text.strip()) and i not in out]

    def sample(self, count: int) -> list[int]:
        """Return the places of ``count`` documents for lm-eval's ``samples``, see `sample_of`; the results will say ``count``."""
        self._facts["sample"] = count
        return sample_of(self.eval_docs, count)

    # ------------------------------------------------------------ before the model is loaded

    def prepare(self, model: Any, arguments: Mapping[str, Any], *, chat: bool = False) -> None:
        """Tell the task which model will run, and check what can be checked before it is loaded.

        Args:
            model: what ``--model`` names, or a ready-made model.
            arguments: the parsed ``--model_args``.
            chat: whether prompts will go through the chat template.

        Raises:
            NNDError: the metadata contradicts the arguments, no tokenizer can be loaded, or it cannot do what the run needs.
        """
        self._prepared = self._evaluated = True
        check_metadata(self._metadata, model, arguments)
        self._model_type = model if isinstance(model, str) else getattr(model, "model_type", None)
        if self.counter.reward and chat:
            raise NNDError(
                "--model nnd_reward applies the chat template of its model itself; leave out --apply_chat_template"
            )
        self.counter.check(self.settings, self.config.task, self.doc_to_text(self.eval_docs[0]), chat=chat)
        self.counter.check_vocabulary(self._texts(chat=chat))
        # The name of a ready-made model does not tell its precision.
        self._coarse = self.counter.warn_of_rounding() if self._model_type else None

    def _texts(self, *, chat: bool) -> Iterator[str]:
        """Yield the prompts and candidates of the set, after one prompt in the chat template."""
        if chat:
            message = [{"role": "user", "content": self.doc_to_text(self.eval_docs[0])}]
            with suppress(Exception):  # some templates want more than a user's message; lm-eval tells that
                yield self.counter.tokenizer.apply_chat_template(message, tokenize=False)
        for doc in self.eval_docs:
            yield self.doc_to_text(doc)
            yield from self.doc_to_choice(doc)

    # ------------------------------------------------------------ texts

    def doc_to_target(self, doc: Mapping[str, Any], doc_to_target: Any = None) -> str:
        """Return a better candidate, if possible one that is not empty: the target of a few-shot exemplar."""
        better = [str(doc["candidates"][test["high"]]) for test in doc["tests"]]
        return self.settings.scored(next((text for text in better if text.strip()), better[0]))

    def doc_to_choice(self, doc: Mapping[str, Any], doc_to_choice: Any = None) -> list[str]:
        """Return the texts to score, in the order of `scorable`.

        For a document without any it is a placeholder, because lm-eval needs a request for every document.
        """
        if not self.scorable(doc):
            return [metrics.PLACEHOLDER]
        eos = self.counter.special_text("eos") if self.settings.append_eos else ""
        return [f"{self.settings.scored(doc['candidates'][i])}{eos}" for i in self.scorable(doc)]

    @cached_property
    def _unigram(self) -> Any:
        """See `nnd_tasks.task.span_metrics.unigram_surprise`; all candidates of the set count, whatever is selected."""
        texts = (f"{self.config.target_delimiter}{text}" for doc in self.eval_docs for text in doc["candidates"])
        return unigram_surprise(self.counter.tok_encode(text, add_special_tokens=False) for text in texts)

    # ------------------------------------------------------------ requests

    def build_all_requests(self, **kwargs: Any) -> None:
        """Build the requests and count their tokens, so that what cannot be scored is found before the model runs.

        Raises:
            NNDError: the tokenizer is not known, or a request cannot be scored.
        """
        if kwargs.get("cache_requests"):
            logger.warning(
                "%s: --cache_requests is ignored, it is not keyed by data, prompt or settings; building takes seconds",
                self.config.task,
            )
            kwargs |= {"cache_requests": False, "rewrite_requests_cache": False}
        check_bos(self.settings, self.config.task, chat=kwargs.get("apply_chat_template"))
        self._evaluated |= not kwargs.keys() <= {"limit", "samples", "rank", "world_size"}
        if self.counter.tokenizer is None:
            super().build_all_requests(**kwargs)
            return
        if not self._prepared:
            if self.settings.tokens:
                raise NNDError(
                    "metadata tokens: token scores are kept by `nnd run` and nnd_tasks.evaluate, not by lm_eval itself"
                )
            self._coarse = self.counter.warn_of_rounding()
        super().build_all_requests(**kwargs)
        chosen = self.doc_iterator(rank=0, limit=kwargs.get("limit"), samples=kwargs.get("samples"), world_size=1)
        documents = [doc for _, doc in chosen]
        found = [one.flaws for one in self._instances if one.candidate is not None and one.context_part != "none"]
        empty = sum(not text.strip() for doc in documents for text in doc["candidates"])
        flaws = self._facts["tokenization"] = {**count_flaws(found), "empty": empty}
        warn_of_requests(self._instances, self.config.task, self.counter.window, flaws)
        chat = kwargs.get("chat_template") if kwargs.get("apply_chat_template") else None
        self._chat_template = chat_digest(chat, getattr(self.counter.tokenizer, "chat_template", None))
        self._protocol = (
            protocol_part(
                self._facts,
                self.settings,
                self.config,
                rendered=self._rendered(),
                selected=selection((doc["cluster_id"] for doc in documents), len(self.eval_docs)),
                seed=getattr(self.sampler, "seed", None),
                options=kwargs,
            )
            | self._reader_part()
        )

    def _reader_part(self) -> dict[str, Any]:
        """Return what the signature says of the reader; nothing of a writer."""
        return {"reader": "reward"} if self.counter.reward else {}

    def fewshot_context(self, doc: Mapping[str, Any], num_fewshot: int, **kwargs: Any) -> Prompt:
        """Render description, exemplars and prompt; with ``append_bos`` the text of the BOS token comes last."""
        text = super().fewshot_context(doc, num_fewshot=num_fewshot, **kwargs)
        if not isinstance(text, str):
            raise NNDError(
                f"task {self.config.task}: with tokenized_requests=False, lm-eval sends chats without rendering them, and no "
                "server gives the likelihood of an answer in a chat; leave out tokenized_requests, or --apply_chat_template"
            )
        bos = self.counter.special_text("bos") if self.settings.append_bos else ""
        return Prompt.of(f"{text}{bos}", num_fewshot=num_fewshot, **kwargs)

    # ------------------------------------------------------------ results

    def apply_filters(self) -> None:
        """Apply lm-eval's filters, then make an `Answer` of what they give for each request."""
        self._evaluated = True
        super().apply_filters()
        sums: list[float] = []
        counter = self.counter  # raises if requests were built without one
        counter = self.counter  # raises if the requests were built without one
        kept = counter if self.settings.tokens else None
        for request in self._instances:
            for name, response in request.filtered_resps.items():
                request.filtered_resps[name] = answer = Answer.to(request, response, kept)
                sums.append(float(answer[0]))
        self._facts["rounded_to"] = check_sums(sums, self.config.task) or self._coarse

    def process_results(self, doc: Mapping[str, Any], results: Sequence[Answer]) -> dict[str, Any]:
        """Return the metrics of one document; ``candidates`` and ``tests`` carry what ``--log_samples`` writes."""
        score = score_rewards if self.counter.reward else score_likelihoods
        values = document_metrics(doc, results, self.settings, self.breakdown, score)
        if self._spans:
            values |= self._spans.score(doc["candidates"], doc["error_spans"], results, self._unigram)
        return values

    def _rates(self) -> list[str]:
        rates = metrics.list_rates(self.breakdown, context_reliance=self.settings.context_reliance)
        return [*rates, *(self._spans.names if self._spans else ())]

    def aggregation(self) -> dict[str, Callable[[Any], Any]]:
        """Return how each metric is pooled over documents."""
        spans = self._spans.aggregations() if self._spans else {}
        return {
            **metrics.aggregations(self._rates()),
            **spans,
            "tests": self._count_tests,
            "candidates": self._count_candidates,
        }

    def _count_tests(self, items: Sequence[Sequence[Mapping[str, Any]]]) -> int:
        """Return the number of scored tests, and keep those of each category and severity for `dump_config`.

        With several processes, this is the only place where the records of all documents come together.
        """
        self._facts |= {
            "categories": metrics.sizes_by("category", items),
            "severities": metrics.sizes_by("severity", items),
        }
        return metrics.count_scored(items)

    def _count_candidates(self, items: Sequence[Sequence[Mapping[str, Any] | None]]) -> int:
        """Return the number of scored candidates, and keep how many of them have flaws, and the digest of all answers."""
        self._facts["tokenization"] |= count_flaws(record for records in items for record in records if record)
        self._facts["answers"] = answers_digest(record for records in items for record in records)
        return metrics.count_present(items)

    @property
    def answers(self) -> str:
        """The digest of the answers, which tells the files of the run from others; known from `aggregation` on."""
        return str(self._facts["answers"])

    def higher_is_better(self) -> dict[str, bool]:
        """Return the direction of each rate; counts have none."""
        return {name: True for name in self._rates() if not name.startswith("survival")}

    # ------------------------------------------------------------ the results file

    def _rendered(self) -> list[str]:
        """Return the prompt of every document of the set, as plain text."""
        shots = self.config.num_fewshot or 0
        return [
            # "\0" stands for the system instruction of any run, so that the delimiter after it shows.
            str(
                super(NNDTask, self).fewshot_context(
                    doc, shots, system_instruction="\0", gen_prefix=self.doc_to_prefix(doc)
                )
            )
            for doc in self.eval_docs
        ]

    def dump_config(self) -> dict[str, Any]:
        """Return the configuration for the results file, with what the numbers rest on under ``metadata.nnd``."""
        dumped: dict[str, Any] = super().dump_config()
        dumped["fewshot_config"]["sampler"] = SAMPLER
        # lm-eval's loggers, such as the one of Weights & Biases, read the names of the metrics here.
        names = [*self._rates(), "tests", "candidates", "clusters", "ties", "unscored", "truncated_contexts"]
        dumped["metric_list"] = [{"metric": name} for name in names]
        facts = dict(self._facts)
        if self._protocol:  # known from `build_all_requests` on
            model = {
                "type": self._model_type,
                **model_part(self._metadata, self.counter),
                "chat_template": self._chat_template,
                "rounded_to": self._facts["rounded_to"],
            }
            facts["signature"] = whole_signature(self._protocol, model, self._spans.digest if self._spans else None)
        dumped["metadata"] = {**dumped.get("metadata", {}), "nnd": facts}
        return dumped
