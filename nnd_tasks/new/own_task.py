"""The task of a user's own set: its prompt, its YAML, and the files of a pull request."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from nnd_tasks.card import dump_yaml, safe
from nnd_tasks.card_sections import NND_CITATION, left_out
from nnd_tasks.datasets import user_tasks_dir
from nnd_tasks.errors import NNDError, reason_of
from nnd_tasks.files import changing, write_text, write_texts
from nnd_tasks.markdown import cell, code, fenced, table
from nnd_tasks.recipes.chat import ends_open
from nnd_tasks.recipes.recipe import Recipe
from nnd_tasks.recipes.shelf import RECIPE
from nnd_tasks.schema import RESERVED_COLUMNS
from nnd_tasks.tables import ConfigSummary
from nnd_tasks.wording import counted
from nnd_tasks.yaml_json import read_yaml, yaml_mapping

#: Prompt where only some contexts are dialogues that end with ``Assistant:``: with it, all prompts end with that word.
_OPEN = "{{context}}{% if not context.endswith('Assistant:') %}\n\nAssistant:{% endif %}"


def check_prompt(recipe: Recipe) -> None:
    """Raise NNDError for a prompt that is not a template, or names a field that a document does not have."""
    if recipe.prompt is None:
        return
    from jinja2 import Environment, TemplateError, meta

    try:
        names = meta.find_undeclared_variables(Environment(autoescape=False).parse(recipe.prompt))  # noqa: S701
    except TemplateError as error:
        raise NNDError(f"--prompt: no valid template ({reason_of(error)})") from error
    known = ["context", *sorted(recipe.field)]
    wrong = sorted(names - set(known))
    if wrong:
        raise NNDError(f"--prompt: there is no {wrong[0]!r}; a prompt can name {', '.join(known)}")


def task_fields(name: str, recipe: Recipe, tests: pa.Table) -> dict[str, Any]:
    """Return the keys of the task's YAML besides ``include`` and ``task``.

    Without a prompt in the recipe a model reads the context, the prompt fields, and an empty line; after a dialogue that ends
    where the assistant's turn begins, nothing is added.

    Args:
        name: of the set.
        recipe: of the set.
        tests: the tests of the set.
    """
    prompt = _default_prompt(recipe, tests) if recipe.prompt is None else recipe.prompt
    categories = tests.column("category").unique().to_pylist()
    fields: dict[str, Any] = {"dataset_path": f"nnd/{name}", "doc_to_text": prompt}
    # By default a space separates prompt and candidate; after white space it would be one too many.
    if not prompt or prompt[-1].isspace():
        fields["target_delimiter"] = ""
    return {**fields, "metadata": {"version": "1-A", "categories": sorted(categories)}}


def _default_prompt(recipe: Recipe, tests: pa.Table) -> str:
    fields = [column for column in tests.column_names if column not in RESERVED_COLUMNS]
    open_ends = [ends_open(text) for text in tests.column("context").unique().to_pylist()] if recipe.pairs else []
    if not fields and any(open_ends):
        return "{{context}}" if all(open_ends) else _OPEN
    parts = ["{{context}}", *(f"{field}: {{{{{field}}}}}" for field in fields)]
    return "".join(f"{part}\n\n" for part in parts)


def check_checkout(folder: Path, name: str) -> None:
    """Raise NNDError for a folder that is not a checkout of nnd-tasks, or in which the files of a set cannot be written."""
    if not (folder / "task_yamls" / "_base").is_file():
        raise NNDError(f"--into {folder}: no checkout of nnd-tasks is there (it has no task_yamls/_base)")
    place = folder / "task_yamls" / name
    with changing(f"--into {folder}: {place}"):
        made = not place.exists()
        place.mkdir(exist_ok=True)
        try:
            with tempfile.TemporaryFile(dir=place):
                pass
        finally:
            if made:
                place.rmdir()
    for file in _files(name):
        if (place / file).is_dir():
            raise NNDError(f"--into {folder}: {place / file} is a folder; move it away")


def _files(name: str) -> list[str]:
    return [RECIPE, f"nnd_{name}.yaml", "README.md"]


def in_checkout(task: Path, folder: Path | None) -> bool:
    """Tell whether the YAML of a task belongs to the set of its name in a checkout."""
    return folder is not None and task.parent.parent.resolve() == (folder / "task_yamls").resolve()


def differs(task: Path, fields: Mapping[str, Any]) -> bool:
    """Tell whether the YAML of a task differs from ``fields`` in more than ``include``, ``task`` and the version."""
    try:
        said = read_yaml(task)
    except NNDError:
        return True
    if not isinstance(said, dict) or not isinstance(said.get("metadata"), dict):
        return True
    own = {key: value for key, value in said.items() if key not in ("include", "task")}
    return {**own, "metadata": {**own["metadata"], "version": fields["metadata"]["version"]}} != dict(fields)


def write_contribution(
    checkout: Path, name: str, fields: Mapping[str, Any], recipe: Mapping[str, Any], readme: str
) -> list[Path]:
    """Write the files of a pull request: recipe, task and README, in a folder of ``task_yamls``; all or none.

    Raises:
        NNDError: the checkout cannot be written.
    """
    folder = checkout / "task_yamls" / name
    task = yaml_mapping({"include": "../_base", "task": f"nnd_{name}", **fields})
    texts = (dump_yaml(recipe), task, readme)
    contents = dict(zip((folder / file for file in _files(name)), texts, strict=True))
    write_texts(contents, hint="name another checkout with --into")
    return list(contents)


def write_recipe(name: str, recipe: Mapping[str, Any]) -> Path:
    """Write the recipe of a user's set beside its task, where `nnd build` and `nnd list` find it; return its path.

    Raises:
        NNDError: it cannot be written.
    """
    path = user_tasks_dir() / name / RECIPE
    write_text(path, dump_yaml(recipe))
    return path


def task_readme(name: str, recipe: Recipe, summary: ConfigSummary, report: Mapping[str, Any]) -> str:
    """Return the README beside the task, in the form of lm-eval's own tasks; it holds no text of the set."""
    facts = recipe.facts(name)
    title = safe(" ".join(facts.title.split()))
    sources = [f"* {code(file)}, SHA-256 `{digest}`" for file, digest in report["source_sha256"].items()]
    dropped = [f"* {safe(text)}" for text in left_out(report["dropped"], report.get("unranked_labels", ())).values()]
    rows = [[cell(category), f"{count:,}"] for category, count in summary.categories.items()]
    blocks = [
        f"# {title} NND",
        "### Paper",
        f"Title: {title}",
        f"Abstract: {safe(facts.say('summary'))}",
        f"Judges: {safe(facts.say('judges'))}",
        f"Homepage: {safe(facts.say('homepage'))}",
        f"Licence: {safe(facts.say('license'))}. Languages: {safe(facts.say('language'))}.",
        "### Citation",
        "\n".join(fenced("bibtex", facts.say("citation").strip(), NND_CITATION)),
        "### Groups, Tags, and Tasks",
        "#### Groups",
        "* Not part of a group.",
        "#### Tasks",
        f"* `nnd_{name}`: {counted(summary.tests, 'test')} of {counted(summary.clusters, 'prompt')}.",
        "### Data",
        f"{safe(facts.rule)} `_recipe` says how the set is made; the texts are not part of this folder.",
        "\n".join(table(["category", "tests"], [*rows, ["all", f"{summary.tests:,}"]])),
        *(["Source:", "\n".join(sources)] if sources else []),
        *(["Left out:", "\n".join(dropped)] if dropped else []),
        "### Usage",
        f"```bash\nnnd build {name} --source FILE\n"
        f"nnd run --model hf --model_args pretrained=DIR,softmax_dtype=float32 --tasks nnd_{name}\n```",
        "### Checklist",
        "* [x] Is the task an existing benchmark in the literature? Its texts are; the tests are made from them.\n"
        "* [ ] Does the original paper provide a reference implementation? Not of these tests.",
        "### Changelog",
        "* version 1-A: first version.",
    ]
    return "\n\n".join(blocks) + "\n"
