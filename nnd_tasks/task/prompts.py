"""Which few-shot exemplars a prompt gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.task.base_task import ContextSampler
from nnd_tasks.text import counted


class ClusterSampler(ContextSampler):  # type: ignore[misc]
    """Draws few-shot exemplars for a prompt from prompts about other contexts.

    The draw depends on the seed and the prompt's ``cluster_id`` alone. lm-eval's own sampler draws for one document after
    the other, so the exemplars of a document depend on which others are evaluated.
    """

    def __init__(self, df: Sequence[Mapping[str, Any]] | None = None, *, rnd: int | None = None) -> None:
        super().__init__(df)
        self.seed = rnd  # lm-eval 0.5 gives the few-shot seed of the run here

    def set_rnd(self, rnd: int | None) -> ClusterSampler:
        """Take the few-shot seed of the run, as lm-eval 0.4.13 gives it."""
        self.seed = rnd
        return self

    def sample(
        self,
        n: int,
        eval_doc: Mapping[str, Any] | None = None,
        df: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> list[Mapping[str, Any]]:
        """Return ``n`` documents with other prompts than ``eval_doc``, and about other contexts.

        Several prompts can ask about one context. A good candidate for one of them would give away another's.

        Raises:
            NNDError: the set has fewer such documents.
        """
        documents = df or self.df
        own = eval_doc["cluster_id"] if eval_doc else ""
        # The context is looked up by the id: in eval_doc it may be shortened, which must not change the exemplars.
        contexts = {doc.get("context") for doc in documents if doc["cluster_id"] == own} - {"", None}
        pool = [doc for doc in documents if doc["cluster_id"] != own and doc.get("context") not in contexts]
        if n > len(pool):
            raise NNDError(
                f"--num_fewshot {n}: the set has only {counted(len(pool), 'prompt')} about other contexts to take exemplars "
                "from"
            )
        return Random(f"{self.seed}:{own}").sample(pool, n)  # noqa: S311 - no cryptography
