"""One self-contained HTML page about one or more runs: rates, differences, reading aid, failed tests, signatures."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnd_tasks import __version__
from nnd_tasks.analysis.compare.diagnostics import NEAR, ReadingAid, reading_aid
from nnd_tasks.analysis.compare.output import between, few, hopeless, number, odd, p_value
from nnd_tasks.analysis.compare.paired import CategoryResult, Comparison, Rate, cluster_counts, compare
from nnd_tasks.analysis.compare.power import FEW, HOPELESS, LEVEL, POWER
from nnd_tasks.analysis.report.html_examples import CANDIDATE_LIMIT, CONTEXT_LIMIT, Example, failed_examples
from nnd_tasks.analysis.results import Paired, Run, left_out, notes_on, pair, read_runs
from nnd_tasks.baselines import ALL, BASELINES
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, writing
from nnd_tasks.secrets import arguments_without_secrets, without_secrets
from nnd_tasks.statistics import clustered_standard_error, confidence_interval, pooled_rate
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    import jinja2

#: Failed tests per model and set; fewer where the page would grow too large.
EXAMPLES = 50
#: Bytes that a page should not exceed.
PAGE_LIMIT = 2_000_000
#: Pairs of models up to which all tables of differences are unfolded.
UNFOLDED = 3


@dataclass(frozen=True)
class Section:
    """What the page says about one set.

    Attributes:
        number: of the section, from 1.
        paired: the models on its tests.
        categories: ``all``, then each category.
        comparison: of the models; None for one alone.
        aids: model -> category -> reading aid.
        protocol: (key, value) of what all runs were asked.
        differing: (key, value per model) of what differs between the runs.
    """

    number: int
    paired: Paired
    categories: list[CategoryResult]
    comparison: Comparison | None
    aids: dict[str, dict[str, ReadingAid]]
    protocol: list[tuple[str, str]]
    differing: list[tuple[str, list[str]]]


def write_report(
    places: Sequence[str | Path],
    output: str | Path,
    allow: Sequence[str] = (),
    examples: int = EXAMPLES,
    title: str = "NND report",
    select: Sequence[str] = (),
) -> Path:
    """Write the page about the runs in some places.

    Args:
        places: as `nnd_tasks.analysis.results.read_runs` takes them.
        output: the file; its folder is made where it is missing.
        allow: parts of the protocol that may differ.
        examples: failed tests to show per model and set.
        title: of the page.
        select: as for `read_runs`.

    Returns:
        The file.

    Raises:
        NNDError: the runs cannot be read or compared, or the file cannot be written.
    """
    path = expand(output)
    if path.is_dir():
        raise NNDError(f"{path}: is a folder; name a file, such as {path / 'report.html'}")
    page = render(sections_of(pair(read_runs(places, select), allow)), places, allow, examples, title, select)
    with writing(path) as new:
        new.write_bytes(page)
    return path


def sections_of(pairs: Sequence[Paired]) -> list[Section]:
    """Compute everything that the page says about each set.

    Raises:
        NNDError: no test of a set was scored.
    """
    sections = []
    for place, paired in enumerate(pairs, start=1):
        if paired.tests.empty:
            raise NNDError(f"{paired.runs[0].path}: no test was scored by every model; leave {paired.title} out")
        comparison = compare(paired) if len(paired.runs) > 1 else None
        protocol, differing = _settings(paired.runs)
        sections.append(
            Section(
                number=place,
                paired=paired,
                categories=comparison.categories if comparison else rates_of_one(paired),
                comparison=comparison,
                aids={run.model: reading_aid(run) for run in paired.runs},
                protocol=protocol,
                differing=differing,
            )
        )
    return sections


def rates_of_one(paired: Paired) -> list[CategoryResult]:
    """Return the rates of one model alone, in the form of a comparison without differences."""
    results = []
    for category in [ALL, *sorted(set(paired.tests["category"]))]:
        chosen = (paired.tests["category"].eq(category) | (category == ALL)).to_numpy(dtype=bool)
        counts, tests, clusters = cluster_counts(paired.passed[chosen], paired.tests.loc[chosen, "cluster_id"].tolist())
        passed = counts[:, 0]
        rate = Rate(
            pooled_rate(passed, tests), clustered_standard_error(passed, tests), *confidence_interval(passed, tests)
        )
        results.append(CategoryResult(category, int(tests.sum()), len(clusters), {paired.models[0]: rate}, []))
    return results


def _settings(runs: Sequence[Run]) -> tuple[list[tuple[str, str]], list[tuple[str, list[str]]]]:
    """Return what the protocols share, and what differs in any part of the signature."""
    shared = []
    differing = []
    for name in ("protocol", "about", "environment"):
        parts: list[Mapping[str, Any]] = [getattr(run, name) for run in runs]
        for key in dict.fromkeys(key for part in parts for key in part):
            values = [_shown(part.get(key)) for part in parts]
            if len(set(values)) > 1:
                differing.append((f"{key} (protocol)" if name == "protocol" else key, values))
            elif name == "protocol":
                shared.append((key, values[0]))
    return shared, differing


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in (None, "", {}):
        return "none"
    value = without_secrets(value)  # runs of stock lm_eval, or of earlier releases, may hold some
    return json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, (dict, list)) else str(value)


# ---------------------------------------------------------------- commands


def command_of(run: Run) -> str:
    """Return the command that asks the same again, from what lm-eval and the signature keep of it.

    Secrets, such as a token for the hub or the password in a URL, are left out.
    """
    asked, protocol = run.command, run.protocol
    shared = asked.get("model") == "hf-shared-prefix"  # what `nnd run --model hf` becomes
    words = ["nnd", "run", *(["--no-shared-prefix"] if asked.get("model") == "hf" else [])]
    words += ["--model", "hf" if shared else str(asked.get("model") or "hf")]
    if arguments := _arguments(asked.get("model_args")):
        words += ["--model_args", arguments]
    words += ["--tasks", run.task]
    for option in ("device", "batch_size", "limit"):
        if asked.get(option) is not None:
            # A limit is a number or a share; lm-eval keeps both as floats.
            words += [f"--{option}", f"{asked[option]:g}" if option == "limit" else str(asked[option])]
    if protocol.get("shots"):
        words += ["--num_fewshot", str(protocol["shots"])]
    words += [f"--{key}" for key, found in _FLAGS.items() if protocol.get(found)]
    if settings := _metadata(run):
        words += ["--metadata", json.dumps(settings)]
    return shlex.join([*words, "--log_samples", "--output_path", "results"])


_FLAGS = {"apply_chat_template": "chat_template", "fewshot_as_multiturn": "multiturn"}


def _arguments(given: Any) -> str:
    """Return model arguments as text: ``key=value`` pairs, or JSON where a value is more than a word."""
    if isinstance(given, str):
        with suppress(ValueError, RecursionError):
            given = json.loads(given)
    if not isinstance(given, Mapping):
        return arguments_without_secrets(str(given or ""))
    kept: dict[str, Any] = without_secrets(given, None)
    plain = all(isinstance(value, (str, int, float)) and "," not in str(value) for value in kept.values())
    return ",".join(f"{key}={value}" for key, value in kept.items()) if plain else json.dumps(kept, default=str)


def _metadata(run: Run) -> dict[str, Any]:
    """Return the settings of a run that are not our tasks' defaults."""
    found: dict[str, Any] = {}
    if run.protocol.get("eos"):
        found["append_eos"] = True
    for key, default in (("ties", "fail"), ("overlong", "shorten")):
        if run.protocol.get(key, default) != default:
            found[key] = run.protocol[key]
    if any(document.get("no_context") for document in run.documents):
        found["context_reliance"] = True
    return found


def _not_in_command(run: Run) -> list[str]:
    """Return what the results do not tell word for word."""
    notes = []
    if run.protocol.get("system"):
        notes.append(f"a system instruction was given (digest {run.protocol['system']}): add --system_instruction")
    if run.protocol.get("selection", "all") != "all" and run.command.get("limit") is None:
        notes.append(f"only some contexts were chosen ({run.protocol['selection']}): add --samples")
    if run.protocol.get("shots"):
        notes.append(f"the seed of the examples was {run.protocol.get('shots_seed')}")
    return notes


def _again(places: Sequence[str | Path], allow: Sequence[str], select: Sequence[str], several: bool) -> list[str]:
    where = [str(place) for place in places]
    extra = ["--allow", ",".join(allow)] if allow else []
    extra += [word for text in select for word in ("--select", text)]
    lines = [shlex.join(["nnd", "compare", *where, *extra])] if several else []
    return [*lines, shlex.join(["nnd", "report", *where, *extra, "-o", "report.html"])]


# ---------------------------------------------------------------- the page


def render(
    sections: Sequence[Section],
    places: Sequence[str | Path],
    allow: Sequence[str] = (),
    examples: int = EXAMPLES,
    title: str = "NND report",
    select: Sequence[str] = (),
) -> bytes:
    """Return the page as UTF-8, with as many examples as `PAGE_LIMIT` has room for.

    Args:
        sections: one per set.
        places: that were read, for the command that makes the page again.
        allow: likewise.
        examples: failed tests per model and set, at most.
        title: of the page.
        select: likewise.
    """
    template = _environment().get_template("report.html.j2")
    folder = Path(__file__).parent
    script = (folder / "report.js").read_text(encoding="utf-8")
    runs = [run for section in sections for run in section.paired.runs]
    known: dict[str, Any] = {
        "title": title,
        "version": __version__,
        "style": (folder / "report.css").read_text(encoding="utf-8"),
        "script": script,
        # Only our own script runs, whatever a text may contain, and nothing is loaded from anywhere.
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "sections": sections,
        "models": list(dict.fromkeys(run.model for run in runs)),
        "commands": [(run, command_of(run), _not_in_command(run)) for run in runs],
        "again": _again(places, allow, select, any(section.comparison for section in sections)),
        "alone": left_out(runs, [section.paired for section in sections])
        if len({run.model for run in runs}) > 1
        else [],
        "allowed": list(allow),
        "rules": BASELINES,
        "limits": {"context": CONTEXT_LIMIT, "candidate": CANDIDATE_LIMIT, "page": PAGE_LIMIT, "wanted": examples},
        "constants": {"few": FEW, "hopeless": HOPELESS, "level": LEVEL, "power": POWER, "near": NEAR, "all": ALL},
        "unfolded": UNFOLDED,
    }
    count = examples
    while True:
        shown = [example for section in sections for example in failed_examples(section.paired, count)]
        page = template.render(**known, examples=shown, shown=count, options=_options(shown)).encode("utf-8", "replace")
        if len(page) <= PAGE_LIMIT or count <= 1:
            return page
        count //= 2


def _options(examples: Sequence[Example]) -> dict[str, list[str]]:
    """Return the choices of the filter."""
    return {
        "task": list(dict.fromkeys(example.task for example in examples)),
        "model": list(dict.fromkeys(example.model for example in examples)),
        "category": sorted({example.category for example in examples}),
    }


def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": _number,
        "signed": partial(number, signed=True),
        "p": p_value,
        "count": "{:,}".format,
        "counted": counted,
        "percent": "{:.2%}".format,
        "few": few,
    }
    environment.globals |= {
        **{"hopeless": hopeless, "between": between, "odd": odd, "beaten": _beaten, "scale_of": _scale},
        "notes_on": notes_on,
    }
    return environment


def _number(value: float | None, digits: int = 3) -> str:
    return number(math.nan if value is None else value, digits)


def _scale(results: Sequence[CategoryResult]) -> float:
    """Return the largest difference, or end of its interval, that a plot must hold; above 0."""
    found = [difference for result in results for difference in result.differences]
    ends = [abs(end) for one in found for end in (one.difference, one.low, one.high) if not math.isnan(end)]
    return max(ends, default=0.0) or 1.0


def _beaten(rate: Rate, aid: ReadingAid | None) -> bool:
    """Tell whether a baseline passes as many of the tests as the model does."""
    return aid is not None and max(aid.trivial.values(), default=0.0) >= rate.rate
