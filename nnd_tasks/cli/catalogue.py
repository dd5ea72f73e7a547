"""What sets there are, built or not, and what one of them looks like."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from nnd_tasks.analysis.power import marked_points, planned_by_category
from nnd_tasks.datasets import (
    built_sets,
    dataset_folder,
    how_to_build,
    list_configs,
    look_up_set,
    read_card,
    read_table,
    task_yamls,
    tasks_dir,
    user_tasks_dir,
)
from nnd_tasks.errors import NNDError, typed_reason_of
from nnd_tasks.languages import code_of, language_pair
from nnd_tasks.sets.card import ERRORS, find_fact
from nnd_tasks.sets.shelf import SetRecipe, find_recipe, list_recipes
from nnd_tasks.show.report import Cell, Report, Table
from nnd_tasks.tables import pick_examples
from nnd_tasks.wording import did_you_mean

_SHOWN = 300  # characters of a text


def list_sets(language: str | None = None, task: str | None = None) -> pd.DataFrame:
    """Return a row per config of every set that has a recipe, then of sets that are built without one.

    Args:
        language: only sets with texts of this language.
        task: only sets of this kind of task.

    Returns:
        ``name``; ``kind``: what a model is asked to do; ``license``; ``errors``: ``judged``, ``made`` or empty; ``languages``:
        codes; ``shipped``: it comes with the package; ``built``: it is built and can be read; ``folder``; ``recipe``: its path;
        ``state``: where it is built, how to build it, or what is wrong with it; ``config``; ``tests``; ``categories``: category
        -> number of tests, empty for a set that is not built; ``points``: category -> smallest difference between two models
        that it can show, in percentage points, as text.

    Raises:
        NNDError: no set has this language, or this task.
    """
    recipes = list_recipes()
    sets = [_describe_recipe(one) for one in recipes.values()]
    sets += [_describe_folder({"name": name}) for name in built_sets() if name not in recipes]
    chosen = _choose(_choose(sets, "--language", language, "languages"), "--task", task, "kind")
    rows = []
    for one in chosen:
        counts = one.pop("published", {})
        configs = one.pop("configs", []) or [{"config": name, "tests": tests} for name, tests in counts.items()]
        rows += [{**one, **config} for config in configs or [{"config": "-"}]]
    columns = {
        **dict.fromkeys(("name", "kind", "license", "errors", "folder", "recipe", "state", "config"), ""),
        **{"shipped": False, "built": False, "tests": None},
    }
    full = [
        {**columns, "languages": [], "categories": {}, "points": {}, **row, "tests": row.get("tests")} for row in rows
    ]
    return pd.DataFrame(full).astype({"tests": "Int64"})


def _describe_recipe(one: SetRecipe) -> dict[str, Any]:
    about: dict[str, Any] = {"name": one.name, "shipped": one.shipped, "recipe": str(one.path)}
    try:
        recipe = one.recipe
    except NNDError as error:
        found = _describe_folder(about)
        broken = f"recipe unreadable: {error}"
        return {**found, "state": f"{found['state']}; {broken}" if found.get("folder") else broken}
    facts = recipe.facts
    expected = {recipe.config or "default": sum(recipe.expected.values())} if recipe.expected else {}
    about |= {"kind": facts.kind or "", "license": facts.license or "", "errors": facts.errors}
    found = _describe_folder({**about, "published": dict(recipe.published) or expected})
    names = [*found["published"], *(config["config"] for config in found.get("configs", []))]
    codes = [*facts.language, *(code for name in names for code in language_pair(name) or ())]
    return {**found, "languages": list(dict.fromkeys(codes))}


def _describe_folder(about: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a set with what is in its dataset folder."""
    name = about["name"]
    folder = dataset_folder(name)
    if name not in built_sets():
        return {**about, "state": f"not built; run: {how_to_build(name)}"}
    try:
        configs = [_describe_config(folder, config) for config in list_configs(folder)[0]]
    except NNDError as error:
        return {**about, "folder": str(folder), "state": f"unreadable: {error}"}
    except Exception as error:  # any error of a damaged set: it must not hide the other sets
        why = f"{folder}: cannot be read ({typed_reason_of(error)}); build the set again"
        return {**about, "folder": str(folder), "state": f"unreadable: {why}"}
    return {**about, "built": True, "folder": str(folder), "configs": configs, "state": f"built in {folder}"}


def _describe_config(folder: Path, name: str) -> dict[str, Any]:
    table = read_table(folder, name, ["cluster_id", "category"])
    clusters, categories = (column.to_pylist() for column in table.columns)
    planned = planned_by_category(clusters, categories)
    counts = Counter(categories)
    points = {category: marked_points(planned, category) for category in planned}
    return {
        "config": name,
        "tests": table.num_rows,
        "categories": {category: counts[category] for category in planned},
        "points": points,
    }


def _choose(sets: list[dict[str, Any]], option: str, value: str | None, key: str) -> list[dict[str, Any]]:
    """Return the sets of a language, or of a task; None takes all."""
    if value is None:
        return sets

    def values_of(one: dict[str, Any]) -> list[str]:
        values = one.get(key, [])
        return [part.strip().lower() for part in (values.split(",") if isinstance(values, str) else values)]

    every = sorted({part for one in sets for part in values_of(one) if part})
    wanted = value.strip().lower()
    if wanted not in every:
        code = code_of(wanted) if option == "--language" else ""
        meant = f"did you mean {code!r}?" if code in every else did_you_mean(wanted, every)
        raise NNDError(f"{option} {value}: no set has it; {meant or 'there are: ' + ', '.join(every)}")
    return [one for one in sets if wanted in values_of(one)]


def report_sets(sets: pd.DataFrame) -> Report:
    """Return what `list_sets` found."""
    columns: dict[str, Cell] = {
        "set": "{name}",
        "about": lambda row: "; ".join(
            filter(None, ["" if row["shipped"] else "your own", row["kind"], row["license"]])
        ),
        "errors": "{errors}",
        "config": "{config}",
        "tests": "{tests:,}",
        "categories": lambda row: (
            ", ".join(f"{name} {count:,} ({row['points'][name]})" for name, count in row["categories"].items()) or "-"
        ),
        "state": "{state}",
    }
    first = sets.drop_duplicates("name").assign(
        state=lambda table: table["state"].where(~table["built"], "built").str.replace("not built; run: ", "")
    )
    brief = {"set": "{name}", "tests": "{tests:,}", "licence": "{license}", "state": "{state}"}
    legend = (
        "In parentheses: smallest difference between two models that a category can show, in percentage points; ‡: too few "
        "tests to tell models apart; none: they can show none; ?: not known."
    )
    tables = [Table("sets", sets, columns)]
    return Report("sets", "Sets", tables=tables, notes=[legend], brief=Table("sets", first, brief))


# ---------------------------------------------------------------- one set


def report_set(name: str, config: str | None = None, count: int = 5) -> Report:
    """Return facts of a set, its prompt, and tests of each category in turn.

    Args:
        name: of the set, or the path of a dataset folder or a recipe.
        config: whose tests are shown; None takes the default one.
        count: how many tests.

    Raises:
        NNDError: there is no such set, or it has no such config.
    """
    folder = look_up_set(name)
    recipe, broken = _find_recipe(name, needed=folder is None)
    title, facts = name, {}
    if recipe is not None:
        known = recipe.recipe.facts
        title = f"{known.title or name} ({name})"
        facts = {key: find_fact(known, key) for key in ("summary", "judges", "license", "language", "homepage")}
        facts |= {"rule": recipe.recipe.rule_text(), "errors": ERRORS[known.errors], "recipe": str(recipe.path)}
    elif folder is not None:
        header, _ = read_card(folder)
        title = f"{header.get('pretty_name', name)} ({name})"
        facts = {"license": str(header.get("license", ""))}
    if broken:
        facts["recipe unreadable"] = broken
    examples, prompt = [], ""
    if folder is None:
        facts["not built"] = f"run: {how_to_build(name)}"
    else:
        names, default = list_configs(folder)
        chosen = config or default
        table = read_table(folder, chosen)
        facts |= {
            "built in": str(folder),
            "configs": ", ".join(names),
            "tests": f"{table.num_rows:,} in config {chosen}",
        }
        own = recipe.name if recipe is not None else "" if "/" in name else name
        prompt = _render_prompt(own, chosen, table.slice(0, 1).to_pylist()[0]) if own else ""
        examples = [tabulate_examples(table, count)]
    rows = pd.DataFrame(facts.items(), columns=["fact", "value"])
    tables = [Table("facts", rows, {"fact": "{fact}", "value": "{value}"}), *examples]
    return Report(name=name, title=title, tables=tables, facts={"prompt": prompt})


def tabulate_examples(tests: pa.Table, count: int) -> Table:
    """Return the texts of some tests, of each category in turn."""
    rows = [
        {"category": test["category"], "part": part, "text": test[part]}
        for test in pick_examples(tests, count)
        for part in ("context", "high", "low")
    ]
    columns: dict[str, Cell] = {
        "category": "{category}",
        "part": "{part}",
        "text": lambda row: _shorten(row["text"]),
    }
    return Table("examples", pd.DataFrame(rows, columns=list(columns)), columns)


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _find_recipe(name: str, *, needed: bool) -> tuple[SetRecipe | None, str]:
    """Return the recipe of a set, and what is wrong with it.

    Raises:
        NNDError: there is none that can be read, though it is needed.
    """
    if not needed and name not in list_recipes():
        return None, ""
    try:
        found = find_recipe(name)
        _ = found.recipe  # it is read here, as it may be wrong
        return found, ""
    except NNDError as error:
        if needed:
            raise
        return None, str(error)


def _render_prompt(name: str, config: str, row: dict[str, Any]) -> str:
    """Return the prompt of a test as the set's task renders it; ``""`` where no task scores this config.

    A template that cannot be rendered, or that may take any time as it has a loop or a product, is returned as it is.
    """
    from jinja2 import TemplateError

    from nnd_tasks.harness.sandbox import SANDBOX

    for template in _find_templates(name, config):
        if re.search(r"{%-?\s*(?!if|elif|else|endif|-)|\*", template):
            return template
        try:
            return str(SANDBOX.from_string(template).render(row))
        except (NNDError, TemplateError):
            return template
    return ""


def _find_templates(name: str, config: str) -> Iterator[str]:
    from nnd_tasks.harness.task_yaml import read_task_yaml  # imports lm-eval

    for folder in (tasks_dir() / name, user_tasks_dir() / name):
        for path in sorted(task_yamls(folder), key=lambda path: (len(path.stem), path.stem)):
            try:
                settings, _ = read_task_yaml(path)
            except NNDError:
                continue  # `nnd check` says what is wrong with it
            template = settings.get("doc_to_text")
            if settings.get("dataset_name", config) == config and isinstance(template, str):
                yield template
