"""What sets there are, built or not, and what one of them looks like."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
from nnd_tasks.errors import NNDError, typed_reason_of, visible
from nnd_tasks.languages import code_of, language_pair
from nnd_tasks.markdown import code, fenced, plain, table
from nnd_tasks.sets.card import ERRORS, find_fact
from nnd_tasks.sets.shelf import SetRecipe, find_recipe, list_recipes
from nnd_tasks.tables import pick_examples
from nnd_tasks.wording import counted, did_you_mean

_SHOWN = 300  # characters of a text


@dataclass(frozen=True)
class ConfigEntry:
    """A config of a set that is built.

    Attributes:
        name: name of the config.
        tests: number of its tests.
        categories: category -> number of tests.
        points: category -> smallest difference between two models that it can show, in percentage points, as text.
    """

    name: str
    tests: int
    categories: dict[str, int]
    points: dict[str, str]


@dataclass(frozen=True)
class Entry:
    """A set.

    Attributes:
        name: name of the set.
        kind: what a model is asked to do.
        license: licence of texts and judgements.
        errors: ``judged`` or ``made``; ``""`` where nothing says it.
        languages: codes of the languages.
        shipped: whether it comes with the package.
        built: whether it is built and can be read.
        folder: the dataset folder, where there is one.
        recipe: the path of its recipe; ``""`` where it has none.
        published: config -> number of tests in the authors' release, where it is not built.
        configs: configs of the built set.
        state: where it is built, how to build it, or what is wrong with it.
    """

    name: str
    kind: str = ""
    license: str = ""
    errors: str = ""
    languages: list[str] = field(default_factory=list)
    shipped: bool = False
    built: bool = False
    folder: str = ""
    recipe: str = ""
    published: dict[str, int] = field(default_factory=dict)
    configs: list[ConfigEntry] = field(default_factory=list)
    state: str = ""


def catalogue() -> list[Entry]:
    """Return every set that has a recipe, then sets that are built without one. A set that cannot be read says why."""
    recipes = list_recipes()
    entries = [_of_recipe(one) for one in recipes.values()]
    others = [name for name in built_sets() if name not in recipes]
    return entries + [_with_data(Entry(name), dataset_folder(name)) for name in others]


def _of_recipe(one: SetRecipe) -> Entry:
    name, path, shipped = one.name, one.path, one.shipped
    try:
        recipe = one.recipe
    except NNDError as error:
        entry = _with_data(Entry(name, shipped=shipped, recipe=str(path)), dataset_folder(name))
        state = f"recipe unreadable: {error}"
        return replace(entry, state=f"{entry.state}; {state}" if entry.folder else state)
    expected = {recipe.config or "default": sum(recipe.expected.values())} if recipe.expected else {}
    published = dict(recipe.published) or expected
    facts = recipe.facts
    entry = Entry(name, facts.kind or "", facts.license or "", facts.errors, list(facts.language), shipped,
                  recipe=str(path), published=published)  # fmt: skip
    entry = _with_data(entry, dataset_folder(name))
    pairs = [language_pair(config) or () for config in (*published, *(one.name for one in entry.configs))]
    return replace(entry, languages=list(dict.fromkeys([*facts.language, *(code for pair in pairs for code in pair)])))


def _with_data(entry: Entry, folder: Path) -> Entry:
    """Return an entry with what is in its dataset folder."""
    if entry.name not in built_sets():
        return replace(entry, state=f"not built; run: {how_to_build(entry.name)}")
    try:
        configs = [_config(folder, name) for name in list_configs(folder)[0]]
    except NNDError as error:
        return replace(entry, folder=str(folder), state=f"unreadable: {error}")
    except Exception as error:  # any error of a damaged set: it must not hide the other sets
        why = f"{folder}: cannot be read ({typed_reason_of(error)}); build the set again"
        return replace(entry, folder=str(folder), state=f"unreadable: {why}")
    return replace(entry, built=True, folder=str(folder), configs=configs, state=f"built in {folder}")


def _config(folder: Path, name: str) -> ConfigEntry:
    table = read_table(folder, name, ["cluster_id", "category"])
    clusters, categories = (column.to_pylist() for column in table.columns)
    planned = planned_by_category(clusters, categories)
    points = {category: marked_points(planned, category) for category in planned}
    counts = Counter(categories)
    return ConfigEntry(name, table.num_rows, {category: counts[category] for category in planned}, points)


def narrowed(entries: Sequence[Entry], language: str | None = None, task: str | None = None) -> list[Entry]:
    """Return the sets of a language and of a kind of task; None takes all.

    Raises:
        NNDError: no set has this language, or this task.
    """
    of_task = {entry.name: [kind.strip() for kind in entry.kind.split(",") if kind.strip()] for entry in entries}
    of_language = {entry.name: [code.lower() for code in entry.languages] for entry in entries}
    chosen = list(entries)
    for option, value, known in (("--language", language, of_language), ("--task", task, of_task)):
        if value is None:
            continue
        every = sorted({one for values in known.values() for one in values})
        wanted = value.strip().lower()
        if wanted not in every:
            code = code_of(wanted) if option == "--language" else ""
            meant = f"did you mean {code!r}?" if code in every else did_you_mean(wanted, every)
            raise NNDError(f"{option} {value}: no set has it; {meant or 'there are: ' + ', '.join(every)}")
        chosen = [entry for entry in chosen if wanted in known[entry.name]]
    return chosen


def listing(entries: Iterable[Entry], *, brief: bool = False) -> str:
    """Return a table of sets as Markdown: a row per config, or with ``brief`` a row per set."""
    rows = []
    for entry in entries:
        built = entry.state == f"built in {entry.folder}"
        name, state = code(entry.name), f"built in {code(entry.folder)}" if built else plain(entry.state)
        about = plain(
            "; ".join(
                part
                for part in (
                    "" if entry.shipped else "your own",
                    entry.kind,
                    entry.license,
                    f"errors: {entry.errors}" if entry.errors else "",
                )
                if part
            )
        )
        counts = {config.name: config.tests for config in entry.configs} or entry.published
        if brief:
            default = f"{next(iter(counts.values())):,}" if counts else "-"
            rows.append([name, default, plain(entry.license), "built" if entry.built else state])
            continue
        categories = {
            config.name: ", ".join(
                f"{plain(category)} {count:,} ({config.points[category]})"
                for category, count in config.categories.items()
            )
            for config in entry.configs
        }
        for config, tests in counts.items() or [("-", None)]:
            tests_cell = "-" if tests is None else f"{tests:,}"
            rows.append([name, about, plain(config), tests_cell, categories.get(config, "-"), state])
            name = about = state = ""
    if brief:
        return "\n".join(table(["set", "tests", "licence", "state"], rows, right=["tests"]))
    head = ["set", "about", "config", "tests", "categories", "state"]
    legend = (
        "In parentheses: smallest difference between two models that a category can show, in percentage points; ‡: too few "
        "tests to tell models apart; none: they can show none; ?: not known."
    )
    return "\n".join([*table(head, rows, right=["tests"]), "", legend])


# ---------------------------------------------------------------- one set


def describe(name: str, config: str | None = None, count: int = 5, *, brief: bool = False) -> Iterator[str]:
    """Yield lines of Markdown about a set: facts, its prompt, and tests of each category in turn.

    Args:
        name: of the set, or the path of a dataset folder or a recipe.
        config: whose tests are shown; None takes the default one.
        count: how many tests.
        brief: only what it is, its licence, and whether it is built.

    Raises:
        NNDError: there is no such set, or it has no such config.
    """
    folder = look_up_set(name)
    recipe, broken = _recipe(name, needed=folder is None)
    if recipe is not None:
        facts = recipe.recipe.facts
        yield f"# {plain(facts.title or name)} ({plain(name)})"
        yield ""
        for key in ("summary", "license") if brief else ("summary", "judges", "license", "language", "homepage"):
            yield f"- {key}: {plain(find_fact(facts, key))}"
        if not brief:
            yield f"- rule: {plain(recipe.recipe.rule_text())}"
            yield f"- errors: {plain(ERRORS[facts.errors])}"
            yield f"- recipe: {code(str(recipe.path), in_table=False)}"
    elif folder is not None:
        header, _ = read_card(folder)
        yield f"# {plain(str(header.get('pretty_name', name)))} ({plain(name)})"
        yield ""
        yield f"- license: {plain(str(header.get('license', '')))}"
    if broken:
        yield f"- recipe unreadable: {plain(broken)}"
    if folder is None:
        yield f"- not built; run: {code(how_to_build(name), in_table=False)}"
        return
    names, default = list_configs(folder)
    table = read_table(folder, config or default)
    yield f"- built in {code(str(folder), in_table=False)}: {', '.join(map(plain, names))}"
    if brief:
        yield f"- {counted(table.num_rows, 'test')} in config {plain(config or default)}"
        return
    yield ""
    own = recipe.name if recipe is not None else "" if "/" in name else name
    title, prompt = _prompt(own, config or default, table.slice(0, 1).to_pylist()[0]) if own else ("", "")
    if title:
        yield title
        yield ""
        yield from fenced("", *map(visible, prompt.split("\n")))
        yield ""
    yield f"{counted(min(count, table.num_rows), 'test')} of {table.num_rows:,} of config {plain(config or default)}:"
    for test in pick_examples(table, count):
        yield ""
        yield f"**{plain(test['category'])}**"
        yield ""
        for part in ("context", "high", "low"):
            text = " ".join(test[part].split())
            yield f"- {part}: {plain(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + '…')}"


def _recipe(name: str, *, needed: bool) -> tuple[SetRecipe | None, str]:
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


def _prompt(name: str, config: str, row: dict[str, Any]) -> tuple[str, str]:
    """Return a title and the prompt of a test as the set's task renders it; ``""`` where no task scores this config.

    A template that cannot be rendered is shown as it is.
    """
    from nnd_tasks.harness.task_yaml import read_task_yaml  # imports lm-eval

    for folder in (tasks_dir() / name, user_tasks_dir() / name):
        for path in sorted(task_yamls(folder), key=lambda path: (len(path.stem), path.stem)):
            try:
                settings, _ = read_task_yaml(path)
            except NNDError:
                continue  # `nnd check` says what is wrong with it
            template = settings.get("doc_to_text")
            if settings.get("dataset_name", config) == config and isinstance(template, str):
                return _rendered(template, row)
    return "", ""


def _rendered(template: str, row: dict[str, Any]) -> tuple[str, str]:
    from jinja2 import TemplateError

    from nnd_tasks.harness.sandbox import SANDBOX

    try:
        if re.search(r"{%-?\s*(?!if|elif|else|endif|-)|\*", template):  # a loop or a product may take any time
            raise TemplateError
        return "What a model reads:", str(SANDBOX.from_string(template).render(row))
    except (NNDError, TemplateError):
        return "What a model reads is made by this template:", template
