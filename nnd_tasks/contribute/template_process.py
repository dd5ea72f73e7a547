"""Templates of lm-eval's tasks that come from a stranger: all of Jinja's sandbox, in a process that can be ended.

Known limits: memory is bounded on systems with `resource` only. A script that uses a `TemplateProcess` needs
``if __name__ == "__main__"``, as with all of `multiprocessing`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from jinja2 import StrictUndefined
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from nnd_tasks.errors import NNDError

#: Most seconds, most characters and, where the system can bound it, most bytes of memory for one template.
_SECONDS, _CHARACTERS, _MEMORY = 10.0, 2_000_000, 2 << 30


class TemplateProcess:
    """Renders any template in Jinja's sandbox, in a process that is ended when a template takes too long.

    One step of a template, such as a comparison of nested lists or a power, can take hours. Nothing within its process can end
    it.
    """

    def __enter__(self) -> TemplateProcess:
        """Start the process."""
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_answer, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()  # it has started
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def fill(self, template: str, doc: Mapping[str, Any], where: str) -> str:
        """Return the template filled with the fields of ``doc``.

        Raises:
            NNDError: it reaches into Python, takes too long or makes too much text, or cannot be rendered; no further one is
                rendered after one that took too long.
        """
        text, problem = "", f" is unsafe: it takes more than {_SECONDS:g} seconds or too much memory"
        with suppress(EOFError, OSError):  # of a process that was ended
            self._pipe.send((template, dict(doc)))
            if self._pipe.poll(_SECONDS):
                text, problem = self._pipe.recv()
            else:
                self._process.kill()
        if problem:
            raise NNDError(f"{where}{problem}")
        return text


def _answer(pipe: Connection) -> None:
    """Answer (template, document) with (text, problem), in a process of its own."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    # The one filter of lm-eval that Jinja lacks.
    environment.filters["regex_replace"] = lambda text, pattern, repl, count=0: re.sub(pattern, repl, text, count=count)
    pipe.send("started")
    while True:
        text, problem = "", ""
        try:
            template, doc = pipe.recv()
            text = environment.from_string(template).render(**doc)
            if len(text) > _CHARACTERS:
                text, problem = "", f" is unsafe: it makes more than {_CHARACTERS:,} characters"
        except EOFError:
            return
        except (SecurityError, MemoryError) as error:
            problem = f" is unsafe: {error or 'it takes too much memory'}"
        except Exception as error:  # a template can raise anything, for example by dividing by zero
            problem = f": {type(error).__name__}: {error}"
        pipe.send((text, problem))
