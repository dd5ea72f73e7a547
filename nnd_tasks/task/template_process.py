"""Renders templates of lm-eval's tasks for `sandbox.TemplateProcess`: ``[template, document]`` in a line of JSON, and a line out.

A script that imports nothing of ours, so that it starts fast.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress

from jinja2 import StrictUndefined
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

#: Most characters of a rendered template.
_LARGEST = 2_000_000
#: Most bytes of memory.
_MEMORY = 2 << 30


def _replace_regex(string: str, pattern: str, repl: str, count: int = 0) -> str:
    return re.sub(pattern, repl, string, count=count)


def main() -> None:
    """Answer each line of standard input, after a first line that says that the process has started."""
    with suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["regex_replace"] = _replace_regex  # the one filter of lm-eval that Jinja lacks
    print("started", flush=True)
    for line in sys.stdin:
        template, doc = json.loads(line)
        try:
            text = environment.from_string(template).render(**doc)
            answer = (
                {"text": text} if len(text) <= _LARGEST else {"unsafe": f"it makes more than {_LARGEST:,} characters"}
            )
        except (SecurityError, MemoryError) as error:
            answer = {"unsafe": str(error) or "it takes too much memory"}
        except Exception as error:  # a template can raise anything, for example by dividing by zero
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
