"""Check a set as a reviewer would: its folder, card, recipe and tasks; or only its recipe. The rules of tests are in `rules.py`.

A folder is read with all its faults: where `nnd_tasks.store.read_table` raises an error, this adds a finding. The report is
Markdown, for terminals too, or JSON.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import meta
from jinja2.sandbox import SandboxedEnvironment

from nnd_tasks import schema
from nnd_tasks.contribute.check.rules import Finding, Severity, Tests, check_tests, finding
from nnd_tasks.errors import NNDError, reason_of, visible
from nnd_tasks.files import expand, noting, read_text
from nnd_tasks.languages import check_languages
from nnd_tasks.markdown import code, escape_markdown
from nnd_tasks.publishers.licences import is_open, licence_names
from nnd_tasks.schema import clean_name, find_faults, fingerprint
from nnd_tasks.sets.build import compare_counts
from nnd_tasks.sets.catalogue import find_recipe_file, list_recipes
from nnd_tasks.sets.first_use import provide_set
from nnd_tasks.sets.recipe import PREPARE, RECIPE, Recipe, RecipeFile, make_recipe, read_recipe
from nnd_tasks.sets.write import KNOWN_BY_PEOPLE
from nnd_tasks.show.forms import dump_json
from nnd_tasks.store import (
    CARD,
    SPLIT,
    config_names,
    default_config,
    how_to_build,
    look_up_set,
    read_config,
    read_header,
    read_report,
    task_yamls,
    tasks_dir,
)
from nnd_tasks.tables.cells import FILE
from nnd_tasks.tables.decode import split_ending
from nnd_tasks.tables.read import SUFFIXES
from nnd_tasks.task.sandbox import SANDBOX, doubles_space, fill_template
from nnd_tasks.task.settings import READER_KEYS, Settings, check_config
from nnd_tasks.task.task_files import CLASS, SAMPLER, list_variants, read_task_yaml, written_folders
from nnd_tasks.text import counted, some_of

#: Keys of a task in lm-eval 0.4.13 (`lm_eval.config.task.TaskConfig`), ``class``, and our own.
_KEYS = re.compile(
    "class|custom_dataset|dataset_(path|name|kwargs)|description|doc_to_(audio|choice|decontamination_query|image|target|text)"
    "|fewshot_(config|delimiter|split)|filter_list|gen_prefix|generation_kwargs|metadata|metric_list|num_fewshot|output_type"
    "|process_(docs|results)|repeats|should_decontaminate|tag|target_delimiter|task|task_alias|(test|training|validation)_split"
    f"|unsafe_code|use_prompt|variants|{'|'.join(READER_KEYS)}"
)


@dataclass
class Folder:
    """A dataset folder.

    Attributes:
        path: where it is.
        header: YAML header of the card; empty where it cannot be read.
        card: the whole card.
        report: config -> its part of ``build_report.json``.
        names: of all configs: those of the card in its order, then others that have data.
        configs: those that are checked and have data in the columns of the schema.
        findings: faults that came up in reading it.
    """

    path: Path
    header: dict[str, Any]
    card: str
    report: dict[str, Any]
    names: list[str]
    configs: dict[str, Tests] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Name of the set: what its card says, else the folder's."""
        return self.header.get("nnd_set") or self.path.resolve().name


def read_folder(path: Path, only: Collection[str] = ()) -> Folder:
    """Read the card and the data of a folder; with ``only``, of these configs.

    Raises:
        NNDError: it is not a dataset of tests at all, or has no such config.
    """
    header, findings = {}, []
    stored = sorted({file.parent.name for file in path.glob(f"*/{SPLIT}-*.parquet")})
    try:
        header = read_header(path, any_version=True)
    except NNDError as error:
        if not stored:
            raise
        findings.append(finding("card_header", str(error)))
    else:
        version = header["nnd_schema_version"]
        if version != schema.SCHEMA_VERSION:
            findings.append(finding("schema_version", f"{version}; this release reads {schema.SCHEMA_VERSION}"))
        listed = config_names(header)
        findings += [finding("data_missing", "", name) for name in listed if name not in stored]
        findings += [finding("config_unlisted", "", name) for name in stored if name not in listed]
    names = list(dict.fromkeys([*config_names(header), *stored]))
    unknown = [name for name in only if name not in names]
    if unknown:
        raise NNDError(f"{path}: it has no config {unknown[0]!r}, only {', '.join(names)}")
    folder = Folder(path, header, read_text(path / CARD), read_report(path), names, findings=findings)
    for name in only or names:
        if name in stored:
            folder.findings += _read_config(folder, name)
    return folder


def _read_config(folder: Folder, name: str) -> Iterator[Finding]:
    try:
        table, faults = find_faults(read_config(folder.path, name))
    except NNDError as error:
        yield finding("data_unreadable", str(error), name)
        return
    for fault, note, rows in faults:
        yield finding(fault, note, name, count=rows)
    for column in {*table.column_names} - schema.RESERVED_COLUMNS:
        if column in schema.DOCUMENT_COLUMNS:
            yield finding("column_name", f"{column!r} is in use for documents", name, severity=Severity.ERROR)
        elif not column.isidentifier():
            yield finding("column_name", repr(column), name)
    if faults:
        return
    facts = folder.report.get(name)
    if isinstance(facts, dict) and facts.get("fingerprint") not in (None, fingerprint(table)):
        yield finding("report_mismatch", "", name)
    frame = pd.DataFrame(table.to_pydict(), dtype=object)
    choices = isinstance(facts, dict) and facts.get("recipe", {}).get("candidates") == "choices"
    folder.configs[name] = Tests(name, frame, clean_name(name) in folder.names, choices)


def check_set(name: str, *, configs: Collection[str] = (), tasks: Collection[Path] = ()) -> CheckReport:
    """Check a set for everything that a reviewer would look for.

    Args:
        name: a set that is built here, a dataset folder, or a recipe (or a folder with one), which is checked without data.
        configs: those to check; all where there is none.
        tasks: folders with YAMLs of tasks, besides those that `nnd run` knows.

    Raises:
        NNDError: there is no such dataset, config or folder.
    """
    for tasks_folder in tasks:
        if not tasks_folder.is_dir():
            raise NNDError(f"--tasks {tasks_folder}: there is no such folder")
    path, built = expand(name), look_up_set(name)
    if path.is_file() and split_ending(path)[0] in SUFFIXES:
        raise NNDError(f"{name}: is a table, of which nnd new NAME --from {name} makes a set; then nnd check NAME")
    sent = path / RECIPE if path.is_dir() else path
    if sent.is_file() and not (built and [*built.glob(f"*/{SPLIT}-*.parquet")]):
        sent_file = find_recipe_file(str(sent.absolute()))
        recipe, findings = check_recipe(sent_file)
        findings += check_sent_tasks(sent_file, recipe)
        return CheckReport(sent_file.name, sent.parent, findings=findings)
    folder = read_folder(provide_set(name), configs)
    findings, must_cite = folder.findings, True
    sizes = {
        config: {
            "tests": len(tests.frame),
            "contexts": tests.frame["cluster_id"].nunique(),
            "categories": tests.frame["category"].value_counts().sort_index().to_dict(),
        }
        for config, tests in folder.configs.items()
    }
    prepare = folder.path / PREPARE
    if prepare.is_file():
        findings += check_code(prepare)
    recipe_file = list_recipes().get(folder.name)
    if recipe_file:
        recipe, of_recipe = check_recipe(recipe_file)
        findings += [item for item in of_recipe if item.code != "recipe_fact"]  # those are said of the card, too
        if recipe:
            counts = {config: size["categories"] for config, size in sizes.items()}
            if not configs:
                findings += [finding("recipe_counts", note) for note in compare_counts(recipe, counts)]
            must_cite = bool(recipe.facts.citation) or recipe_file.origin != "package"
    for config, facts in folder.report.items():
        if doubtful := facts.get("doubtful") if isinstance(facts, dict) else None:
            findings.append(
                finding(
                    "doubtful_rows", "; ".join(f"{column}: {values}" for column, values in doubtful.items()), config
                )
            )
    findings += check_card(folder, must_cite=must_cite)
    findings += check_tests([*folder.configs.values()])
    faulty = {item.config for item in findings if item.severity is Severity.ERROR}
    folder.configs = {config: tests for config, tests in folder.configs.items() if config not in faulty}
    tasks_of_set = _find_tasks(folder, [*written_folders(), *tasks])
    if not tasks_of_set:
        findings.append(finding("task_missing", f"nnd/{folder.name}"))
    for task in tasks_of_set:
        findings += _check_task(task, folder)
    findings.sort(key=lambda item: -item.severity)
    return CheckReport(folder.name, folder.path, sizes, [task.name for task in tasks_of_set], findings)


# ---------------------------------------------------------------- what was found


@dataclass(frozen=True)
class CheckReport:
    """What was found in a set.

    Attributes:
        name: of the set.
        folder: where it is.
        sizes: config -> number of tests, of prompts (its key is ``contexts``), and of tests by category; configs without readable
            columns are not in it.
        tasks: names of the tasks that read the set.
        findings: the worst first.
    """

    name: str
    folder: Path
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tasks: Sequence[str] = ()
    findings: Sequence[Finding] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Severity -> number of findings, the worst first."""
        severities = Counter(item.severity for item in self.findings)
        return {severity.label: severities[severity] for severity in reversed(Severity)}

    @property
    def totals(self) -> str:
        """The numbers of findings in words."""
        return ", ".join(counted(number, label) for label, number in self.counts.items())

    def json(self) -> str:
        """The report for programs; its keys are an interface."""
        findings = [{**asdict(item), "severity": item.severity.label} for item in self.findings]
        content = {"set": self.name, "folder": str(self.folder), "configs": self.sizes, "tasks": self.tasks}
        return dump_json({**content, "counts": self.counts, "findings": findings})

    def markdown(self, *, texts: bool = True, rendered: bool = True) -> str:
        """The report as Markdown.

        Args:
            texts: whether texts of the set may be quoted.
            rendered: escape text from the data, so that it becomes neither formatting nor a link; a terminal shows it as it is.
        """
        page = SandboxedEnvironment(autoescape=False)
        escape = _escape_links if rendered else visible
        page.filters |= {"plain": lambda value: escape(str(value)), "code": code}
        template = page.from_string(Path(__file__).with_name("report.md.jinja").read_text("utf-8"))
        return template.render(vars(self), totals=self.totals, texts=texts)


#: The part of an address that makes a renderer turn it into a link; on GitHub also mentions and references to issues, which
#: it looks for in the rendered text, where the # of an entity is none.
_LINK = re.compile(r":(?=//)|(?<=www)\.|@|(?<!\\)\\#|(?<!&)#|(?<=gh)-", re.IGNORECASE)


def _escape_links(text: str) -> str:
    """Do what `escape_markdown` does, and break each address, mention (@name) and reference (#1, gh-1) of GitHub.

    A character without width breaks it, so that it does not become a link.
    """
    return _LINK.sub(lambda match: f"&#{ord(match[0][-1])};&#8203;", escape_markdown(text))


# ---------------------------------------------------------------- the card

#: Keys of BibTeX, apart from that on our cards that cites the method, not the judgements.
_KEY = re.compile(r"^[ \t]*@\w+\s*\{\s*(?!laban2022nnd)\w", re.MULTILINE | re.IGNORECASE)


#: Fact -> where the template writes it, still to be filled in. Elsewhere a text may say TODO.
_TODOS = {
    "license": r"Licence: TODO\b",
    "summary": r"^TODO\b[^\n]*\n+## Sizes",
    "judges": r"^Judges: TODO\b",
    "homepage": r"^(Human evaluation|Texts): .*, TODO\b",
    "citation": r"^```bibtex\nTODO\b",
}


def find_todos(header: Mapping[str, Any], body: str) -> list[str]:
    """Return the fields of a card whose value begins with TODO: keys of its header, and facts that its text states."""
    fields = []
    for key, value in header.items():
        values = value if isinstance(value, list) else [value]
        if any(isinstance(item, str) and re.match(r"TODO\b", item) for item in values):
            fields.append(key)
    facts = [key for key, pattern in _TODOS.items() if re.search(pattern, body, re.MULTILINE)]
    return list(dict.fromkeys([*fields, *facts]))


def check_card(folder: Folder, *, must_cite: bool) -> Iterator[Finding]:
    """Check the header and the text of a card; only the text where the header cannot be read.

    Args:
        folder: the set.
        must_cite: whether there is a human evaluation to cite.
    """
    fields = find_todos(folder.header, folder.card)
    if fields:
        yield finding("card_todo", ", ".join(fields), count=len(fields))
    if must_cite and "citation" not in fields and not _KEY.search(folder.card):
        yield finding("card_citation_origin")
    if folder.header:
        if not folder.header.get("language"):
            yield finding("card_language")
        # Sets made of a corpus, with errors put in, are of texts whose terms we know.
        corpus = any("corpus" in facts for facts in folder.report.values() if isinstance(facts, dict))
        for licence in licence_names(folder.header.get("license")) or ["unknown"]:
            if licence == "unknown":
                yield finding("card_license")
            elif licence == "other":
                if not corpus:
                    yield finding("card_license_other")
            elif not (licence.startswith("todo") or is_open(licence)):
                closed = "-nd-" in licence or licence in ("proprietary", "all rights reserved")
                fix = (
                    {} if closed else {"fix": "name it by its identifier on the hub, such as cc-by-4.0, if it has one"}
                )
                yield finding("card_license_closed", licence, **fix)


# ---------------------------------------------------------------- the recipe, and its code, which is read and not run


def check_recipe(recipe_file: RecipeFile) -> tuple[Recipe | None, list[Finding]]:
    """Check a recipe without its data: nothing that it names is read, downloaded or run.

    Returns:
        The recipe, None where it cannot be used, and the findings.
    """
    findings = [*check_code(recipe_file.prepare)] if recipe_file.prepare and recipe_file.origin != "package" else []
    values: dict[str, Any] = {}
    try:
        values = read_recipe(recipe_file.path)
        recipe = make_recipe(values, recipe_file.path.name)
    except NNDError as error:
        code = "recipe_key" if values.keys() - Recipe.model_fields.keys() else "recipe_invalid"
        return None, [finding(code, str(error)), *findings]
    judged = recipe.label or recipe.score or recipe.attribute
    complete = recipe.context and recipe.candidate and judged and recipe.rules
    if not (recipe.pairs or recipe_file.prepare or complete):
        needs = (
            "a recipe of single texts names context, candidate, label or score, and one of better, min_gap, majority"
        )
        findings.append(finding("recipe_invalid", needs))
    facts = [
        key
        for key in KNOWN_BY_PEOPLE
        if getattr(recipe.facts, key) in (None, ()) and (key != "language" or recipe.config != FILE)
    ]
    if facts:
        findings.append(finding("recipe_fact", ", ".join(facts), count=len(facts)))
    files = [name for name, file in recipe.files.items() if file and file.url and not file.sha256]
    if files:
        findings.append(finding("recipe_unverified", some_of(files, show=str), count=len(files)))
    return recipe, findings


def check_code(path: Path) -> Iterator[Finding]:
    """Check a ``prepare.py`` without running it: name what deserves a second look. That nothing does proves nothing."""
    try:
        tree = ast.parse(read_text(path))
    except (NNDError, SyntaxError, ValueError, RecursionError) as error:
        yield finding("recipe_invalid", f"{path}: cannot be read as Python ({reason_of(error)})")
        return
    if "rows" not in [getattr(node, "name", "") for node in tree.body]:
        yield finding("recipe_invalid", f"{path}: it has no function rows(folder)")
        return
    marked = [f"{words} in line {getattr(node, 'lineno', '?')}" for node in ast.walk(tree) for words in _look_at(node)]
    note = f"look at {some_of(marked, show=str)}" if marked else "nothing in it stands out"
    yield finding("prepare_code", note, severity=Severity.WARNING if marked else Severity.NOTE, count=len(marked))


#: What a ``prepare.py`` may import without a second look.
_HARMLESS = re.compile(
    r"(__future__|collections|csv|itertools|json|math|nnd_tasks|numpy|pandas|pathlib|re|typing|xml)(\..*)?"
)
#: Names that can do more than read tables: run code, change files or reach the network.
_MARKED = re.compile(
    "__.*|breakpoint|chmod|compile|(del|get|set)attr|eval|exec|globals|(hard|sym)link_to|locals|mkdir|open|popen|remove|rename"
    "|read_(clipboard|html|pickle|sql)|rm(dir|tree)|to_(clipboard|csv|excel|json|parquet|pickle|sql)|touch|unlink"
    "|url(open|retrieve)|vars|write(_bytes|_text)?"
)


def _look_at(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [f"import {module.name}" for module in names if not _HARMLESS.fullmatch(module.name)]
        case ast.ImportFrom(module=module) if not _HARMLESS.fullmatch(module or ""):
            return [f"import {module or 'of a file beside it'}"]
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) if _MARKED.fullmatch(name):
            return [name]
        case ast.Attribute(attr="system"):  # of os; a variable may well have this name
            return ["system"]
        case ast.Constant(value=str(text)) if re.match(r"\w+://", text):
            return [text]
    return []


# ---------------------------------------------------------------- the tasks, without lm-eval


@dataclass(frozen=True)
class Task:
    """A task of a set.

    Attributes:
        name: of the task.
        path: of its YAML.
        config: that it reads.
        settings: the YAML, with what it includes.
        foreign: what it names that is not of this package.
    """

    name: str
    path: Path
    config: str
    settings: dict[str, Any]
    foreign: tuple[str, ...] = ()


def _find_tasks(folder: Folder, folders: Iterable[Path]) -> list[Task]:
    """Find the tasks that read a set, and add findings on YAMLs that seem to belong to it and cannot be used.

    Args:
        folder: the set.
        folders: where to look; as for lm-eval, a task in a later folder replaces one of the same name.
    """
    tasks: dict[str, Task] = {}
    variants: dict[str, Task] = {}
    faults: list[str] = []
    for tasks_folder in folders:
        here: dict[str, Task] = {}
        for path in sorted(task_yamls(tasks_folder)):
            try:
                settings, foreign = read_task_yaml(path)
            except NNDError as error:
                if path.parent.name == folder.name:
                    faults.append(str(error))
                continue
            data = str(settings.get("dataset_path"))
            if data != f"nnd/{folder.name}" and Path(data).resolve() != folder.path.resolve():
                continue
            if "group" in settings:
                continue
            name = str(settings.get("task"))
            if name in here:
                faults.append(f"{here[name].path.name} and {path} are both called {name}")
            task = Task(
                name,
                path,
                str(settings.get("dataset_name") or default_config(folder.header) or folder.names[0]),
                settings,
                foreign,
            )
            here[name] = task
            with noting(faults):
                for variant, change in list_variants(settings).items():
                    config = str(change.get("dataset_name", task.config))
                    variants[variant] = replace(task, name=variant, config=config, settings={**settings, **change})
        tasks |= here
    folder.findings += [finding("task_invalid", fault) for fault in faults]
    return [*{**variants, **tasks}.values()]


def check_sent_tasks(recipe_file: RecipeFile, recipe: Recipe | None) -> Iterator[Finding]:
    """Check the prompt of a recipe and the tasks beside it, without data: a few words stand for each field."""
    fields = dict.fromkeys(["context", *(recipe.field if recipe else ())], "some words")
    loose = recipe is None or recipe_file.prepare is not None  # then the data may have other fields
    if recipe and recipe.template is not None:
        yield from _check_template(recipe.template, fields, "prompt of the recipe", loose=loose)
    for path in sorted(recipe_file.path.parent.glob("*.yaml")):
        try:
            settings, foreign = read_task_yaml(path)
        except NNDError as error:
            yield finding("task_invalid", str(error))
            continue
        if not foreign and ("task" not in settings or "group" in settings):
            continue
        yield from _find_wrong_settings(Task(path.name, path, settings.get("dataset_name") or "", settings, foreign))
        for template in [settings.get("doc_to_text"), *_around(settings)]:
            if isinstance(template, str):
                yield from _check_template(template, fields, path.name, loose=loose)


def _find_wrong_settings(task: Task) -> list[Finding]:
    if task.foreign:
        return [finding("task_code", f"{task.name} names {', '.join(task.foreign)}")]
    if task.settings.get("class") != CLASS:
        return [finding("task_plain", task.name)]
    try:
        check_settings(task.settings, task.config)
    except NNDError as error:
        return [finding("task_invalid", str(error), task.config)]
    return []


def check_settings(settings: Mapping[str, Any], config: str) -> None:
    """Check what `nnd_tasks.task.task_files.read_task_yaml` returns as lm-eval and the task class do when they load the task.

    Args:
        settings: of a task of our class.
        config: whose data it reads.

    Raises:
        NNDError: one of the settings is wrong.
    """
    name = str(settings["task"])
    if unknown := [key for key in settings if not _KEYS.fullmatch(str(key))]:
        raise NNDError(f"task {name}: lm-eval knows no key {unknown[0]!r}")
    check_config(settings, SAMPLER)
    if not settings.get("test_split"):
        raise NNDError(f"task {name}: its YAML must set test_split (include _base)")
    Settings.read(settings.get("metadata") or {})
    check_languages(settings["doc_to_text"], config, name, "its data")


def _check_template(template: str, fields: Mapping[str, str], location: str, *, loose: bool) -> Iterator[Finding]:
    try:
        if loose:
            named = meta.find_undeclared_variables(SANDBOX.parse(template)) - SANDBOX.globals.keys()
            fields = {**dict.fromkeys(named, "some words"), **fields}
        fill_template(template, fields, location)
    except NNDError as error:
        yield finding("prompt_invalid", str(error))
    except Exception as error:  # a template can be wrong in many ways
        yield finding("prompt_invalid", f"{location}: {reason_of(error)}")


def _around(settings: Mapping[str, Any]) -> list[Any]:
    """Return the templates of the texts around a prompt."""
    shots = settings.get("fewshot_config") or {}
    shots = shots if isinstance(shots, Mapping) else {}
    return [settings.get("description"), settings.get("gen_prefix"), shots.get("gen_prefix"), shots.get("doc_to_text")]


def _check_task(task: Task, folder: Folder) -> Iterator[Finding]:
    config = task.config
    if config not in folder.names:
        code = "config_not_built" if tasks_dir() in task.path.parents else "task_invalid"
        yield finding(code, f"{task.name} reads {config}; {how_to_build(folder.name)}")
        return
    faults = _find_wrong_settings(task)
    yield from faults
    if config in folder.configs and not faults:
        yield from _check_categories(task, folder.configs[config])
        yield from _check_prompts(task, folder.configs[config])


def _check_categories(task: Task, tests: Tests) -> Iterator[Finding]:
    category, declared = tests.frame["category"], (task.settings.get("metadata") or {}).get("categories")
    if declared is None:
        return
    unknown = category[~category.isin(declared)]
    if len(unknown):
        note = f"{task.name}: {', '.join(sorted({*unknown}))}"
        yield finding("categories_undeclared", note, tests.name, rows=tests.list_rows(unknown), count=len(unknown))
    absent = sorted({*declared} - {*category})
    if absent:
        yield finding("categories_absent", f"{task.name}: {', '.join(absent)}", tests.name)


def _check_prompts(task: Task, tests: Tests) -> Iterator[Finding]:
    """Render the prompt of every document, and the templates of the texts around it for the first one."""
    settings, prompts = task.settings, dict[Any, str]()
    for row, document in tests.prompts.to_dict("index").items():
        try:
            for template in filter(None, [] if prompts else _around(settings)):
                fill_template(template, document, f"{task.name}: {template!r}")
            prompts[row] = str(fill_template(settings["doc_to_text"], document, task.name))
        except NNDError as error:
            rows = tests.list_rows(tests.frame["context"].loc[[row]])
            yield finding("prompt_invalid", str(error), tests.name, rows=rows, count=1)
            return
    delimiter = str(settings.get("target_delimiter", " "))
    texts = tests.prompts.assign(prompt=prompts)
    doubled = texts["prompt"].map(lambda prompt: doubles_space(prompt, delimiter))
    texts = texts[~tests.blank["context"][texts.index]]  # a set without contexts has one prompt for all
    empty = texts["prompt"].str.strip() == ""
    without = [context.strip() not in prompt for context, prompt in texts[["context", "prompt"]].to_numpy()]
    for fault, hits in (
        ("prompt_empty", empty),
        ("prompt_space", doubled[texts.index]),
        ("prompt_without_context", ~empty & all(without)),
        ("prompt_repeated", texts["prompt"].duplicated() & ~empty),
    ):
        if count := int(hits.sum()):
            rows = tests.list_rows(texts["context"][hits])
            yield finding(fault, f"{task.name}, {counted(count, 'prompt')}", tests.name, rows=rows, count=count)
