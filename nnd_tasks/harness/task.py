"""The one task class that serves every NND set.

A document is a cluster: one prompt, its distinct candidates, the tests between them. Each candidate is one request,
however many tests use it.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from lm_eval import utils
from lm_eval.api.task import ConfigurableTask

from nnd_tasks import __version__
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.harness import metrics
from nnd_tasks.harness.documents import cluster_documents, load_tests
from nnd_tasks.harness.lengths import TokenCounter, warn_once
from nnd_tasks.harness.prompts import ClusterSampler, Settings, check_config
from nnd_tasks.harness.signature import (
    chat_digest,
    digest,
    environment,
    line,
    model_part,
    protocol_part,
    selection,
)
from nnd_tasks.harness.truncation import Fitter
from nnd_tasks.schema import LANGUAGES, language_pair
from nnd_tasks.secrets import without_secrets
from nnd_tasks.wording import did_you_mean

# A name below lm-eval's own logger, so that its settings for verbosity hold for us too.
logger = logging.getLogger("lm_eval.nnd")

#: What is scored, and ignored, for a document whose candidates are all empty.
_PLACEHOLDER = "."

#: Keys of the metadata that say which model runs and how it tokenizes.
_OF_THE_MODEL = {
    *("pretrained", "model", "peft", "revision", "subfolder", "gguf_file", "base_url", "backend"),
    *(
        "tokenizer",
        "tokenizer_backend",
        "use_fast_tokenizer",
        "add_bos_token",
        "prefix_token_id",
        "custom_prefix_token_id",
    ),
    *("max_length", "max_model_len", "context_length"),
}

#: A comment in a template: the languages that its words are for, such as ``{# languages: en-de #}``. It goes where the
#: template goes, so a YAML that includes another and sets a prompt of its own has no such comment.
_LANGUAGES = re.compile(r"\{#-?\s*languages:\s*(\w+)-(\w+)\s*-?#\}")

_BOS_AND_CHAT = (
    "task {task} puts the BOS token between prompt and candidate, where it would follow the chat template; leave out "
    "--apply_chat_template, or take the task without _gpt2"
)


def _sandbox() -> ImmutableSandboxedEnvironment:
    """Return lm-eval's template environment, without the way from a template to Python's internals."""
    found = ImmutableSandboxedEnvironment(
        loader=jinja2.BaseLoader(), undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    found.filters.update(utils.env.filters)
    return found


#: All templates of a task's YAML are rendered in it; `nnd check` puts it in the place of ``lm_eval.utils.env`` besides.
SANDBOX = _sandbox()


@lru_cache(maxsize=64)
def _compiled(template: str) -> jinja2.Template:
    return SANDBOX.from_string(template)


class NNDTask(ConfigurableTask):  # type: ignore[misc]
    """Near-Negative Distinction: does a model find the better of two human-judged candidates likelier?

    A test passes when the mean log-likelihood per token of the better candidate is strictly higher (paper, Eq. 1 and 2).
    What a YAML may set under ``metadata:`` is listed in `nnd_tasks.harness.prompts.Settings`.
    """

    def __init__(
        self,
        data_dir: str | None = None,
        cache_dir: str | None = None,
        download_mode: Any = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Build the task from a YAML's configuration, as lm-eval's task factory calls it."""
        config = {key: value for key, value in (config or {}).items() if key != "class"}
        check_config(config)
        # A YAML that sets fewshot_config replaces that of the base as a whole.
        config["fewshot_config"] = {"sampler": ClusterSampler, **(config.get("fewshot_config") or {})}
        known = config.get("metadata") or {}
        self._metadata: dict[str, Any] = dict(known)
        self.settings = Settings.read(known)
        # Models and tokenizers passed as Python objects, and secrets, would be copied into the results.
        config["metadata"] = without_secrets({key: value for key, value in known.items() if _is_plain(value)}, None)
        self._counter: TokenCounter | None = None
        self.model_type: str | None = None  #: what ``--model`` names; stock lm-eval does not tell its tasks
        self.ready_made = False  #: the model is a Python object, which may sum otherwise than its name says
        self._fitter: Fitter | None = None
        self._rendering: tuple[int, dict[str, Any]] = (0, {})  # how the harness asked for the latest prompt
        self._protocol: dict[str, Any] = {}
        self._chat_template: str | None = None
        self._sizes: dict[str, dict[str, dict[str, int]]] = {}
        self._precision: str | None = None
        super().__init__(data_dir, cache_dir, download_mode, config=config)
        first = self.eval_docs[0]  # lm-eval tries its prompt; the other templates would fail after the model is loaded
        self.doc_to_text(first, self.fewshot_cfg.doc_to_text)
        self.doc_to_prefix(first)
        for template in (self.config.description, self.fewshot_cfg.gen_prefix):
            self.resolve_field(first, template)
        self._metric_fn_list: dict[str, Any] = {}  # the harness's defaults for multiple choice; ours depend on the data

    # ------------------------------------------------------------ data

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Load the set and group its tests into documents.

        Raises:
            NNDError: the set is not built, or is not the one that the YAML declares.
        """
        path, split = self.config.dataset_path, self.config.test_split
        if not path or not split:
            raise NNDError(f"task {self.config.task}: its YAML must set dataset_path and test_split (include _base)")
        tests, self._origin, where = load_tests(path, self.config.dataset_name, split, dataset_kwargs or {})
        logger.info(
            "%s: %d tests from %s (config %s, fingerprint %s)",
            self.config.task,
            len(tests),
            where,
            self._origin["config"],
            self._origin["fingerprint"],
        )
        self._check_languages(str(self._origin["config"]), where)
        self._check_categories(set(tests["category"]), where)
        documents = cluster_documents(tests, where)
        self.breakdown = metrics.Breakdown.of(test for document in documents for test in document["tests"])
        self.dataset = {split: documents}

    def _check_languages(self, config: str, where: str) -> None:
        template = self.config.doc_to_text
        declared = _LANGUAGES.search(template) if isinstance(template, str) else None
        found = language_pair(config)
        if declared is None or found is None or found == declared.groups():
            return
        source, target = (LANGUAGES[code] for code in found)
        raise NNDError(
            f"task {self.config.task}: its prompt is for {'-'.join(declared.groups())}, {where} config {config} is "
            f"{'-'.join(found)}; set a prompt of your own in the YAML: "
            f'doc_to_text: "{source}: {{{{context}}}}\\n{target}:"'
        )

    def _check_categories(self, found: set[str], where: str) -> None:
        declared = self.settings.categories
        if declared is None:
            return
        unknown, absent = sorted(found - set(declared)), sorted(set(declared) - found)
        if unknown or absent:
            parts = [f"has the undeclared categories {unknown}"] * bool(unknown) + [
                f"lacks the declared {absent}"
            ] * bool(absent)
            raise NNDError(
                f"{where} {' and '.join(parts)}; task {self.config.task} is made for other data. Set "
                "`metadata: {version: 1-A}` in a YAML of your own to take them as found"
            )

    def scorable(self, doc: Mapping[str, Any]) -> list[int]:
        """Return the indices of the candidates that have anything to score.

        One that is empty, or white space only, has nothing but the EOS token of ``append_eos``.
        """
        return [i for i, text in enumerate(doc["candidates"]) if self.settings.append_eos or text.strip()]

    # ------------------------------------------------------------ prompts and requests

    @property
    def counter(self) -> TokenCounter:
        """The tokenizer of the evaluated model, loaded at first use."""
        if self._counter is None:
            self._counter = TokenCounter(self._metadata, self.model_type)
        return self._counter

    def check_metadata(self, model: Any, arguments: Mapping[str, Any]) -> None:
        """Refuse settings that say something else of the model than its arguments do.

        Args:
            model: what ``--model`` names, or a model.
            arguments: the parsed ``--model_args``.

        Raises:
            NNDError: tokens would be counted, or contexts shortened, for another model than the one that runs.
        """
        own = isinstance(model, str) and model.startswith("hf")  # it takes all of these as arguments
        for key in sorted(_OF_THE_MODEL & set(self._metadata)):
            value = self._metadata[key]
            if (own or key in arguments) and value != arguments.get(key) and isinstance(model, str):
                raise NNDError(
                    f"metadata {key}={value!r} is not what the model gets ({arguments.get(key)!r}); give it in --model_args"
                )
        settings = [field.name for field in fields(Settings)]
        for key in sorted(set(self._metadata) - set(settings) - set(arguments)):
            if meant := did_you_mean(key, settings, cutoff=0.7):
                raise NNDError(f"metadata {key!r}: no setting of NND tasks; {meant}")

    def check_tokenizer(self, *, chat: bool = False) -> None:
        """Load the tokenizer and look for what the run needs of it, before the model is loaded.

        Args:
            chat: whether prompts will go through the chat template.

        Raises:
            NNDError: no tokenizer is named, it cannot be loaded, it lacks a token or template, or it appends a token to
                every text, so that a model would be asked for something else than the candidates.
        """
        counter = self.counter
        for needed, which in ((self.settings.append_eos, "eos"), (self.settings.append_bos, "bos")):
            if needed:
                counter.special_text(which)
        if chat and self.settings.append_bos:
            raise NNDError(_BOS_AND_CHAT.format(task=self.config.task))
        if chat and getattr(counter.tokenizer, "chat_template", None) is None:
            raise NNDError(
                f"the tokenizer {counter.name} has no chat template; leave out --apply_chat_template, or name the "
                "tokenizer of a chat model with tokenizer=... in --model_args"
            )
        if not chat:  # whether prompts can be told from candidates
            counter.lengths(self.doc_to_text(self.eval_docs[0]), " a")
        self._warn_of_rounding()

    def _warn_of_rounding(self) -> None:
        """Say before the model runs what `apply_filters` would find after it."""
        if (coarse := self.counter.rounds_to) and not self.ready_made:
            warn_once(
                f"with --model hf the log-likelihoods of {self.counter.name} will be rounded to {coarse}, which makes ties and "
                "wrong outcomes; add softmax_dtype=float32 to --model_args"
            )

    def doc_to_text(self, doc: Mapping[str, Any], doc_to_text: Any = None) -> str:
        """Render the prompt; unlike the harness, never read a prompt of digits as a number.

        Raises:
            NNDError: the template names a field that the set does not have.
        """
        template = self.config.doc_to_text if doc_to_text is None else doc_to_text
        if not isinstance(template, str):
            return str(super().doc_to_text(doc, doc_to_text))
        key = "doc_to_text" if template == self.config.doc_to_text else "fewshot_config.doc_to_text"
        return str(self._render(key, template, doc))

    def doc_to_prefix(self, doc: Mapping[str, Any]) -> Any:
        """Render ``gen_prefix``, what the answer begins with; None where there is none."""
        template = self.config.gen_prefix
        return None if template is None else self._render("gen_prefix", template, doc)

    def resolve_field(self, doc: Mapping[str, Any], field: str | None = None) -> Any:
        """Render a description or a prefix of exemplars, where lm-eval would render it without a sandbox."""
        if not field:
            return None
        key = next((key for key in ("description", "gen_prefix") if field == getattr(self.config, key)), None)
        rendered: str | None = self._render(key or "fewshot_config.gen_prefix", field, doc)
        return rendered

    def _render(self, key: str, template: Any, doc: Mapping[str, Any]) -> Any:
        """Return a field of a document, or a template filled with its fields; from a YAML of whatever origin.

        Raises:
            NNDError: the template reaches into Python, is none, or names a field that the set does not have.
        """
        where = f"task {self.config.task}: {key}"
        if not isinstance(template, str):
            raise NNDError(f"{where} is {template!r}; expected text")
        if template in doc:
            return doc[template]
        try:
            return str(_compiled(template).render(**doc))
        except SecurityError as error:
            raise NNDError(f"{where} is unsafe, it reaches into Python: {error}") from error
        except MemoryError:
            raise  # no mistake of naming; `nnd check` says what it means
        except Exception as error:  # a template can divide by zero
            fields = ", ".join(name for name in doc if name not in ("tests", "candidates"))
            raise NNDError(f"{where}: {reason_of(error)} (fields of this set: {fields})") from error

    def doc_to_target(self, doc: Mapping[str, Any], doc_to_target: Any = None) -> str:
        """Return a better candidate, not an empty one if there is another: the target of a few-shot exemplar."""
        better = [str(doc["candidates"][test["high"]]) for test in doc["tests"]]
        return self.settings.candidate_prefix + next((text for text in better if text.strip()), better[0])

    def doc_to_choice(self, doc: Mapping[str, Any], doc_to_choice: Any = None) -> list[str]:
        """Return the texts to score, in the order of `scorable`; one to be ignored where there is none.

        The harness cannot have a document without a request.
        """
        if not self.scorable(doc):
            return [_PLACEHOLDER]
        eos = self.counter.special_text("eos") if self.settings.append_eos else ""
        return [f"{self.settings.candidate_prefix}{doc['candidates'][i]}{eos}" for i in self.scorable(doc)]

    def fewshot_context(self, doc: Mapping[str, Any], num_fewshot: int, **kwargs: Any) -> str:
        """Render description, exemplars and prompt; with ``append_bos`` the BOS text comes last."""
        self._rendering = (num_fewshot, kwargs)
        context = str(super().fewshot_context(doc, num_fewshot=num_fewshot, **kwargs))
        return context + self.counter.special_text("bos") if self.settings.append_bos else context

    @property
    def fitter(self) -> Fitter:
        """What counts tokens and shortens contexts in this run."""
        if self._fitter is None:
            self._fitter = Fitter(self.config.task, self.counter, refuse=self.settings.overlong == "refuse")
        return self._fitter

    def construct_requests(self, doc: Mapping[str, Any], ctx: str, **kwargs: Any) -> list[Any]:
        """Return the requests of one document, its context shortened where the prompt would not fit the model's window.

        Raises:
            NNDError: a candidate has no token of its own, or does not fit with anything of its context.
        """
        shots, rendering = self._rendering
        plain = super().construct_requests

        def build(context: str | None) -> list[Any]:
            prompt = ctx if context is None else self.fewshot_context({**doc, "context": context}, shots, **rendering)
            return list(plain(doc, prompt, **kwargs))

        def used_by(request: int) -> str:
            request %= len(self.doc_to_choice(doc))
            using = [test["test_id"] for test in doc["tests"] if request in self._used(doc, test)]
            return str(using[0] if using else doc["tests"][0]["test_id"])

        instances = self.fitter.fit(doc, build, used_by, shots)
        if not self.settings.context_reliance:
            return instances
        bare = build("")
        if bare[0].args == build(None)[0].args:
            raise NNDError(
                f"task {self.config.task}: context_reliance compares prompts with and without their context, and a prompt of "
                "this task has none; leave it out"
            )
        for instance in bare:
            instance.idx += len(instances)
        return [*instances, *self.fitter.count(bare, used_by)]

    def build_all_requests(self, **kwargs: Any) -> None:
        """Build the requests and count their tokens, before the model runs: what cannot be scored shows up at once.

        Raises:
            NNDError: the tokenizer is not known, or a request cannot be scored.
        """
        if kwargs.get("cache_requests"):
            logger.warning(
                "%s: --cache_requests is ignored, it is not keyed by data, prompt or settings; building takes seconds",
                self.config.task,
            )
            kwargs |= {"cache_requests": False, "rewrite_requests_cache": False}
        if self.settings.append_bos and kwargs.get("apply_chat_template"):
            raise NNDError(_BOS_AND_CHAT.format(task=self.config.task))
        self._fitter = None
        self._warn_of_rounding()
        super().build_all_requests(**kwargs)
        if self.fitter.shortened:
            logger.warning(
                "%s: %d contexts lost their end to fit the model's window of %d tokens",
                self.config.task,
                len(self.fitter.shortened),
                self.counter.window,
            )
        chat = kwargs.get("chat_template") if kwargs.get("apply_chat_template") else None
        self._chat_template = chat_digest(chat, getattr(self.counter.tokenizer, "chat_template", None))
        chosen = self.doc_iterator(rank=0, limit=kwargs.get("limit"), samples=kwargs.get("samples"), world_size=1)
        self._protocol = protocol_part(
            self._origin,
            self.settings,
            self.config,
            rendered=self._rendered(),
            seed=getattr(self.sampler, "seed", None) if self.config.num_fewshot else None,
            selected=selection((doc["cluster_id"] for _, doc in chosen), len(self.eval_docs)),
            **{key: kwargs.get(key) for key in ("system_instruction", "apply_chat_template", "fewshot_as_multiturn")},
        )

    def _rendered(self) -> list[str]:
        """Return the prompt of every document of the set, as plain text."""
        shots = self.config.num_fewshot or 0
        return [
            # The system instruction stands for whatever one a run may have: it shows the delimiter after it.
            str(
                super(NNDTask, self).fewshot_context(
                    doc, shots, system_instruction="\0", gen_prefix=self.doc_to_prefix(doc)
                )
            )
            for doc in self.eval_docs
        ]

    def signature(self) -> dict[str, Any]:
        """Return what the numbers rest on: see `nnd_tasks.harness.signature`; for use after `build_all_requests`."""
        model = {
            "type": self.model_type,
            **model_part(self._metadata, [field.name for field in fields(Settings)], self.counter),
            "chat_template": self._chat_template,
            "rounded_to": self._precision,
        }
        packages = dict(environment())
        return {
            "line": line(self._protocol, model, packages),
            "protocol": self._protocol,
            "protocol_digest": digest(self._protocol),
            "model": model,
            "environment": packages,
        }

    def _used(self, doc: Mapping[str, Any], test: Mapping[str, Any]) -> list[int]:
        """Return which requests of the document a test needs."""
        scorable = self.scorable(doc)
        return [scorable.index(i) for i in (test["high"], test["low"]) if i in scorable]

    # ------------------------------------------------------------ results

    def apply_filters(self) -> None:
        """Apply the harness's filters, then add the number of tokens to each answer: (sum, is_greedy, tokens)."""
        super().apply_filters()
        totals: list[float] = []
        for instance in self._instances:
            tokens = self.fitter.tokens[instance.doc_id, instance.idx]
            for name, answer in instance.filtered_resps.items():
                instance.filtered_resps[name] = (*answer[:2], tokens)
                totals.append(float(answer[0]))
        if len(totals) >= metrics.ENOUGH and not any(totals):
            raise NNDError(
                f"task {self.config.task}: every log-likelihood is 0: the server does not give the log-probabilities of the "
                "prompt (it must answer echo=true with logprobs); see docs/backends.md"
            )
        self._precision = metrics.coarse_precision(totals)
        if self._precision:
            logger.warning(
                "%s: the log-likelihoods are rounded to %s, which makes ties and wrong outcomes; add "
                "softmax_dtype=float32 to --model_args",
                self.config.task,
                self._precision,
            )
        broken = sum(not math.isfinite(total) for total in totals)
        if broken:
            logger.warning(
                "%s: %d of %d log-likelihoods are infinite or no number; tests with nan count as unscored",
                self.config.task,
                broken,
                len(totals),
            )

    def process_results(self, doc: Mapping[str, Any], results: Sequence[tuple[float, bool, int]]) -> dict[str, Any]:
        """Return the metrics of one cluster; ``candidates`` and ``tests`` carry what ``--log_samples`` writes."""
        half = len(results) // 2 if self.settings.context_reliance else len(results)
        scores = self._scores(doc, results[:half])
        alone = self._scores(doc, results[half:]) if self.settings.context_reliance else None
        written = {"candidates": _records(scores), **({} if alone is None else {"no_context": _records(alone)})}
        if "bypass" in self._metric_fn_list:  # --predict_only
            return {"bypass": None, **written}
        return {
            **metrics.score_document(doc["tests"], scores, self.breakdown, ties=self.settings.ties, alone=alone),
            "truncated_contexts": int(doc["cluster_id"] in self.fitter.shortened),
            **written,
        }

    def _scores(self, doc: Mapping[str, Any], results: Sequence[tuple[float, bool, int]]) -> list[metrics.Score | None]:
        """Return the score of each candidate; None for one that could not be scored."""
        scores: list[metrics.Score | None] = [None] * len(doc["candidates"])
        scorable = self.scorable(doc)
        for i, (total, _, tokens) in zip(scorable, results if scorable else [], strict=True):
            size = len((self.settings.candidate_prefix + doc["candidates"][i]).encode("utf-8"))
            scores[i] = metrics.Score(float(total), tokens, max(size, 1))
        return scores

    def _rates(self) -> list[str]:
        rates = [f"pass_rate{suffix}" for suffix in metrics.NORMALIZATIONS] + list(self.breakdown.selectors)
        return rates + (list(metrics.reliance_rates(self.breakdown)) if self.settings.context_reliance else [])

    def aggregation(self) -> dict[str, Callable[[Any], Any]]:
        """Return how each metric is pooled over documents."""

        def tests(items: Sequence[Sequence[Mapping[str, Any]]]) -> int:
            self._sizes = {
                "categories": metrics.sizes_by("category", items),
                "severities": metrics.sizes_by("severity", items),
            }
            return metrics.count_scored(items)

        functions: dict[str, Callable[[Any], Any]] = {}
        for name in self._rates():
            functions[name] = metrics.aggregate_rate
            functions[f"{name}_stderr"] = metrics.aggregate_stderr
        return functions | {
            "tests": tests,
            "candidates": _count,
            "no_context": _count,
            "clusters": sum,
            "ties": sum,
            "unscored": sum,
            "truncated_contexts": sum,
            "bypass": lambda items: metrics.UNDEFINED,
        }

    def _metrics(self) -> list[str]:
        if "bypass" in self._metric_fn_list:  # --predict_only
            return ["bypass"]
        return [*self._rates(), "tests", "candidates", "clusters", "ties", "unscored", "truncated_contexts"]

    def higher_is_better(self) -> dict[str, bool]:
        """Return the direction of each rate; counts have none."""
        return {name: True for name in self._rates() if not name.startswith("survival")}

    def dump_config(self) -> dict[str, Any]:
        """Return the configuration for the results file, with what the numbers rest on under ``metadata.nnd``."""
        dumped: dict[str, Any] = super().dump_config()
        sampler = dumped["fewshot_config"]["sampler"]
        if isinstance(sampler, type):
            dumped["fewshot_config"]["sampler"] = f"{sampler.__module__}.{sampler.__qualname__}"
        # Loggers of lm-eval read the metrics here; a list in the YAML would be refused, the names depend on the data.
        dumped["metric_list"] = [{"metric": name} for name in self._metrics()]
        dumped["metadata"] = {
            **dumped.get("metadata", {}),
            "nnd": {
                "version": __version__,
                **self._origin,
                "normalization": "token",
                "append_eos": self.settings.append_eos,
                "append_bos": self.settings.append_bos,
                "ties": self.settings.ties,
                "rounded_to": self._precision,
                **self._sizes,
                **({"signature": self.signature()} if self._protocol else {}),
            },
        }
        return dumped


def _count(items: Sequence[Sequence[Any]]) -> int:
    return sum(record is not None for records in items for record in records)


def _records(scores: Sequence[metrics.Score | None]) -> list[dict[str, Any] | None]:
    """Return what ``--log_samples`` writes of the candidates."""
    return [
        {"sum": _finite(score.total), "mean": _finite(score.mean), "tokens": score.tokens, "bytes": score.size}
        if score
        else None
        for score in scores
    ]


def _finite(value: float) -> float | None:
    """Return ``value``, or None where JSON has no number for it."""
    return value if math.isfinite(value) else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, (str, int, float, bool))
