"""Secrets among the arguments of a run: they reach the model, and nothing else.

lm-eval writes its arguments into results, prints them and logs them; see `nnd_tasks.secrets` for what counts as a secret.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.secrets import bare_urls, hidden_in_logs, hide, without_secrets


class _HiddenError(Exception):
    """Stands for an error whose traceback shows secrets, and holds it without them."""


@contextmanager
def without(secrets: set[str]) -> Iterator[None]:
    """Keep secrets out of log lines, of the error that ends the block, and of the traceback that --debug shows of it."""
    with hidden_in_logs(secrets):
        try:
            yield
        except NNDError as error:
            trace = "".join(traceback.format_exception(error))
            text = hide(str(error), secrets)
            if text == str(error) and not any(secret in trace for secret in secrets):
                raise
            raise NNDError(text) from _HiddenError(f"\n{hide(trace, secrets)}")


def cleaned(results: Any, tracker: Any) -> Any:
    """Take the secrets out of lm-eval's results, and of the model's name, which is that of their folder."""
    from lm_eval.utils import sanitize_model_name

    for config in (results or {}).get("configs", {}).values():
        metadata = config.get("metadata")
        if isinstance(metadata, dict):  # ours is clean, and its categories are no names of arguments
            ours = {key: value for key, value in metadata.items() if key == "nnd"}
            config["metadata"] = {**without_secrets({k: v for k, v in metadata.items() if k not in ours}, None), **ours}
    if results and "config" in results:
        results["config"] = without_secrets(results["config"])
    about = getattr(tracker, "general_config_tracker", None)
    if about is not None and about.model_name and (shown := bare_urls(about.model_name)) != about.model_name:
        about.model_name, about.model_name_sanitized = shown, sanitize_model_name(shown)
    return results
