"""``--use_cache`` with a file for each model, in JSON.

lm-eval keys an answer by the text of its request alone, so that a second model silently gets the scores of the first; and it
stores answers as pickles, which can run code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from lm_eval.api.model import CacheHook, CachingLM, hash_args

from nnd_tasks.errors import NNDError
from nnd_tasks.harness.signature import digest, engine_packages, environment, model_files
from nnd_tasks.models.ranks import joined
from nnd_tasks.models.token_scores import from_json, to_json

#: Arguments that do not change what a model answers, except for how the hardware rounds.
_INDIFFERENT = {
    "batch_size",
    "max_batch_size",
    "device",
    "num_concurrent",
    "max_retries",
    "timeout",
    "auth_token",
    "header",
    "verify_certificate",
    "ca_cert_path",
}
#: Arguments that name a model, an adapter or a tokenizer.
_NAMES = ("pretrained", "model", "peft", "delta", "tokenizer")


def cache_key(model: Any, arguments: Mapping[str, Any]) -> str:
    """Return 12 hex digits that change with anything that can change what a model answers.

    Args:
        model: what ``--model`` names.
        arguments: the parsed ``--model_args``.

    Raises:
        NNDError: the model, or one of its arguments, is a Python object, whose weights have no name to key answers by.
    """
    if not isinstance(model, str):
        raise NNDError(
            "use_cache: a ready-made model has no name to key its answers by; name it with model and model_args"
        )
    given = {key: value for key, value in arguments.items() if key not in _INDIFFERENT}
    for key, value in given.items():
        if not isinstance(value, (str, int, float, bool, list, tuple, dict, type(None))):
            raise NNDError(f"use_cache: model argument {key} is a Python object, by which answers cannot be keyed")
    return digest(
        {
            "model": model,
            "arguments": given,
            "files": {key: _state(value, given) for key, value in given.items() if isinstance(value, str)},
            "commits": {name: _commit(given[name], given) for name in _NAMES if isinstance(given.get(name), str)},
            "packages": [
                item
                for item in environment(*engine_packages(model))
                if item[0] in ("lm_eval", "torch", "transformers", "tokenizers", "vllm")
            ],
        }
    )


def _state(name: str, arguments: Mapping[str, Any]) -> list[Any]:
    """Return name, size and time of each file of a local model, which change when the model is trained further."""
    files = model_files(name, str(arguments.get("subfolder") or ""))
    return [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files]


def _commit(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the commit of a model, adapter or tokenizer on the hub; None if it is local, or the commit is not known."""
    from transformers.utils import cached_file

    if model_files(name):
        return None
    for file in ("config.json", "adapter_config.json", "tokenizer_config.json"):
        try:
            path = cached_file(name, file, revision=str(arguments.get("revision") or "main"))
        except Exception:  # no such file, no such model, no network: loading the model will report it  # noqa: S112
            continue
        if path and "snapshots" in (parts := Path(path).parts):
            return parts[parts.index("snapshots") + 1]
    return None


class JSONCachingLM(CachingLM):  # type: ignore[misc]
    """lm-eval's cache of answers, stored as JSON, so that reading a cache file cannot run code.

    Of several processes the first one has the file, ``..._rank0.db``, and tells the others which answers are known. These keep
    what they answer in files of their own (``..._rank1.db`` and so on) until the first one has it. Such files are left where a
    run was interrupted; the next run takes their answers over, with whatever number of processes.
    """

    def __init__(self, lm: Any, cache_db: str) -> None:
        """Open the cache at ``cache_db``, or create it.

        Raises:
            NNDError: it cannot be opened.
        """
        self.lm = lm
        self.cache_db = cache_db
        self.dbdict: Any = {}
        self._ranks = joined()
        # lm-eval numbers the files of processes within a machine (lm_eval/evaluator.py:276).
        self._stem = re.sub(r"_rank\d+\.db$", "", cache_db)
        left = self._ranks.together(lambda: self._left_over() if self._ranks.local == 0 else {})
        self._ranks.together(lambda: self._take_over(left) if self._ranks.first else None)
        if self._ranks.local == 0:
            for path in self._others():
                path.unlink(missing_ok=True)
        lm.set_cache_hook(CacheHook(self))

    def __getattr__(self, attr: str) -> Any:
        """Return what the model has under this name; its methods answer from the cache first."""
        found = super().__getattr__(attr)
        if self._ranks.count == 1 or attr not in ("loglikelihood", "loglikelihood_rolling", "generate_until"):
            return found
        return partial(self._answer, attr, found)

    def _answer(self, attr: str, answer: Callable[[Any], list[Any]], requests: Sequence[Any]) -> list[Any]:
        """Answer requests, in one of several processes.

        Args:
            attr: name of the model's method.
            answer: `CachingLM`'s method of that name, which asks the model for what ``dbdict`` does not have.
            requests: the same in all processes.
        """

        def known() -> dict[str, Any]:
            keys = (hash_args(attr, request.args) for request in requests)
            return {key: self.dbdict[key] for key in keys if key in self.dbdict}

        with ExitStack() as stack:
            held = self._ranks.from_first(known)
            journal: Any = None
            if not self._ranks.first:
                self.dbdict = _Known(held)
                journal = stack.enter_context(closing(self._open(f"{self._stem}_rank{self._ranks.index}.db")))
                self.lm.cache_hook.dbdict = journal
            answers = self._ranks.in_step(lambda: answer(requests))  # afterwards, the first process has all of them
        if journal is not None:
            Path(journal.filename).unlink(missing_ok=True)
        return answers

    def _others(self) -> list[Path]:
        """Return the files of processes other than the first."""
        stem = Path(self._stem)
        name = re.compile(re.escape(stem.name) + r"_rank[1-9]\d*\.db")
        return [path for path in stem.parent.iterdir() if name.fullmatch(path.name)] if stem.parent.is_dir() else []

    def _left_over(self) -> dict[str, Any]:
        """Return the answers of processes whose run was interrupted."""
        answers: dict[str, Any] = {}
        for path in self._others():
            with closing(self._open(str(path))) as left:
                answers |= dict(left.items())
        return answers

    def _take_over(self, left: Sequence[Mapping[str, Any]]) -> None:
        """Open the file of the first process, and add answers that it does not have."""
        self.dbdict = self._open(f"{self._stem}_rank0.db")
        for answers in left:
            for key, answer in answers.items():
                if key not in self.dbdict:
                    self.dbdict[key] = answer
        self.dbdict.commit()

    def _open(self, path: str) -> Any:
        """Return the answers of a file, which is made if it is not there.

        Raises:
            NNDError: it cannot be opened.
        """
        from sqlitedict import SqliteDict

        def decode(value: Any) -> Any:
            try:
                return from_json(value)
            except (ValueError, TypeError) as error:
                raise NNDError(f"--use_cache: {path} holds something that is not an answer; delete it") from error

        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            return SqliteDict(path, autocommit=True, encode=to_json, decode=decode)
        except Exception as error:  # sqlite3 and sqlitedict raise many kinds
            raise NNDError(f"--use_cache: {path} cannot be opened ({error}); name another place") from error


class _Known(dict[str, Any]):
    """What a process other than the first knows of the cache; lm-eval adds answers and commits them."""

    def commit(self) -> None:
        """Do nothing: the first process stores the answers."""
