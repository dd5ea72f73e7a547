"""The evaluations of 2022 to 2025: their counts, every test recomputed from the raw files, and what their recipes can say.

The re-implementations below share no code with the package.
"""

from __future__ import annotations

import csv
import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from nnd_tasks.baselines import baseline_passes, baseline_rates, favourite, strongest
from nnd_tasks.datasets import list_configs, read_report, read_table, tasks_dir
from nnd_tasks.errors import NNDError
from nnd_tasks.harness.settings import Settings
from nnd_tasks.recipes.make import make_tests
from nnd_tasks.recipes.parse import make_recipe
from nnd_tasks.recipes.readers import open_table
from nnd_tasks.runner.run import run_lm_eval
from nnd_tasks.sets.licences import SETS, texts_may_go
from tests.commands import Outcome
from tests.conftest import TODAY
from tests.harness.test_oracle import Oracle, check_against

Row = dict[str, Any]
#: Context, better, worse, category, subcategory.
Key = tuple[str, str, str, str, str]

COUNTS: dict[str, dict[str, int]] = {
    "humanevalfix": {"value misuse": 264, "missing logic": 198, "excess logic": 186, "operator misuse": 150}
    | {"variable misuse": 138, "function misuse": 48},
    "prmbench": {"circular": 753, "redundency": 753, "confidence": 748, "step_contradiction": 743}
    | {"domain_inconsistency": 732, "counterfactual": 690, "deception": 671, "missing_condition": 479},
    "summedits": {"several": 19350, "entity_modification": 7491, "antonym_swap": 2114}
    | {"negation_insertion_removal": 653, "none": 602, "hallucinated_fact_insertion": 569},
    "llmbar": {"Natural": 100, "Adversarial_Neighbor": 134, "Adversarial_GPTInst": 92, "Adversarial_GPTOut": 47}
    | {"Adversarial_Manual": 46},
    "lfqa": {"technology": 110, "economics": 110, "biology": 110, "chemistry": 96, "physics": 94, "history": 92}
    | {"law": 86},
    "bump": {
        f"{kind} {what} Error": 99
        for kind in ("Extrinsic", "Intrinsic")
        for what in ("Circumstance", "Entity", "Predicate")
    }
    | {"Coreference Error": 99},
}
FINER: dict[str, dict[str, int]] = {
    "humanevalfix": dict.fromkeys(("python", "js", "java", "go", "cpp", "rust"), 164),
    "summedits": {"news": 6043, "samsum": 4787, "ectsum": 4553, "sales_email": 3804, "sales_call": 3655}
    | {"qmsumm": 2777, "podcast": 2693, "scitldr": 2467},
}
MADE = {"humanevalfix", "prmbench", "summedits", "bump"}
every_set = pytest.mark.parametrize("name", list(COUNTS))


@pytest.fixture(scope="module")
def rows(real_sets: Callable[[str], Path]) -> Callable[[str], list[Row]]:
    """Return what reads the tests of a set, once per module."""
    known: dict[str, list[Row]] = {}

    def read(name: str) -> list[Row]:
        if name not in known:
            known[name] = read_table(real_sets(name)).to_pylist()
        return known[name]

    return read


# ---------------------------------------------------------------- counts


@every_set
def test_counts_are_those_of_the_publishers_files(name: str, rows: Callable[[str], list[Row]]) -> None:
    assert Counter(row["category"] for row in rows(name)) == COUNTS[name]
    if name in FINER:
        assert Counter(row["subcategory"] for row in rows(name)) == FINER[name]
    assert len({row["test_id"] for row in rows(name)}) == len(rows(name))


def lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def expected(name: str, folder: Path) -> Iterator[Key]:
    """Yield the tests of a set from its raw files."""
    if name == "humanevalfix":
        for path in folder.glob("*.jsonl"):
            for row in lines(path):
                yield row["prompt"], row["canonical_solution"], row["buggy_solution"], row["bug_type"], path.stem
    elif name == "prmbench":
        for path in folder.glob("prm800k*.jsonl"):
            for row in lines(path):
                if row["original_question"] == row["modified_question"]:
                    better, worse = ("\n".join(row[f"{which}_process"]) for which in ("original", "modified"))
                    yield row["original_question"], better, worse, row["classification"], ""
    elif name == "summedits":
        for path in folder.glob("summedits_*.json"):
            groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
            for row in json.loads(path.read_text("utf-8")):
                groups[row["doc"], row["original_summary"]].append(row)
            for (doc, _), members in groups.items():
                good = [row["summary"] for row in members if row["label"] == 1]
                for row in members:
                    kinds = row["edit_types"]
                    kind = "none" if not kinds else kinds[0] if len(kinds) == 1 else "several"
                    if row["label"] == 0:
                        yield from (
                            (doc, text, row["summary"], kind, path.stem.removeprefix("summedits_")) for text in good
                        )
    elif name == "llmbar":
        for path in folder.glob("*.json"):
            for row in json.loads(path.read_text("utf-8")):
                yield row["input"], row[f"output_{row['label']}"], row[f"output_{3 - row['label']}"], path.stem, ""
    elif name == "lfqa":
        with (folder / "HaluQuestQA.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                won = int(row["ans_preference"][-1])
                yield row["question_text"], row[f"ans{won}_text"], row[f"ans{3 - won}_text"], row["category"], ""
    else:
        for row in json.loads((folder / "task1_dataset.json").read_text("utf-8")):
            yield row["article"], row["reference_summary"], row["edited_summary"], row["error_type"], ""


@every_set
def test_tests_are_those_of_the_raw_file_formed_anew(name: str, rows: Callable[[str], list[Row]], data: Path) -> None:
    columns = ("context", "high", "low", "category", "subcategory")
    ours = Counter(tuple(row.get(column) or "" for column in columns) for row in rows(name))
    theirs = Counter(
        tuple(unicodedata.normalize("NFC", part) for part in key) for key in expected(name, data / TODAY[name])
    )
    assert not list((ours - theirs).elements())[:3], "tests that the raw file does not give"
    assert not list((theirs - ours).elements())[:3], "tests that are missing"


@every_set
def test_a_clean_config_and_the_kind_of_errors_are_there(name: str, real_sets: Callable[[str], Path]) -> None:
    folder = real_sets(name)
    assert list_configs(folder) == (["authors", "clean"], "authors")
    cleaned = read_table(folder, "clean").to_pylist()
    assert all(row["high"].split() != row["low"].split() and row["low"].strip() for row in cleaned)
    kind = "made" if name in MADE else "judged"
    assert all(part["errors"] == kind for part in read_report(folder).values())
    card = (folder / "README.md").read_text("utf-8")
    assert f"Errors: {kind} (" in card
    assert ("- made-errors\n" in card) == (name in MADE)


def test_prmbench_says_what_it_leaves_out(real_sets: Callable[[str], Path]) -> None:
    report = read_report(real_sets("prmbench"))["authors"]
    assert (report["rows"], report["dropped"]) == (6051, {"not_same": 482})
    card = (real_sets("prmbench") / "README.md").read_text("utf-8")
    assert "left out: 482 rows that are different in columns that must be the same" in card


def test_prmbench_spans_are_its_wrong_steps(rows: Callable[[str], list[Row]], data: Path) -> None:
    wrong: dict[tuple[str, str, str], list[list[str]]] = defaultdict(list)
    for path in (data / TODAY["prmbench"]).glob("prm800k*.jsonl"):
        for row in lines(path):
            steps = [unicodedata.normalize("NFC", step) for step in row["modified_process"]]
            numbers = [number for number in row["error_steps"] if 1 <= number <= len(steps) and steps[number - 1]]
            key = unicodedata.normalize("NFC", row["original_question"]), "\n".join(steps), row["classification"]
            wrong[key].append([steps[number - 1] for number in numbers])
    for row in rows("prmbench"):
        marked = [row["low"][span["start"] : span["end"]] for span in row["low_spans"]]
        assert marked in wrong[row["context"], row["low"], row["category"]]
    assert sum(len(row["low_spans"]) for row in rows("prmbench")) == 12_050 - 120


# ---------------------------------------------------------------- one system wins


def test_the_models_answer_wins_81_percent_of_lfqa(
    real_sets: Callable[[str], Path], rows: Callable[[str], list[Row]]
) -> None:
    assert Counter(row["high_system"] for row in rows("lfqa")) == {"model_answer": 563, "human_answer": 135}
    assert all({row["high_system"], row["low_system"]} == {"model_answer", "human_answer"} for row in rows("lfqa"))
    report = read_report(real_sets("lfqa"))["authors"]
    assert report["trivial_system"] == "model_answer"
    assert report["trivial_rules"]["all"]["system"] == pytest.approx(563 / 698)
    card = (real_sets("lfqa") / "README.md").read_text("utf-8")
    assert "(`model_answer`)" in card
    assert "| `system` |" in card
    assert "`system`" not in (real_sets("bump") / "README.md").read_text("utf-8"), "nobody says who wrote its texts"


def test_the_best_system_is_the_one_that_passes_most_tests() -> None:
    writers = [("a", "b"), ("b", "a"), ("a|c", "b"), ("c", "a"), ("", ""), ("a", "a|b")]
    names = ("a", "b", "c")

    def passed(one: str, high: str, low: str) -> bool:
        return one in high.split("|") and one not in low.split("|")

    rates = {one: sum(passed(one, *pair) for pair in writers) for one in names}
    assert rates == {"a": 2, "b": 1, "c": 2}
    assert favourite(writers) == "a", "of equals the first in the alphabet"
    pairs = [("", "x", "y")] * len(writers)
    found = baseline_passes(pairs, writers=writers)["system"]
    without = [not any("a" in name.split("|") for name in pair) for pair in writers]
    assert np.isnan(found).tolist() == without == [False, False, False, False, True, False]
    assert found[~np.isnan(found)].tolist() == [
        passed("a", *pair) for pair in writers if any("a" in one for one in pair)
    ]
    rates = baseline_rates(pairs, ["x", "x", "x", "x", "y", "x"], writers=writers)
    assert (rates["all"]["system"], rates["x"]["system"]) == (2 / 5, 2 / 5), "of the tests that have a text of it"
    assert "system" not in rates["y"]
    assert strongest({"longer": 0.4, "shorter": 0.6, "system": 0.9}) == ("shorter", 0.6)
    assert favourite([("", ""), ("", "")]) == ""
    assert "system" not in baseline_passes([("", "x", "y")])


# ---------------------------------------------------------------- tasks


def test_the_group_and_the_tags_name_the_tasks(nnd_home: Path) -> None:
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=[tasks_dir()], include_defaults=False)
    group = yaml.safe_load((tasks_dir() / "today.yaml").read_text("utf-8"))
    assert group["group"] in manager.all_groups
    assert set(group["task"]) >= {f"nnd_{name}" for name in COUNTS}
    tagged = {tag: manager.task_index[tag].tags for tag in manager.all_tags}
    assert tagged["nnd_task_code"] == {"nnd_humanevalfix"}
    assert {"nnd_summedits", "nnd_bump", "nnd_frank"} <= tagged["nnd_task_summarization"]
    assert {f"nnd_{name}" for name in COUNTS} <= tagged["nnd_language_en"]
    assert not [task for tasks in tagged.values() for task in tasks if task.endswith(("_clean", "_authors", "_gpt2"))]


def requests_of(task: str, home: Path, model: Path, monkeypatch: pytest.MonkeyPatch, **kwargs: Any) -> list[Any]:
    """Return the requests of the first document of a task."""
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("NND_HOME", str(home))
    manager = TaskManager(include_path=[tasks_dir()], include_defaults=False, metadata={"pretrained": str(model)})
    built = manager.load([task])["tasks"][task]
    doc = {**built.eval_docs[0], "context": built.eval_docs[0]["context"][:40]}
    doc["candidates"] = [text[:40] for text in doc["candidates"]]
    prompt = built.fewshot_context(doc, 0, **kwargs)
    chat = bool(kwargs.get("apply_chat_template"))
    return [
        (one.args, doc) for one in built._plain_requests(doc, prompt, apply_chat_template=chat, metadata=(task, 0, 1))
    ]


# ---------------------------------------------------------------- what a recipe can say

PAIRS = {"context": "q", "chosen": "a", "rejected": "b"}
TABLE = {"q": "Q", "q2": "Q", "a": ["x", "y"], "b": ["x", "z"], "wrong": [2], "by_a": "A", "by_b": "B", "kinds": ["k"]}
WRONG_RECIPES = {
    "one column": ({"same": ["q"]}, "same is two columns or more"),
    "three systems": ({"systems": ["by_a", "by_b", "q"]}, "systems are two columns"),
    "errors": ({"errors": "found"}, "errors is judged or made, not 'found'"),
    "list_category": ({"category": "kinds", "list_category": {"none": "none"}}, "one for `several`"),
    "no category": ({"list_category": {"none": "n", "several": "s"}}, "beside category"),
    "two labels": ({"subcategory": "q", "categories": {"k": "K"}, "category": "kinds"}, "which make one themselves"),
    "items": ({"spans": {"column": "wrong", "items": "yes"}}, "items is true or false"),
    "items and places": (
        {"spans": {"column": "wrong", "items": True, "end_inside": True}},
        "items goes with column alone",
    ),
    "strip": ({"strip": {"category": ["x"]}}, "not of 'category'"),
    "group": ({"group": [1]}, "group is text, not 1"),
}


def made_from(tmp_path: Path, table: list[Row], **options: Any) -> Any:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(table), encoding="utf-8")
    recipe = make_recipe({**PAIRS, **options})
    return make_tests(open_table(str(path), recipe), recipe)


@pytest.mark.parametrize(("options", "message"), WRONG_RECIPES.values(), ids=WRONG_RECIPES)
def test_a_wrong_recipe_gets_one_clear_error(options: Row, message: str) -> None:
    with pytest.raises(NNDError, match=message):
        make_recipe({**PAIRS, **options})


def test_systems_are_of_pairs_only() -> None:
    with pytest.raises(NNDError, match="of one candidate it is system"):
        make_recipe({"context": "q", "candidate": "a", "label": "l", "better": ["x"], "systems": ["by_a", "by_b"]})


def test_pairs_have_systems_a_finer_label_and_wrong_items(tmp_path: Path) -> None:
    options = {"systems": ["by_a", "by_b"], "subcategory": "q2", "spans": {"column": "wrong", "items": True}}
    [row] = made_from(tmp_path, [TABLE], **options).table.to_pylist()
    assert (row["high"], row["low"], row["high_system"], row["low_system"]) == ("x\ny", "x\nz", "A", "B")
    assert row["subcategory"] == "Q"
    [span] = row["low_spans"]
    assert row["low"][span["start"] : span["end"]] == "z"


def test_systems_follow_the_winner(tmp_path: Path) -> None:
    options = {"chosen": None, "rejected": None, "pair": ["a", "b"], "winner": "won", "systems": ["by_a", "by_b"]}
    table = [{**TABLE, "a": "x", "b": "y", "q": won, "won": won} for won in ("1", "2")]
    found = [
        (row["high"], row["high_system"], row["low_system"])
        for row in made_from(tmp_path, table, **options).table.to_pylist()
    ]
    assert found == [("x", "A", "B"), ("y", "B", "A")]


def test_rows_whose_columns_differ_are_left_out(tmp_path: Path) -> None:
    made = made_from(tmp_path, [TABLE, {**TABLE, "q2": "R"}, {**TABLE, "q2": None}], same=["q", "q2"])
    assert (made.counts["rows"], made.dropped.counts, made.dropped.rows) == (3, {"not_same": 2}, {"not_same": [2, 3]})
    with pytest.raises(NNDError, match="left out are 1 row that is different in columns"):
        made_from(tmp_path, [{**TABLE, "q2": "R"}], same=["q", "q2"])


@pytest.mark.parametrize(("kinds", "category"), [([], "none"), (["k"], "k"), (["k", "l"], "many")])
def test_a_list_of_categories_is_one(kinds: list[str], category: str, tmp_path: Path) -> None:
    options = {"category": "kinds", "list_category": {"none": "none", "several": "many"}}
    assert made_from(tmp_path, [{**TABLE, "kinds": kinds}], **options).table["category"].to_pylist() == [category]


def test_what_is_no_list_of_categories_is_named(tmp_path: Path) -> None:
    options = {"category": "kinds", "list_category": {"none": "none", "several": "many"}}
    with pytest.raises(NNDError, match=r"item 2, column 'kinds': expected a list of categories, found text"):
        made_from(tmp_path, [TABLE, {**TABLE, "kinds": "k"}], **options)


def test_repeated_pairs_have_identifiers_of_their_own(tmp_path: Path) -> None:
    made = made_from(tmp_path, [TABLE, TABLE], candidates="rows")
    assert len(set(made.table["test_id"].to_pylist())) == made.table.num_rows == 2
    assert made.clean is not None
    assert made.clean.num_rows == 1


def test_a_group_of_several_columns_has_a_short_name(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("d,s,t,l\nD,1,x,good\nD,1,y,bad\nD,2,z,bad\n", encoding="utf-8")
    recipe = make_recipe({"group": ["d", "s"], "context": "d", "candidate": "t", "label": "l", "better": ["good"]})
    [row] = make_tests(open_table(str(path), recipe), recipe).table.to_pylist()
    assert (row["high"], row["low"], len(row["context_id"])) == ("x", "y", 16)
    assert make_recipe(recipe.dump()) == recipe


# ---------------------------------------------------------------- steps get numbers


def test_steps_are_numbered_where_they_are_not() -> None:
    scored = Settings.read({"number_lines": True}).scored
    assert scored("one\n2. two\nthree") == "1. one\n2. two\n3. three"
    assert scored("2. one") == "1. 2. one"
    assert scored(" ") == " "
    assert Settings().scored("one\ntwo") == "one\ntwo"
    with pytest.raises(NNDError, match="expected true or false"):
        Settings.read({"number_lines": "perhaps"})


PROMPTS = {
    "nnd_humanevalfix": ("{c}", "{t}"),
    "nnd_prmbench": ("Problem: {c}\n\nSolution:", "\n1. {t}"),
    "nnd_bump": ("{c}\n\nSummary:", " {t}"),
    "nnd_llmbar": ("{c}", "\n\n{t}"),
    "nnd_llmbar_base": ("Instruction: {c}\n\nResponse:", " {t}"),
    "nnd_lfqa": ("{c}", "\n\n{t}"),
    "nnd_lfqa_base": ("Question: {c}\n\nAnswer:", " {t}"),
}


@pytest.mark.parametrize("task", list(PROMPTS))
def test_prompts_fit_the_task(
    task: str, real_sets: Callable[[str], Path], tiny_models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = real_sets(task.split("_")[1]).parents[1]
    prompt, candidate = PROMPTS[task]
    for (context, continuation), doc in requests_of(task, home, tiny_models["gpt2"], monkeypatch):
        assert context == prompt.format(c=doc["context"])
        # Some steps of PRMBench are numbered already.
        assert continuation in {candidate.format(t=text.removeprefix("1. ")) for text in doc["candidates"]}


@pytest.mark.parametrize("task", ["nnd_llmbar", "nnd_lfqa"])
def test_instructions_are_the_turn_of_the_user(
    task: str, real_sets: Callable[[str], Path], tiny_models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = {"apply_chat_template": True, "chat_template": lambda turns, **_: json.dumps(turns)}
    home = real_sets(task.split("_")[1]).parents[1]
    for (context, continuation), doc in requests_of(task, home, tiny_models["gpt2"], monkeypatch, **chat):
        assert json.loads(context) == [{"role": "user", "content": doc["context"]}]
        assert continuation in doc["candidates"]


def test_a_run_with_the_chat_template_scores_answers_as_the_turn_of_the_assistant(
    real_sets: Callable[[str], Path], tiny_models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NND_HOME", str(real_sets("llmbar").parents[1]))
    model = f"pretrained={tiny_models['llama']},dtype=float32,softmax_dtype=float32"
    arguments = ["--model", "hf", "--model_args", model, "--device", "cpu", "--tasks", "nnd_llmbar", "--limit", "3"]
    run_lm_eval([*arguments, "--apply_chat_template", "--log_samples", "--output_path", str(tmp_path)])
    samples = [row for path in tmp_path.rglob("samples_*.jsonl") for row in lines(path)]
    oracle = Oracle(tiny_models["llama"])
    for sample in samples:
        turns = [{"role": "user", "content": sample["doc"]["context"]}]
        prompt = oracle.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        requests = [tuple(one.values()) for one in sample["arguments"].values()]
        assert requests == [(prompt, text) for text in sample["doc"]["candidates"]]
        # lm-eval counts the line feed at the end of the template as part of the candidate.
        sample["arguments"] = [(prompt.rstrip("\n"), f"\n{text}") for text in sample["doc"]["candidates"]]
    assert check_against(oracle, samples) == (6, 3)


# ---------------------------------------------------------------- what may be published


@pytest.mark.parametrize("name", [*TODAY, "mqm"])
def test_readme_and_card_say_what_may_be_published(name: str, real_sets: Callable[[str], Path]) -> None:
    terms = SETS[name]
    readme = (tasks_dir() / name / "README.md").read_text("utf-8").replace("\n", " ")
    card = (real_sets(name) / "README.md").read_text("utf-8")
    if name == "humanevalfix":
        assert texts_may_go(terms)
        said = readme_says = "ay be published with its texts"
    else:
        assert not texts_may_go(terms)
        readme_says, said = "ids and the recipe", "Ids and the recipe may be published (`nnd publish`), the texts not: "
        said += f"they are {'; '.join(term.texts for term in terms)}."
    assert readme_says in readme
    assert said in card


# ---------------------------------------------------------------- nnd list


def listed(nnd: Callable[..., Outcome], *options: str) -> dict[str, Row]:
    done = nnd("list", "--json", *options)
    assert done.status == 0, done.err
    return {entry["name"]: entry for entry in json.loads(done.out)}


def test_list_narrows_by_task_and_language(nnd: Callable[..., Outcome]) -> None:
    every = listed(nnd)
    assert {name for name, entry in every.items() if entry["errors"] == "made"} >= MADE
    assert set(listed(nnd, "--task", "code")) == {"humanevalfix"}
    assert {"summedits", "bump", "frank", "summeval"} <= set(listed(nnd, "--task", "Summarization"))
    assert set(listed(nnd, "--language", "de")) == {"mqm", "bio_mqm"}
    assert set(listed(nnd, "--language", "zh")) == {"bio_mqm"}
    assert set(listed(nnd, "--language", "en", "--task", "reasoning")) == {"prmbench"}
    assert listed(nnd, "--language", "de", "--task", "code") == {}
    assert "errors: made" in nnd("list", "--task", "code").out


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--task", "cod"), "--task cod: no set has it; did you mean 'code'?"),
        (("--task", "xyzzy"), "no set has it; there are: code, data-to-text,"),
        (("--language", "German"), "--language German: no set has it; did you mean 'de'?"),
    ],
)
def test_list_offers_what_there_is(option: tuple[str, str], message: str, nnd: Callable[..., Outcome]) -> None:
    done = nnd("list", *option)
    assert (done.status, done.out) == (1, "")
    assert message in done.err
