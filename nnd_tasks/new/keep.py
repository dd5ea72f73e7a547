"""Build a recipe; a user's own recipe is stored with a task, so that `nnd list` and `nnd run` know its set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nnd_tasks.build import BuildResult, build_set
from nnd_tasks.datasets import list_configs, read_table, tasks_dir, user_tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.harness.user_tasks import UserTask, remove_user_task, shipped_task, user_task, write_task
from nnd_tasks.languages import language_pair, translation_prompt
from nnd_tasks.new.own_task import check_prompt, task_fields, write_recipe
from nnd_tasks.recipes.parse import with_keys
from nnd_tasks.recipes.recipe import FILE, FOLDER, Recipe
from nnd_tasks.recipes.shelf import find_recipe
from nnd_tasks.yaml_json import read_yaml


def build_recipe(
    name: str,
    source: str | Path | None = None,
    out: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    *,
    languages: str | None = None,
    progress: bool = True,
    replace: bool = False,
) -> tuple[BuildResult, list[UserTask]]:
    """Build a set as `nnd_tasks.build.build_set` does; return what it made, and the tasks that were written for it.

    A set of the user's own gets a task for each of its configs, and so does each config of translations for which the package
    has none.

    A recipe from elsewhere is copied to ``$NND_HOME/task_yamls/NAME/_recipe``, and its task is made from it. Task YAMLs that
    came with it are ignored, because lm-eval runs code that they name. With ``out``, only the dataset folder is written.

    Raises:
        NNDError: as `build_set`.
    """
    set_recipe = find_recipe(name)
    name, recipe = set_recipe.name, set_recipe.recipe
    if not set_recipe.shipped:
        check_prompt(recipe)
    try:
        result = build_set(set_recipe, source, out, options, languages=languages, progress=progress, replace=replace)
    except NNDError as error:
        if set_recipe.shipped:
            raise
        raise NNDError(with_keys(str(error))) from error
    task = f"nnd_{name}"
    if out is not None or (shipped_task(task) is not None and not set_recipe.shipped):
        return result, []
    if set_recipe.shipped:
        return result, _translation_tasks(name, result, replace=replace) if set_recipe.has_translations else []
    tasks = _own_tasks(name, recipe, result, replace=replace)
    write_recipe(name, recipe.dump())
    return result, tasks


def _own_tasks(name: str, recipe: Recipe, result: BuildResult, *, replace: bool) -> list[UserTask]:
    """Write the task of a user's set, and ``nnd_NAME_CONFIG`` for each further config, such as the clean one."""
    task, several = f"nnd_{name}", recipe.config in (FILE, FOLDER) or any(one.config for one in recipe.files.values())
    if replace:
        remove_user_task(task)
    own, default = user_task(task), list_configs(result.folder)[1]
    # The default config may be another one after a build of other files; a task stays with its own.
    main = read_yaml(own).get("dataset_name", default) if several and own.is_file() else default
    tasks = []
    for config in (one.name for one in result.built):
        fields = task_fields(name, recipe, read_table(result.folder, config))
        fields = {**fields, "dataset_name": config} if several or config != default else fields
        further = "" if config == main else f"_{config}"
        if further and shipped_task(task + further) is not None:
            result.notes.append(f"{config}: no task is written, as {task + further} comes with the package")
            continue
        if replace and further:
            (own.parent / f"{task}{further}.yaml").unlink(missing_ok=True)
        tasks.append(write_task(task + further, fields, own.parent))
    return tasks


def _translation_tasks(name: str, result: BuildResult, *, replace: bool) -> list[UserTask]:
    """Write a task for each config for which the package has none, with a prompt for its languages; add notes to ``result``."""
    folder = user_tasks_dir() / name
    shipped = [path for path in (tasks_dir() / name).iterdir() if path.suffix == ".yaml" or path.name == "_base"]
    covered = {read_yaml(path).get("dataset_name") for path in shipped}
    tasks, neutral = [], []
    for summary in result.built:
        config, task = summary.name, f"nnd_{name}_{summary.name}"
        if config in covered:
            continue
        if shipped_task(task) is not None:
            result.notes.append(f"{config}: no task is written, as {task} scores another config; rename the file")
            continue
        said = result.report[config].get("languages")
        languages = (said[0], said[1]) if said else language_pair(config)
        if languages is None:
            neutral.append(task)
        if replace:
            (folder / f"{task}.yaml").unlink(missing_ok=True)
        metadata = {"version": "1-A", "categories": sorted(summary.categories)}
        prompt = {"dataset_path": f"nnd/{name}", "dataset_name": config, "doc_to_text": translation_prompt(languages)}
        written = write_task(task, {**prompt, "metadata": metadata}, folder)
        if written.kept:
            result.notes.append(
                f"{written.path}: was there and is kept; this build would write another, with --replace"
            )
        tasks.append(written)
    if neutral:
        hint = "say them with --languages SOURCE-TARGET, such as zh-en"
        result.notes.append(
            f"{' and '.join(neutral)}: the prompt names no languages, as the file's name has none; {hint}"
        )
    return tasks
