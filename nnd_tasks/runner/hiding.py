"""Keep the secrets among a run's arguments out of its results, output and log; only the model gets them.

lm-eval writes its arguments into results, prints them and logs them. `nnd_tasks.secrets` says what counts as a secret.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nnd_tasks.errors import NNDError
from nnd_tasks.runner.adapter import sanitize_model_name
from nnd_tasks.secrets import bare_urls, hidden_in_logs, hide, without_secrets


class _HiddenError(Exception):
    """Takes the place of an error whose traceback shows secrets; its text is that traceback without them."""


@contextmanager
def without_secrets_in_logs() -> Iterator[None]:
    """Within this context, keep secrets out of log lines, of an NNDError, and of the traceback that --debug shows."""
    with hidden_in_logs():
        try:
            yield
        except NNDError as error:
            trace = "".join(traceback.format_exception(error))
            if hide(trace) == trace:
                raise
            raise NNDError(hide(str(error))) from _HiddenError(f"\n{hide(trace)}")


def cleaned(results: Any, tracker: Any) -> Any:
    """Take the secrets out of lm-eval's results, and out of the model's name, after which their folder is named."""
    for config in (results or {}).get("configs", {}).values():
        metadata = config.get("metadata")
        if isinstance(
            metadata, dict
        ):  # what we wrote under nnd is clean, and a category in it may be named like a secret
            ours = {key: value for key, value in metadata.items() if key == "nnd"}
            config["metadata"] = {**without_secrets({k: v for k, v in metadata.items() if k not in ours}, None), **ours}
    if results and "config" in results:
        results["config"] = without_secrets(results["config"])
    names = getattr(tracker, "general_config_tracker", None)
    if names is not None and names.model_name and (shown := bare_urls(names.model_name)) != names.model_name:
        names.model_name, names.model_name_sanitized = shown, sanitize_model_name(shown)
    return results
