"""The one task class that serves every NND set.

A document is a cluster: one prompt, its distinct candidates, the tests between them. Each candidate is one request,
however many tests use it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import datasets
import jinja2
from lm_eval import utils
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from nnd_tasks import __version__
from nnd_tasks.datasets import find_dataset, list_configs, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.harness import metrics
from nnd_tasks.harness.lengths import TokenCounter
from nnd_tasks.harness.prompts import Settings
from nnd_tasks.schema import DOCUMENT_COLUMNS, RESERVED_COLUMNS
from nnd_tasks.tables import check_table, fingerprint

# A name below lm-eval's own logger, so that its settings for verbosity hold for us too.
logger = logging.getLogger("lm_eval.nnd")

_TEST_KEYS = ("test_id", "category", "subcategory", "severity", "high_first")


def cluster_documents(tests: datasets.Dataset, where: str) -> datasets.Dataset:
    """Turn a table with one test per row into one document per cluster, in the order of first appearance.

    Args:
        tests: rows of the dataset schema.
        where: what to name in an error.

    Returns:
        A dataset with ``cluster_id``, ``context``, the prompt fields (all further columns that are constant within every
        cluster), ``candidates`` (distinct texts, in the order of the source) and ``tests`` (``high`` and ``low`` are
        indices into ``candidates``).

    Raises:
        NNDError: tests of one cluster have different contexts, or a prompt field has a reserved name.
    """
    extra = [name for name in tests.column_names if name not in RESERVED_COLUMNS]
    clash = DOCUMENT_COLUMNS & set(extra)
    if clash:
        raise NNDError(f"{where}: a column cannot be called {min(clash)!r}, documents use that name; rename it")
    documents: dict[str, dict[str, Any]] = {}
    positions: dict[str, dict[str, int]] = {}
    varying: set[str] = set()
    for row in tests.to_list():
        key = row["cluster_id"]
        if key not in documents:
            documents[key] = {
                "cluster_id": key,
                **{name: row[name] for name in ("context", *extra)},
                "candidates": [],
                "tests": [],
            }
            positions[key] = {}
        document, position = documents[key], positions[key]
        if document["context"] != row["context"]:
            raise NNDError(f"{where}: test {row['test_id']} has another context than the rest of its cluster {key}")
        varying.update(name for name in extra if document[name] != row[name])
        for text in (row["high"], row["low"]) if row["high_first"] else (row["low"], row["high"]):
            if text not in position:
                position[text] = len(position)
                document["candidates"].append(text)
        test = {name: row.get(name) if row.get(name) is not None else "" for name in _TEST_KEYS}
        document["tests"].append({**test, "high": position[row["high"]], "low": position[row["low"]]})
    for document in documents.values():
        for name in varying:
            del document[name]
    return datasets.Dataset.from_list(list(documents.values()))


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
        known = config.get("metadata") or {}
        self._metadata: dict[str, Any] = dict(known)
        self.settings = Settings.read(known)
        # Models and tokenizers passed as Python objects would be copied into the results.
        config["metadata"] = {key: value for key, value in known.items() if _is_plain(value)}
        self._counter: TokenCounter | None = None
        self._sizes: dict[str, dict[str, int]] = {}
        self._unscorable = 0
        super().__init__(data_dir, cache_dir, download_mode, config=config)
        self._metric_fn_list: dict[str, Any] = {}  # the harness's defaults for multiple choice; ours depend on the data

    # ------------------------------------------------------------ data

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """Load the set: a local build first, else the hub; group its tests into documents."""
        path, name = self.config.dataset_path, self.config.dataset_name
        split = self.config.test_split
        if not path or not split:
            raise NNDError(f"task {self.config.task}: its YAML must set dataset_path and test_split (include _base)")
        folder = find_dataset(path)
        if folder is not None:
            tests = datasets.Dataset(read_table(folder, name))
            name = name or list_configs(folder)[1]
        else:
            tests = _from_hub(path, name, split, dataset_kwargs or {})
        where = str(folder or f"{path} on the hub")
        self._origin = {
            "dataset": path,
            "config": name,
            "local": folder is not None,
            "fingerprint": fingerprint(tests.data.table),
        }
        logger.info(
            "%s: %d tests from %s (config %s, fingerprint %s)",
            self.config.task,
            len(tests),
            where,
            name,
            self._origin["fingerprint"],
        )
        self._check_categories(set(tests["category"]), where)
        documents = cluster_documents(tests, where)
        scorable = [i for i, document in enumerate(documents) if self.scorable(document)]
        if len(scorable) < len(documents):
            left_out = set(range(len(documents))) - set(scorable)
            self._unscorable = sum(len(documents[i]["tests"]) for i in left_out)
            documents = documents.select(scorable)
        self.dataset = {split: documents}

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
                f"{where} {' and '.join(parts)}; task {self.config.task} is made for other data. Write a YAML without "
                "metadata.categories to take them as found"
            )

    def scorable(self, doc: Mapping[str, Any]) -> list[int]:
        """Return the indices of the candidates that have anything to score: an empty one has only the EOS token."""
        return [i for i, text in enumerate(doc["candidates"]) if self.settings.append_eos or text.strip()]

    # ------------------------------------------------------------ prompts and requests

    @property
    def counter(self) -> TokenCounter:
        """The tokenizer of the evaluated model, loaded at first use."""
        if self._counter is None:
            self._counter = TokenCounter(self._metadata)
        return self._counter

    def doc_to_text(self, doc: Mapping[str, Any], doc_to_text: Any = None) -> str:
        """Render the prompt; unlike the harness, never read a prompt of digits as a number."""
        template = self.config.doc_to_text if doc_to_text is None else doc_to_text
        if not isinstance(template, str):
            return str(super().doc_to_text(doc, doc_to_text))
        if template in doc:
            return str(doc[template])
        try:
            return str(utils.apply_template(template, dict(doc)))
        except jinja2.TemplateError as error:
            fields = ", ".join(name for name in doc if name not in ("tests", "candidates"))
            raise NNDError(f"task {self.config.task}: doc_to_text: {error} (fields of this set: {fields})") from error

    def doc_to_target(self, doc: Mapping[str, Any], doc_to_target: Any = None) -> str:
        """Return a better candidate, not an empty one if there is another: the target of a few-shot exemplar."""
        better = [str(doc["candidates"][test["high"]]) for test in doc["tests"]]
        return self.settings.candidate_prefix + next((text for text in better if text.strip()), better[0])

    def doc_to_choice(self, doc: Mapping[str, Any], doc_to_choice: Any = None) -> list[str]:
        """Return the texts to score, in the order of `scorable`."""
        eos = self.counter.special_text("eos") if self.settings.append_eos else ""
        return [f"{self.settings.candidate_prefix}{doc['candidates'][i]}{eos}" for i in self.scorable(doc)]

    def fewshot_context(self, doc: Mapping[str, Any], num_fewshot: int, **kwargs: Any) -> str:
        """Render description, exemplars and prompt; with ``append_bos`` the BOS text comes last."""
        context = str(super().fewshot_context(doc, num_fewshot=num_fewshot, **kwargs))
        return context + self.counter.special_text("bos") if self.settings.append_bos else context

    def build_all_requests(self, **kwargs: Any) -> None:
        """Build the requests and count their tokens, before the model runs: what cannot be scored shows up at once."""
        super().build_all_requests(**kwargs)
        for instance in self._instances:
            if self.tokens(instance) < 1:
                tests = [t["test_id"] for t in instance.doc["tests"] if instance.idx in self._used(instance.doc, t)]
                raise NNDError(
                    f"task {self.config.task}: the candidate {instance.args[1]!r} of test {tests[0]} has no token of its own "
                    f"after its prompt with the tokenizer {self.counter.name}; change target_delimiter, or use append_eos"
                )

    def _used(self, doc: Mapping[str, Any], test: Mapping[str, Any]) -> list[int]:
        """Return which requests of the document a test needs."""
        scorable = self.scorable(doc)
        return [scorable.index(i) for i in (test["high"], test["low"]) if i in scorable]

    def tokens(self, instance: Instance) -> int:
        """Return the number of tokens that the backend scores for a request."""
        return self.counter.count(*instance.args)

    # ------------------------------------------------------------ results

    def apply_filters(self) -> None:
        """Apply the harness's filters, then add the number of tokens to each answer: (sum, is_greedy, tokens)."""
        super().apply_filters()
        for instance in self._instances:
            tokens = self.tokens(instance)
            for name, answer in instance.filtered_resps.items():
                instance.filtered_resps[name] = (*answer[:2], tokens)

    def process_results(self, doc: Mapping[str, Any], results: Sequence[tuple[float, bool, int]]) -> dict[str, Any]:
        """Return the metrics of one cluster; ``candidates`` and ``tests`` carry what ``--log_samples`` writes."""
        scores: list[metrics.Score | None] = [None] * len(doc["candidates"])
        for i, (total, _, tokens) in zip(self.scorable(doc), results, strict=True):
            size = len((self.settings.candidate_prefix + doc["candidates"][i]).encode("utf-8"))
            scores[i] = metrics.Score(float(total), tokens, max(size, 1))
        candidates = [
            {"sum": score.total, "mean": score.mean, "tokens": score.tokens, "bytes": score.size} if score else None
            for score in scores
        ]
        if "bypass" in self._metric_fn_list:  # --predict_only
            return {"bypass": None, "candidates": candidates}
        return {
            **metrics.score_document(doc["tests"], scores, self.breakdown, ties=self.settings.ties),
            "candidates": candidates,
        }

    @property
    def breakdown(self) -> metrics.Breakdown:
        """Which rates this run reports."""
        if not hasattr(self, "_breakdown"):
            self._breakdown = metrics.Breakdown.of(test for doc in self.eval_docs for test in doc["tests"])
        return self._breakdown

    def _rates(self) -> list[str]:
        return [f"pass_rate{suffix}" for suffix in metrics.NORMALIZATIONS] + list(self.breakdown.selectors)

    def aggregation(self) -> dict[str, Callable[[Any], Any]]:
        """Return how each metric is pooled over documents."""

        def tests(items: Sequence[Sequence[Mapping[str, Any]]]) -> int:
            self._sizes = metrics.category_sizes(items)
            return metrics.count_scored(items)

        functions: dict[str, Callable[[Any], Any]] = {}
        for name in self._rates():
            functions[name] = metrics.aggregate_rate
            functions[f"{name}_stderr"] = metrics.aggregate_stderr
        return functions | {
            "tests": tests,
            "candidates": lambda items: sum(record is not None for records in items for record in records),
            "clusters": sum,
            "ties": sum,
            "unscored": lambda items: sum(items) + self._unscorable,
            "bypass": lambda items: metrics.UNDEFINED,
        }

    def higher_is_better(self) -> dict[str, bool]:
        """Return the direction of each rate; counts have none."""
        return dict.fromkeys(self._rates(), True)

    def dump_config(self) -> dict[str, Any]:
        """Return the configuration for the results file, with what the numbers rest on under ``metadata.nnd``."""
        dumped: dict[str, Any] = super().dump_config()
        sampler = dumped["fewshot_config"]["sampler"]
        if isinstance(sampler, type):
            dumped["fewshot_config"]["sampler"] = f"{sampler.__module__}.{sampler.__qualname__}"
        dumped["metadata"] = {
            **dumped.get("metadata", {}),
            "nnd": {
                "version": __version__,
                **self._origin,
                "normalization": "token",
                "append_eos": self.settings.append_eos,
                "append_bos": self.settings.append_bos,
                "ties": self.settings.ties,
                "categories": self._sizes,
            },
        }
        return dumped


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, (str, int, float, bool))


def _from_hub(path: str, name: str | None, split: str, kwargs: Mapping[str, Any]) -> datasets.Dataset:
    """Load a set that is not built here with `datasets.load_dataset`."""
    set_name = path.removeprefix("nnd/")
    try:
        tests = datasets.load_dataset(path, name, split=split, **kwargs)
    except Exception as error:  # datasets and the hub raise many kinds; the user's way out is one
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise NNDError(
            f"the set {path!r} is not built here, and could not be loaded from the hub ({reason}); run: nnd build {set_name}"
        ) from error
    return datasets.Dataset(check_table(tests.data.table, f"{path} on the hub"))
