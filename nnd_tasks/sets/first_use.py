"""The first use of a set: one of the package that is not built here yet is built."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nnd_tasks.errors import NNDError
from nnd_tasks.files import expand
from nnd_tasks.show.console import warn
from nnd_tasks.store import (
    CARD,
    JUDGEMENTS,
    PREFERENCE_CONFIG,
    built_sets,
    config_names,
    dataset_folder,
    how_to_build,
    look_up_set,
    nnd_home,
    read_header,
    read_table,
    tasks_dir,
)
from nnd_tasks.text import did_you_mean

if TYPE_CHECKING:
    import datasets

    from nnd_tasks.sets.recipe import RecipeFile

#: Seconds to wait for another process that builds the same set.
_WAIT = 3600.0


def provide_set(name: str) -> Path:
    """Find the folder of a set; one whose recipe comes with the package is built if it is not there.

    If several processes ask at once, one of them builds, and the others wait.

    Args:
        name: a set, with or without ``nnd/`` before it, or the path of a dataset folder.

    Raises:
        NNDError: there is no such set, it is not one of the package, or its files cannot be had.
    """
    folder = look_up_set(name)
    if folder is not None:
        return folder
    from nnd_tasks.sets.catalogue import list_recipes  # what builds takes a second to import

    recipes = list_recipes()
    set_name = name.removeprefix("nnd/")
    recipe_file = recipes.get(set_name)
    if recipe_file is None or recipe_file.origin != "package":
        raise NNDError(_explain_missing(set_name, recipes))
    folder = look_up_set(set_name)
    if folder is not None:
        return folder
    from nnd_tasks.sets.build import build_set
    from nnd_tasks.sets.write import making

    folder = dataset_folder(set_name)
    with making(folder, _WAIT):
        if look_up_set(set_name) is None:  # else another process has built it while this one waited
            for note in build_set(recipe_file.read(), progress=sys.stderr.isatty()).notes:
                warn(f"note: {note}")
    return folder


def _explain_missing(name: str, recipes: dict[str, RecipeFile]) -> str:
    """Say how to build a set that is not built on first use, or which name may have been meant."""
    if "/" in name or expand(name).exists():
        return f"{name}: no NND dataset is there (no folder with a {CARD}); name one, or a set of `nnd list`"
    blindspots = [path.stem.removeprefix("nnd_") for path in tasks_dir().glob("blindspot/nnd_blindspot_*.yaml")]
    if name in recipes or name in blindspots:
        return f"the set {name!r} is not built in NND_HOME={nnd_home()}; run: {how_to_build(name)}"
    plain = name.lower().replace("-", "_").removeprefix("nnd_")
    meant = did_you_mean(plain, sorted({*recipes, *blindspots, *built_sets()}), end=" ")
    return f"there is no set {name!r}; {meant}nnd list shows those there are"


def load(name: str, config: str | None = None) -> datasets.Dataset | datasets.DatasetDict:
    """Load tests, single judgements, or all splits of preference data; build the set if it is not there (`provide_set`).

    Example:
        ``nnd_tasks.load("quiz_design")[0]`` is one test, with its ``context``, ``high``, ``low`` and ``category``.

    Args:
        name: a set, or the path of a dataset folder.
        config: the config; None takes the default one.

    Returns:
        A row per test, or per judgement of a config of these; of preference data a dataset per split.

    Raises:
        NNDError: there is no such set or config, or the set cannot be built.
    """
    import datasets

    folder = provide_set(name)
    if config in config_names(read_header(folder), PREFERENCE_CONFIG, JUDGEMENTS):
        split = "test" if str(config).endswith(JUDGEMENTS) else None  # of preference data, all
        return datasets.load_dataset(str(folder), config, split=split)
    return datasets.Dataset(read_table(folder, config))
