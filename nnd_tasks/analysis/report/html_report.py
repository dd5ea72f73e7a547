"""One self-contained HTML page about one or more runs: rates, differences, diagnostics, all tests, signatures."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnd_tasks import __version__, show
from nnd_tasks.analysis.compare.diagnostics import NEAR, Diagnostics, diagnostics_of
from nnd_tasks.analysis.compare.margin_parts import CAPTION, margin_parts, margin_parts_table
from nnd_tasks.analysis.compare.model_verdicts import verdicts
from nnd_tasks.analysis.compare.output import baselines_of, between, few, odd, underpowered
from nnd_tasks.analysis.compare.paired import CategoryResult, Comparison, Rate, category_rates, compare
from nnd_tasks.analysis.compare.power import LARGEST_MDE, LEVEL, POWER
from nnd_tasks.analysis.curves import around_errors
from nnd_tasks.analysis.html_pages import policy_hash, templates
from nnd_tasks.analysis.report.browsing import Packed, pack
from nnd_tasks.analysis.report.html_examples import CANDIDATE_LIMIT, CONTEXT_LIMIT, failed_examples
from nnd_tasks.analysis.results import Run, notes_on, read_results
from nnd_tasks.analysis.side_by_side import Paired, not_compared, pair
from nnd_tasks.baselines import ALL, BASELINES, strongest
from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand, writing
from nnd_tasks.formats import TextTable, number, p_value
from nnd_tasks.secrets import arguments_without_secrets, without_secrets
from nnd_tasks.statistics import FEW
from nnd_tasks.wording import counted

if TYPE_CHECKING:
    import jinja2

#: Failed tests per model and set that can be read without the page's script; fewer where the page would grow too large.
EXAMPLES = 50
#: Bytes of what can be read without the script; the rest of the page is data that the script unpacks when it is looked at.
HTML_LIMIT = 2_000_000
#: Bytes that a page does not exceed, with the data of all tests.
PAGE_LIMIT = 20_000_000
#: With more pairs of models than this, the tables of their differences by category are folded.
UNFOLDED = 3


@dataclass(frozen=True)
class Section:
    """What the page says about one set.

    Attributes:
        number: of the section, from 1.
        paired: the models on its tests.
        categories: results on ``all``, then on each category.
        comparison: of the models; None where there is only one.
        diagnostics: model -> category -> diagnostics.
        parts: of the margins, one row per category and model; None where no run has token scores.
        around: surprise around marked errors; empty without these or token scores.
        protocol: (key, value) of what all runs were asked.
        differing: (key, value of each model) where the runs differ.
    """

    number: int
    paired: Paired
    categories: list[CategoryResult]
    comparison: Comparison | None
    diagnostics: dict[str, dict[str, Diagnostics]]
    parts: TextTable | None
    around: list[around_errors.Place]
    protocol: list[tuple[str, str]]
    differing: list[tuple[str, list[str]]]


def write_report(
    places: Sequence[str | Path],
    output: str | Path,
    allow: Sequence[str] = (),
    select: Sequence[str] = (),
) -> Path:
    """Write the page about the runs in some places.

    Args:
        places: as `nnd_tasks.analysis.results.read_results` takes them.
        output: the file; its folder is made where it is missing.
        allow: parts of the protocol that may differ.
        select: as for `read_results`.

    Returns:
        The file.

    Raises:
        NNDError: the runs cannot be read or compared, or the file cannot be written.
    """
    path = expand(output)
    if path.is_dir():
        raise NNDError(f"{path}: is a folder; name a file, such as {path / 'report.html'}")
    page = render(sections_of(pair(read_results(places, select), allow)), places, allow, select)
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
        parts = margin_parts(paired)
        sections.append(
            Section(
                number=place,
                paired=paired,
                categories=comparison.categories if comparison else category_rates(paired),
                comparison=comparison,
                diagnostics={run.model: diagnostics_of(run) for run in paired.runs},
                parts=margin_parts_table(parts) if parts else None,
                around=[] if "spans" in dict(differing) else around_errors.around_errors(paired.runs, needed=False),
                protocol=protocol,
                differing=differing,
            )
        )
    return sections


def _settings(runs: Sequence[Run]) -> tuple[list[tuple[str, str]], list[tuple[str, list[str]]]]:
    """Return the protocol that all runs share, and what differs in any part of their signatures.

    Error spans are compared between runs with span metrics only.
    """
    shared = []
    differing = []
    for name in ("protocol", "model_info", "environment"):
        parts: list[Mapping[str, Any]] = [getattr(run, name) for run in runs]
        for key in dict.fromkeys(key for part in parts for key in part):
            values = [_shown(part.get(key)) for part in parts]
            if len(set(values)) > 1:
                differing.append((f"{key} (protocol)" if name == "protocol" else key, values))
            elif name == "protocol":
                shared.append((key, values[0]))
    spans = [run.spans or "none" for run in runs]
    if len({*spans} - {"none"}) > 1:
        differing.append(("spans", spans))
    return shared, differing


def _shown(value: Any) -> str:
    """Return a value of a signature as the page shows it, without secrets."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value in (None, "", {}):
        return "none"
    value = without_secrets(value)  # runs of plain lm_eval, or of earlier releases, may hold secrets
    return json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, (dict, list)) else str(value)


# ---------------------------------------------------------------- commands


def command_of(run: Run) -> str:
    """Return a command that runs the same again, from what the results file keeps of the first one.

    Secrets, such as a token for the hub or the password in a URL, are left out.
    """
    asked, protocol = run.command, run.protocol
    model = str(asked.get("model") or "hf")
    # `nnd run --model hf` becomes hf-shared-prefix, and vllm becomes vllm-shared-prefix.
    words = ["nnd", "run", *(["--no-shared-prefix"] if asked.get("model") in ("hf", "vllm") else [])]
    words += ["--model", model.removesuffix("-shared-prefix")]
    if arguments := _arguments(asked.get("model_args")):
        words += ["--model_args", arguments]
    words += ["--tasks", run.task]
    for option in ("device", "batch_size", "limit", "sample"):
        if asked.get(option) is not None:
            # A limit is a number or a share; lm-eval keeps both as floats.
            words += [f"--{option}", f"{asked[option]:g}" if option == "limit" else str(asked[option])]
    if protocol.get("shots"):
        words += ["--num_fewshot", str(protocol["shots"])]
    words += [f"--{flag}" for flag, key in _FLAGS.items() if protocol.get(key)]
    if settings := asked.get("settings"):
        words += ["--metadata", json.dumps(settings)]
    return shlex.join([*words, "--log_samples", "--output_path", "results"])


#: Flag of lm-eval -> key of the protocol.
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


def _not_in_command(run: Run) -> list[str]:
    """Return notes on settings whose exact value the results do not keep."""
    notes = []
    if run.protocol.get("system"):
        notes.append(f"a system instruction was given (digest {run.protocol['system']}): add --system_instruction")
    chosen = run.protocol.get("selection", "all") != "all"
    if chosen and run.command.get("limit") is None and run.command.get("sample") is None:
        notes.append(f"only some prompts were chosen ({run.protocol['selection']}): add --samples")
    if run.protocol.get("shots"):
        notes.append(f"the seed of the examples was {run.protocol.get('shots_seed')}")
    return notes


def _commands_again(
    places: Sequence[str | Path], allow: Sequence[str], select: Sequence[str], several: bool
) -> list[str]:
    """Return the commands that read the same runs again; `nnd compare` only where there are several models."""
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
    select: Sequence[str] = (),
) -> bytes:
    """Return the page as UTF-8, with as much as `HTML_LIMIT` and `PAGE_LIMIT` have room for.

    Args:
        sections: one per set.
        places: folders and files that were read, for the command that makes the page again.
        allow: parts of the protocol that may differ, for that command.
        select: as for `read_results`, for that command.

    Raises:
        NNDError: token scores of a run are damaged.
    """
    template = environment().get_template("report.html.j2")
    pairs = [section.paired for section in sections]
    runs = [run for paired in pairs for run in paired.runs]
    packed = pack(pairs, PAGE_LIMIT - HTML_LIMIT)
    known: dict[str, Any] = {
        **frame("NND report", pairs, packed),
        "sections": sections,
        "models": list(dict.fromkeys(run.model for run in runs)),
        "commands": [(run, command_of(run), _not_in_command(run)) for run in runs],
        "again": _commands_again(places, allow, select, any(section.comparison for section in sections)),
        "not_compared": not_compared(runs, pairs) if len({run.model for run in runs}) > 1 else [],
        "allowed": list(allow),
        "baselines": BASELINES,
        "baselines_of": baselines_of,
        "constants": {"few": FEW, "largest_mde": LARGEST_MDE, "level": LEVEL, "power": POWER, "near": NEAR, "all": ALL},
        "about_parts": CAPTION,
        "unfolded": UNFOLDED,
        "errors": around_errors,
    }
    count = EXAMPLES
    while True:
        shown = [example for paired in pairs for example in failed_examples(paired, count)]
        page = template.render(**known, examples=shown, shown=count).encode("utf-8", "replace")
        if len(page) - packed.size <= HTML_LIMIT or count <= 1:
            return page
        count //= 2


def frame(title: str, pairs: Sequence[Paired], packed: Packed, *, alone: bool = False) -> dict[str, Any]:
    """Return what every page needs: its head, its script, and the tests that the script shows.

    Args:
        title: of the page.
        pairs: models on the same tests, for each set.
        packed: these tests.
        alone: the page shows one test, so it has no search.
    """
    folder = Path(__file__).parent
    script = (folder / "report.js").read_text(encoding="utf-8")
    models = dict.fromkeys(model for paired in pairs for model in paired.models)
    tokens = [(model, model) for model in packed.models]
    every = [("*", "all models, side by side")]
    return {
        "title": title,
        "version": __version__,
        "style": (Path(show.__file__).parent / "templates" / "style.css").read_text(encoding="utf-8"),
        "script": script,
        # The page's policy runs this script only, whatever a text of the data contains, and loads nothing.
        "script_hash": policy_hash(script),
        "packed": packed,
        "alone": alone,
        "marked": any("error_spans" in run.documents[0] for paired in pairs for run in paired.runs if run.documents),
        "limits": {"context": CONTEXT_LIMIT, "candidate": CANDIDATE_LIMIT, "page": PAGE_LIMIT, "wanted": EXAMPLES},
        "options": {
            "task": [(paired.title, paired.title) for paired in pairs],
            "model": [(model, model) for model in models],
            "against": [("*", "any other model disagrees"), *((model, f"{model} disagrees") for model in models)],
            "category": [(name, name) for name in sorted({n for p in pairs for n in p.runs[0].tests["category"]})],
            "tokens": [*every, *tokens] if alone else [*tokens, *every],
        },
    }


def environment() -> jinja2.Environment:
    """Return what renders the template, with our filters and functions."""
    environment = templates(Path(__file__).parent)
    environment.filters |= {
        "number": _number,
        "signed": partial(number, signed=True),
        "p": p_value,
        "count": "{:,}".format,
        "counted": counted,
        "percent": "{:.2%}".format,
        "few": few,
    }
    environment.tests["nan"] = math.isnan
    environment.globals |= {
        **{"underpowered": underpowered, "between": between, "odd": odd, "beaten": _beaten, "scale_of": _scale},
        **{"notes_on": notes_on, "strongest": strongest, "verdicts": verdicts},
    }
    return environment


def _number(value: float | None, digits: int = 3) -> str:
    """Return a number for the page; a dash for None."""
    return number(math.nan if value is None else value, digits)


def _scale(results: Sequence[CategoryResult]) -> float:
    """Return the largest difference, or end of its interval, that a plot must hold; above 0."""
    differences = [difference for result in results for difference in result.differences]
    ends = [abs(end) for one in differences for end in (one.difference, one.low, one.high) if not math.isnan(end)]
    return max(ends, default=0.0) or 1.0


def _beaten(rate: Rate, diagnostics: Diagnostics | None) -> bool:
    """Tell whether a baseline passes as many of the tests as the model does, or more."""
    best = strongest(diagnostics.baselines) if diagnostics else None
    return best is not None and best[1] >= rate.rate
