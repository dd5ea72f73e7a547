"""The base class of our task: everything in it, and in requests, that depends on the release of lm-eval.

lm-eval 0.4.13 and 0.5 call a task in the same order; what differs between them is said at each method.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.samplers import ContextSampler
from lm_eval.api.task import ConfigurableTask

from nnd_tasks.task.sandbox import render
from nnd_tasks.task.selection import check_places

__all__ = ["BaseTask", "ContextSampler", "Instance", "make_requests"]


def make_requests(kind: str, arguments: Iterable[tuple[Any, ...]]) -> list[Instance]:
    """Return requests of lm-eval outside a task, in the order of their arguments.

    Args:
        kind: the method of the model that answers them, such as ``loglikelihood``.
        arguments: of each: (context, continuation), or what else the method takes.
    """
    return [Instance(kind, {}, given, place) for place, given in enumerate(arguments)]


class BaseTask(ConfigurableTask):  # type: ignore[misc]
    """A task of lm-eval that renders all templates of its YAML in `SANDBOX`; lm-eval itself has no sandbox."""

    # ------------------------------------------------------------ templates

    def check_templates(self, doc: Mapping[str, Any]) -> None:
        """Render every template for one document, as some of them would else fail only after the model is loaded.

        Raises:
            NNDError: a template cannot be rendered.
        """
        shots = self.config.fewshot_config
        self.doc_to_text(doc)
        self.doc_to_text(doc, shots.doc_to_text)
        for template in (self.config.gen_prefix, self.config.description, shots.gen_prefix):
            self.resolve_field(doc, template)

    def doc_to_text(self, doc: Mapping[str, Any], doc_to_text: Any = None) -> str:
        """Render the prompt. Unlike lm-eval, never turn a prompt of digits into a number."""
        template = self.config.doc_to_text if doc_to_text is None else doc_to_text
        if not isinstance(template, str):
            return str(super().doc_to_text(doc, doc_to_text))
        key = "doc_to_text" if template == self.config.doc_to_text else "fewshot_config.doc_to_text"
        return str(render(template, doc, self._where(key)))

    def resolve_field(self, doc: Mapping[str, Any], field: str | None = None) -> Any:
        """Render a description, or what an answer begins with (``gen_prefix``); None if the YAML does not set it."""
        if not field:
            return None
        keys = [key for key in ("description", "gen_prefix") if field == getattr(self.config, key)]
        return render(field, doc, self._where([*keys, "fewshot_config.gen_prefix"][0]))

    _resolve_field = resolve_field  # the name in 0.5

    def doc_to_prefix(self, doc: Mapping[str, Any]) -> Any:
        """Render ``gen_prefix``; 0.5 calls `resolve_field` itself."""
        return self.resolve_field(doc, self.config.gen_prefix)

    def _where(self, key: str) -> str:
        return f"task {self.config.task}: {key}"

    # ------------------------------------------------------------ requests

    def doc_iterator(self, *, samples: Sequence[int] | None = None, **kwargs: Any) -> Iterable[tuple[int, Any]]:
        """Return the documents of a run with their numbers.

        The number of a document that ``samples`` names is its position there, by which both releases look up its place for
        the samples file. Upstream numbers these documents in the order of the set; 0.5.0.dev1 gives the places themselves,
        and then fails.

        Raises:
            NNDError: ``samples`` is empty, or names a document that is not there.
        """
        if samples is None:
            return super().doc_iterator(**kwargs)  # type: ignore[no-any-return]
        places = check_places(samples, len(self.eval_docs), str(self.config.task))
        positions = {place: samples.index(place) for place in places}
        chosen = [(position, self.eval_docs[place]) for place, position in positions.items()]
        return islice(chosen, kwargs["rank"], None, kwargs["world_size"])

    def pairs(self, doc: Mapping[str, Any], context: str, *, chat: bool) -> list[tuple[str, str]]:
        """Return (context, continuation) of each text of `doc_to_choice`, as 0.4.13 joins them.

        0.5 would leave the delimiter out beside white space.
        """
        prefix = self.config.gen_prefix
        delimiter = "" if chat and (not prefix or prefix[-1].isspace()) else self.config.target_delimiter
        return [(context, f"{delimiter}{choice}") for choice in self.doc_to_choice(doc)]

    def identity(self, *, doc_id: int | None = None, metadata: Any = None, **other: Any) -> dict[str, Any]:
        """Return what tells the requests of a document from others, from lm-eval's arguments for `construct_requests`.

        0.4.13 gives the number of the document in ``metadata`` and reads it there, 0.5 in ``doc_id``; lm-eval's own tests of
        tasks give neither.
        """
        number = metadata[1] if doc_id is None and metadata else doc_id
        return {"task_name": self.config.task, "doc_id": number, "metadata": (self.config.task, number, 1)}

    # ------------------------------------------------------------ results

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

    def aggregate(self, bootstrap_iters: int | None = None) -> Any:
        """Pool the results; only 0.5 calls this, and would bootstrap the standard errors of all metrics, which ours have."""
        return super().aggregate(bootstrap_iters=0)
