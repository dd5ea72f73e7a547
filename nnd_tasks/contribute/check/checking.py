"""Check a set, or only its recipe, as a reviewer would; and report what was found, as Markdown (for terminals, too) and JSON."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jinja2.sandbox import SandboxedEnvironment

from nnd_tasks.contribute.check.reading import Folder, read_folder
from nnd_tasks.contribute.check.rules import Finding, Severity, check_tests, finding
from nnd_tasks.contribute.check.task_rules import check_sent_tasks, check_tasks
from nnd_tasks.errors import NNDError, reason_of, visible
from nnd_tasks.files import expand, read_text
from nnd_tasks.sets.build import compare_counts
from nnd_tasks.sets.card import KNOWN_BY_PEOPLE, find_todos
from nnd_tasks.sets.catalogue import RecipeFile, find_recipe_file, list_recipes
from nnd_tasks.sets.first_use import provide_set
from nnd_tasks.sets.licences import is_open, licence_names
from nnd_tasks.sets.recipe import FILE, PREPARE, RECIPE, Recipe, make_recipe, read_recipe
from nnd_tasks.show.forms import dump_json
from nnd_tasks.store import SPLIT, look_up_set
from nnd_tasks.task.task_files import written_folders
from nnd_tasks.text import code, counted, escape_markdown, some_of


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
    sent = path / RECIPE if path.is_dir() else path
    if sent.is_file() and not (built and [*built.glob(f"*/{SPLIT}-*.parquet")]):
        return _check_sent(find_recipe_file(str(sent.absolute())))
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
    findings += check_card(folder, must_cite=must_cite)
    findings += check_tests([*folder.configs.values()])
    faulty = {item.config for item in findings if item.severity is Severity.ERROR}
    folder.configs = {config: tests for config, tests in folder.configs.items() if config not in faulty}
    task_names, of_tasks = check_tasks(folder, [*written_folders(), *tasks])
    findings += of_tasks
    findings.sort(key=lambda item: -item.severity)
    return CheckReport(folder.name, folder.path, sizes, task_names, findings)


def _check_sent(recipe_file: RecipeFile) -> CheckReport:
    recipe, findings = check_recipe(recipe_file)
    findings += check_sent_tasks(recipe_file, recipe)
    return CheckReport(recipe_file.name, recipe_file.path.parent, findings=findings)


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

    def exit_code(self, *, strict: bool = False) -> int:
        """The exit status: 2 with errors, 3 with warnings only where those count, else 0."""
        return 2 if self.counts["error"] else 3 if strict and self.counts["warning"] else 0

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


def check_card(folder: Folder, *, must_cite: bool) -> Iterator[Finding]:
    """Check the header and the text of a card; only the text where the header cannot be read.

    Args:
        folder: the set.
        must_cite: whether there is a human evaluation to cite.
    """
    fields = find_todos(folder.header, folder.card)
    if fields:
        yield finding("card_todo", ", ".join(fields), count=len(fields))
    if must_cite and not _KEY.search(folder.card):
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
    return recipe, [*_check_facts(recipe, prepared=recipe_file.prepare is not None), *findings]


def _check_facts(recipe: Recipe, *, prepared: bool) -> Iterator[Finding]:
    judged = recipe.label or recipe.score or recipe.attribute
    if not (recipe.pairs or prepared or (recipe.context and recipe.candidate and judged and recipe.rules)):
        needs = "a recipe of single texts names context, candidate, label or score, and one of better, order, min_gap, majority"
        yield finding("recipe_invalid", needs)
    facts = [
        key
        for key in KNOWN_BY_PEOPLE
        if getattr(recipe.facts, key) in (None, ()) and (key != "language" or recipe.config != FILE)
    ]
    if facts:
        yield finding("recipe_fact", ", ".join(facts), count=len(facts))
    files = [name for name, file in recipe.files.items() if file and file.url and not file.sha256]
    if files:
        yield finding("recipe_unverified", some_of(files, show=str), count=len(files))


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
