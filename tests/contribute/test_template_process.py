"""Templates of strangers' lm-eval tasks: rendered as by lm-eval, and ended when they take too long."""

import pytest
from lm_eval.utils import env

from nnd_tasks.contribute.template_process import TemplateProcess
from nnd_tasks.errors import NNDError

FIELDS = {"c": "The cat sat. " * 9}
TEMPLATES = [
    "{% for c in 'abc' %}{{ loop.index }}{{ loop.last }}{{ c }}{% endfor %}",
    "{% for a in [[1, [2]]] recursive %}{{ a if a is number else loop(a) }}{% endfor %}",
    "{{ nothing | default('x') }}{{ c ~ 2 }}{{ c * 2 + 'x' }}{{ 2**10 % 7 }}{{ 331000000 * 2 }}",
    "{{ '%s-%d' | format(c, 331000000) }}{{ '{:,}'.format(331000000) }}{{ 331000000 | filesizeformat }}",
    "{{ c | regex_replace('a+', 'b') | upper }}{{ c.split() | join(', ') }}{{ [c, 1] | tojson }}{{ c | wordwrap(9) }}",
]


def test_templates_of_lm_evals_tasks_have_all_of_jinjas_sandbox():
    with TemplateProcess() as process:
        for template in TEMPLATES:
            assert process.fill(template, FIELDS, "t") == env.from_string(template).render(**FIELDS)
        with pytest.raises(NNDError, match=r"^t is unsafe: access to attribute '__class__'"):
            process.fill("{{ c.__class__.__mro__ }}", FIELDS, "t")
        with pytest.raises(NNDError, match=r"^t is unsafe: it makes more than 2,000,000 characters"):
            process.fill("{{ 'a' * 2000001 }}", FIELDS, "t")
        with pytest.raises(NNDError, match=r"^t: UndefinedError: 'x' is undefined"):
            process.fill("{{ x }}", FIELDS, "t")


def test_a_template_that_takes_too_long_is_ended(monkeypatch):
    """Each takes a second or so: lists that double 24 times and are compared, and a number with many digits."""
    doubled = "".join(f"{{% set {name} = [1] %}}" + f"{{% set {name} = [{name}, {name}] %}}" * 24 for name in "ab")
    monkeypatch.setattr("nnd_tasks.contribute.template_process._SECONDS", 0.1)
    for template in (f"{doubled}{{{{ a == b }}}}", "{{ 7**3000000 % 10 }}"):
        with TemplateProcess() as process:
            for _ in range(2):
                with pytest.raises(NNDError, match=r"^t is unsafe: it takes more than 0\.1 seconds or too much memory"):
                    process.fill(template, {}, "t")
