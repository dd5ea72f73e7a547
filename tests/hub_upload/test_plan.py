"""What would be published: complete cards, honest data, and no text that may not go out."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import RepoCard
from hypothesis import given
from hypothesis import strategies as st
from lm_eval.tasks import TaskManager
from markdown_it import MarkdownIt
from nnd_tasks.build import build_set
from nnd_tasks.card import CARD, Card, read_card, split_card
from nnd_tasks.licences import CORPORA, SETS, check_licences

from hub_upload.plan import UploadPlan, make_plan
from nnd_tasks.datasets import REPORT, list_configs, read_report, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.stress.corpora import KNOWN
from nnd_tasks.tables import fingerprint
from tests.conftest import DATA, REPO, SOURCES
from tests.hub_upload.conftest import SetMaker, some_tests

WITH_TEXTS = ("demo", "quiz_design", "challenge300")
IDS_ONLY = ("summeval", "frank", "news_gpt3")
Real = Callable[[str], Path]


@functools.cache
def plan_of(name: str, folder: Path) -> UploadPlan:
    return make_plan(str(folder), f"nnd/{name}", source=None if name == "demo" else DATA / name)


def header_of(plan: UploadPlan) -> dict[str, object]:
    found = yaml.safe_load(plan.card.split("---\n")[1])
    assert isinstance(found, dict)
    return found


def table_in(plan: UploadPlan, config: str) -> pa.Table:
    [data] = [file.data for file in plan.files if file.path.startswith(f"{config}/")]
    return pq.read_table(io.BytesIO(data))


@pytest.mark.parametrize("name", [*WITH_TEXTS, *IDS_ONLY])
def test_cards_say_all_that_a_reader_needs(name: str, real_sets: Real) -> None:
    folder = real_sets(name)
    plan = plan_of(name, folder)
    header, card = header_of(plan), plan.card
    for key in ("license", "language", "task_categories", "size_categories", "configs", "dataset_info", "pretty_name"):
        assert header[key], key
    report = read_report(folder)
    for config, part in report.items():
        table = read_table(folder, config)
        assert fingerprint(table) in card
        assert f"| `{config}` | {table.num_rows:,} |" in card, "counts"
        if name != "demo":
            for file, digest in part["source_sha256"].items():
                [path] = DATA.joinpath(name).glob(file)
                assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
                assert f"| `{file}` | `{digest}` |" in card
        if "cleaning" in part:
            assert re.search(rf"\| `{config}` \| {table.num_rows:,} \|.*\| {part['cleaning']['kept']:,} \|", card)
    assert "@inproceedings{laban2022nnd," in card
    assert f"`set:{name}|schema:1|data:" in card
    for heading in ("What baselines reach", "Clean configs", "Known limits", "Terms of the texts", "Sources"):
        assert f"\n## {heading}\n" in card
    assert len(re.findall(r"^\| `\w+` \| \w+ \| 0\.\d{3} ", card, flags=re.MULTILINE)) >= len(report)
    configs, _ = list_configs(folder)
    assert [entry["config_name"] for entry in header["configs"]] == configs  # type: ignore[attr-defined]
    if name in WITH_TEXTS:
        assert plan_of.__wrapped__(name, folder) == plan, "the same again"
    if name != "demo":
        assert plan.notes == (), "it was built again"


@pytest.mark.parametrize("name", WITH_TEXTS)
def test_sets_whose_texts_may_go_out_go_as_they_are(name: str, real_sets: Real) -> None:
    folder = real_sets(name)
    plan = plan_of(name, folder)
    assert not plan.ids_only
    for info in header_of(plan)["dataset_info"]:  # type: ignore[attr-defined]
        table = table_in(plan, info["config_name"])
        assert table.equals(read_table(folder, info["config_name"]))
        assert info["splits"][0]["num_examples"] == table.num_rows
        assert [feature["name"] for feature in info["features"]] == table.column_names
    if name == "quiz_design":
        assert header_of(plan)["license"] == ["bsd-3-clause", "cc-by-sa-3.0"], "of the questions, and of the paragraphs"


@pytest.mark.parametrize("name", IDS_ONLY)
def test_of_others_only_ids_hashes_and_a_recipe(name: str, real_sets: Real, tmp_path: Path) -> None:
    folder = real_sets(name)
    plan = plan_of(name, folder)
    assert plan.ids_only
    content = "\n".join(
        json.dumps(pq.read_table(io.BytesIO(file.data)).to_pylist())
        if file.path.endswith(".parquet")
        else file.data.decode()
        for file in plan.files
    )
    for config in list_configs(folder)[0]:
        table, ids = read_table(folder, config), table_in(plan, config)
        assert ids["test_id"].equals(table["test_id"])
        assert ids["category"].equals(table["category"])
        for column in ("context", "high", "low"):
            texts = table[column].to_pylist()
            assert ids[f"{column}_sha256"].to_pylist() == [hashlib.sha256(t.encode()).hexdigest() for t in texts]
            for text in {text for text in texts if len(text) > 60}:
                assert text[20:60] not in content, f"{config}, {column}"
    recipe = json.loads(next(file.data for file in plan.files if file.path == "recipe.json"))
    assert recipe["fingerprints"] == {c: fingerprint(read_table(folder, c)) for c in list_configs(folder)[0]}
    assert recipe["commands"][0].startswith(f"nnd build {name}")
    assert "| no |" in plan.card
    assert "| yes |" not in plan.card
    assert "nnd_schema_version" not in header_of(plan), "a clone of it is no set to run"


def test_the_recipe_of_a_stress_set_makes_it_again(data: Path, nnd_home: Path, tmp_path: Path) -> None:
    from nnd_tasks.stress.stress_set import build_stress_set

    build_stress_set(
        "blindspot_ted", "ted", place=data / "blindspot", texts=5, errors="truncation,token_drop", progress=False
    )
    plan = make_plan("blindspot_ted", "nnd/blindspot_ted")
    assert plan.ids_only
    assert "CC BY-NC-ND" in plan.card
    recipe = json.loads(next(file.data for file in plan.files if file.path == "recipe.json"))
    [command] = recipe["commands"]
    words = command.split()
    options = dict(zip(words[4::2], words[5::2], strict=True))
    again = build_stress_set(
        words[3],
        options["--corpus"],
        place=data / "blindspot",
        errors=options["--errors"],
        texts=int(options["--texts"]),
        seeds=int(options["--seeds"]),
        out=tmp_path / "blindspot_ted",
        progress=False,
    )
    assert again.summary.fingerprint == recipe["fingerprints"]["stress"]


def test_wikitext_goes_out_under_its_own_licences(data: Path, nnd_home: Path) -> None:
    from nnd_tasks.stress.stress_set import build_stress_set

    build_stress_set(
        "blindspot_wikitext", "wikitext", place=data / "blindspot", texts=3, errors="truncation", progress=False
    )
    plan = make_plan("blindspot_wikitext", "nnd/blindspot_wikitext")
    assert not plan.ids_only
    assert header_of(plan)["license"] == ["cc-by-sa-3.0", "gfdl"]
    assert "The errors are synthetic" in plan.card


def test_ids_only_can_be_asked_for(own_set: SetMaker) -> None:
    own_set(header={"license": "other"})
    with pytest.raises(NNDError, match=r"licence other is not known .* --ids-only"):
        make_plan("mine", "nnd/mine")
    plan = make_plan("mine", "nnd/mine", ids_only=True)
    assert plan.ids_only
    assert "The terms of the texts do not" not in plan.card
    assert table_in(plan, "all").column_names[:3] == ["test_id", "cluster_id", "context_sha256"]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("header", "body", "message"),
    [
        ({"license": None}, None, "it lacks license"),
        ({"license": "unknown"}, None, "it lacks license"),
        ({"language": None}, None, "it lacks language"),
        ({"language": []}, None, "it lacks language"),
        ({"task_categories": None}, None, "it lacks task_categories"),
        ({}, "# Mine\n\nNo citation.", "it lacks a citation"),
        ({}, "# Mine\n\n```bibtex\n\n```\n", "it lacks a citation"),
        ({"pretty_name": "TODO"}, None, "marked TODO in line"),
        ({}, "# Mine\n\nTODO: who judged?\n\n```bibtex\n@misc{a,}\n```\n", "marked TODO in line 2"),
        ({"license": "cc-by-nc-nd-4.0"}, None, "licence cc-by-nc-nd-4.0 allows no derivatives"),
        ({"license": "cc-by-nd-4.0"}, None, "allows no derivatives"),
        ({"license": ["mit", "openrail"]}, None, "licence openrail is not known"),
    ],
)
def test_incomplete_cards_and_forbidden_licences(
    header: dict[str, object], body: str | None, message: str, own_set: SetMaker
) -> None:
    own_set(header=header, **({"body": body} if body else {}))
    with pytest.raises(NNDError, match=message):
        make_plan("mine", "nnd/mine")


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> pa.Table:
    table = change(pq.read_table(path))
    pq.write_table(table, path)
    return table


def other_cell(table: pa.Table) -> pa.Table:
    values = table["low"].to_pylist()
    values[-1] += "."
    return table.set_column(table.column_names.index("low"), table.schema.field("low"), pa.array(values))


def test_data_that_are_not_what_was_built(real_sets: Real, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(real_sets("demo"), folder)
    assert make_plan(str(folder), "nnd/demo").name == "demo"
    for config in ("authors", "clean"):  # of this set they hold the same
        changed = rewrite(folder / config / "test-00000-of-00001.parquet", other_cell)
    with pytest.raises(NNDError, match="the data of config authors is not what its build wrote"):
        make_plan(str(folder), "nnd/demo")

    # With the report and the card made to fit, only a new build can tell.
    found = fingerprint(changed)
    for name in (REPORT, CARD):
        text = (folder / name).read_text(encoding="utf-8")
        old = read_report(real_sets("demo"))["authors"]["fingerprint"]
        (folder / name).write_text(text.replace(old, found), encoding="utf-8")
    with pytest.raises(
        NNDError, match=f"config authors: a new build gives fingerprint {old}, the folder holds {found}"
    ):
        make_plan(str(folder), "nnd/demo")


def test_another_source_file_gives_another_build(data: Path, real_sets: Real, tmp_path: Path) -> None:
    folder, file = real_sets("quiz_design"), "quiz_design_groups.jsonl"
    lines = (data / "quiz_design" / file).read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / file).write_text("".join(lines[:-30]), encoding="utf-8")
    with pytest.raises(NNDError, match=f"{file} is another file than it was built from"):
        make_plan(str(folder), "nnd/quiz_design", source=tmp_path)
    with pytest.raises(NNDError, match=r"cannot be built again.*no such file or folder.*--source"):
        make_plan(str(folder), "nnd/quiz_design", source=tmp_path / "nothing")


def test_folders_that_are_none(own_set: SetMaker, tmp_path: Path) -> None:
    folder = own_set()
    (folder / REPORT).unlink()
    with pytest.raises(NNDError, match=r"build_report.json says nothing of config all"):
        make_plan("mine", "nnd/mine")
    (folder / CARD).write_text("no header", encoding="utf-8")
    with pytest.raises(NNDError, match="no YAML header"):
        make_plan("mine", "nnd/mine")
    with pytest.raises(NNDError, match="there is no such folder"):
        make_plan(str(tmp_path / "nothing"), "nnd/mine")


def test_nothing_goes_out_from_outside_the_folder(own_set: SetMaker, nnd_home: Path, tmp_path: Path) -> None:
    """A stranger's folder whose card, or whose links, name files of the reader's."""
    folder = own_set()
    (nnd_home / "secret").mkdir()
    shutil.copy(folder / "all" / "test-00000-of-00001.parquet", nnd_home / "secret")
    card, report = (folder / CARD).read_text(), (folder / REPORT).read_text()
    for hostile in ("../../secret", "all/../all", "..", f"{nnd_home}/secret"):
        (folder / CARD).write_text(card.replace("config_name: all", f"config_name: {hostile}"))
        (folder / REPORT).write_text(report.replace('"all"', f'"{hostile}"'))
        with pytest.raises(NNDError, match="config"):
            make_plan(str(folder), "nnd/mine", dry_run=True)
    (folder / REPORT).write_text(report)
    for hostile in ("../up", "a b; rm -rf x", "a`b`"):
        (folder / CARD).write_text(card.replace("nnd_set: mine", f"nnd_set: {hostile}"))
        with pytest.raises(NNDError, match=r"README\.md: a set is named by letters, digits, _, - and \."):
            make_plan(str(folder), "nnd/mine", dry_run=True)
    (folder / CARD).write_text(card)
    for name in ("all/test-00000-of-00001.parquet", "all", CARD, REPORT):
        elsewhere = (folder / name).rename(tmp_path / "elsewhere")
        (folder / name).symlink_to(elsewhere)
        with pytest.raises(NNDError, match=r"is a link to a place outside of the folder"):
            make_plan(str(folder), "nnd/mine", dry_run=True)
        (folder / name).unlink()
        elsewhere.rename(folder / name)
    assert make_plan(str(folder), "nnd/mine", dry_run=True).name == "mine"


def test_a_card_that_quotes_texts_is_no_card_of_ids(own_set: SetMaker) -> None:
    text = some_tests()["context"][0].as_py()
    own_set(body=f"# Mine\n\nSuch as: {text}\n\n```bibtex\n@misc{{a,}}\n```\n")
    assert make_plan("mine", "nnd/mine").card.count(text) == 1
    with pytest.raises(NNDError, match="it quotes a text that may not be published"):
        make_plan("mine", "nnd/mine", ids_only=True)


# ---------------------------------------------------------------- parts


def test_every_set_and_corpus_has_its_terms() -> None:
    assert set(SETS) == set(SOURCES)
    assert set(CORPORA) == set(KNOWN)
    assert all(term.terms and term.source for terms in [*SETS.values(), *CORPORA.values()] for term in terms)


def test_own_licences_are_ones_that_can_be_published() -> None:
    check_licences([str(source.recipe.license) for source in SOURCES.values()], "sets")


@given(st.integers(0, 29), st.sampled_from(["context", "high", "low", "category", "test_id"]))
def test_versions_change_with_any_cell(row: int, column: str) -> None:
    from hub_upload.plan import _digest

    table = some_tests()
    values = table[column].to_pylist()
    values[row] += "!"
    other = table.set_column(table.column_names.index(column), column, pa.array(values))
    assert _digest({"all": table}, False) != _digest({"all": other}, False)
    assert _digest({"all": table}, False) == _digest({"all": some_tests()}, False)
    assert _digest({"all": table}, False) != _digest({"all": table}, True)


words = st.text("abc \n#`|-é", min_size=1).map(lambda text: re.sub(r"(?m)^(## |```)", "x", text).strip("\n"))


@given(st.lists(st.tuples(st.sampled_from(["Use", "Sizes", "Sources", "A|b"]), words), unique_by=lambda part: part[0]))
def test_cards_are_read_as_they_are_written(sections: list[tuple[str, str]]) -> None:
    import tempfile

    card = Card({"license": "mit"}, {"": "# Title", **dict(sections)})
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / CARD).write_text(card.text(), encoding="utf-8")
        again = read_card(Path(place))
    assert again.header == card.header
    assert again.sections == card.sections
    again.put("Use", ["other"])
    assert again.sections["Use"] == "other"
    assert len(again.sections) == len(card.sections) + ("Use" not in dict(sections))


@given(st.text("-\n\r# a:", max_size=30), st.sampled_from(["\n", "\r\n"]), st.text("-\n a#", max_size=30))
def test_header_and_body_are_where_the_hub_sees_them(header: str, end: str, body: str) -> None:
    text = f"---{end}{header}{end}---{end}{body}"
    parts = split_card(text)
    assert parts is not None
    try:
        known = RepoCard(text, ignore_metadata_errors=True)
    except Exception:  # a header that is not YAML, which `read_card` refuses, too
        return
    assert parts[1] == known.text.replace("\r\n", "\n").replace("\r", "\n")


def test_headings_in_code_are_no_sections(tmp_path: Path) -> None:
    (tmp_path / CARD).write_text("---\na: 1\n---\n# T\n\n```sh\n## no\n```\n\n## Yes\n\ntext\n", encoding="utf-8")
    assert list(read_card(tmp_path).sections) == ["", "Yes"]


def test_few_prompts_and_trivial_categories_are_limits_on_the_card(own_set: SetMaker) -> None:
    own_set(tables={"all": some_tests(12)})
    card = make_plan("mine", "nnd/mine").card
    assert "fewer than 10 distinct prompts, so no reliable error bar: dull (4), long (4), wrong (4)." in card
    assert "`all` dull: `longer` 1.00" in card, "better answers are longer, always"


HOSTILE = "<img src=x onerror=alert(1)> | ![x](http://x) `</code>` <script>a</script>"


def test_nothing_from_data_is_markup_on_a_published_card(own_set: SetMaker) -> None:
    """Names of categories and of files, in every section that publishing writes."""
    table = some_tests(12)
    categories = pa.array([HOSTILE] * 12)
    table = table.set_column(table.column_names.index("category"), table.schema.field("category"), categories)
    folder = own_set(tables={"all": table.append_column(HOSTILE, pa.array(["x"] * 12))})
    report = json.loads((folder / REPORT).read_text())
    report["all"] |= {"source_sha256": {f"a.csv\n```\n{HOSTILE}": HOSTILE}, "nnd_tasks": f"`{HOSTILE}"}
    (folder / REPORT).write_text(json.dumps(report))
    for ids_only in (False, True):
        card = make_plan("mine", "nnd/mine", ids_only=ids_only).card
        for heading in ("What baselines reach", "Known limits", "Sources", "Build signature"):
            assert f"## {heading}" in card
        body = card.split("---\n", 2)[2]
        tokens = [
            token for block in MarkdownIt().enable("table").parse(body) for token in [block, *(block.children or [])]
        ]
        assert [token for token in tokens if token.type in ("html_block", "html_inline", "image", "link_open")] == []
        rendered = "".join(token.content for token in tokens if token.type in ("text", "text_special"))
        assert "<script>" in rendered, "it is shown as it is"


def test_configs_of_other_options_are_built_again_too(data: Path, tmp_path: Path) -> None:
    file = "model_annotations.aligned.paired.jsonl"
    lines = (data / "summeval" / file).read_text(encoding="utf-8").splitlines(keepends=True)
    few = set(sorted({json.loads(line)["id"] for line in lines})[:8])
    (tmp_path / file).write_text("".join(line for line in lines if json.loads(line)["id"] in few), encoding="utf-8")
    folder = tmp_path / "summeval"
    build_set("summeval", tmp_path / file, folder)
    build_set("summeval", tmp_path / file, folder, {"rows": "all"})
    plan = make_plan(str(folder), "nnd/summeval", source=tmp_path)
    assert plan.notes == ()
    assert {"authors", "clean", "all_rows", "all_rows_clean"} == set(list_configs(folder)[0])
    recipe = json.loads(next(file.data for file in plan.files if file.path == "recipe.json"))
    assert recipe["commands"] == ["nnd build summeval", "nnd build summeval --rows all"]


def contributed(name: str, source: Path, options: dict[str, object] | None = None) -> None:
    from nnd_tasks.new.draft import draft_set, write_set

    write_set(draft_set(name, str(source), options))


ANSWERS = {
    **{"license": "cc0-1.0", "language": ["en"], "citation": "@misc{a,}", "homepage": "https://example.org"},
    **{"judges": "We.", "summary": "Answers.", "title": "Answers", "better": ["right"]},
}


def test_sets_of_a_users_own_are_made_again_from_their_table(tmp_path: Path, nnd_home: Path) -> None:
    source = tmp_path / "answers.csv"
    shutil.copy(REPO / "examples" / "answers.csv", source)
    contributed("answers", source, ANSWERS)
    assert "no --source names the table" in make_plan("answers", "me/answers", dry_run=True).notes[0]
    with pytest.raises(NNDError, match="name the table that it was made from with --source"):
        make_plan("answers", "me/answers")
    plan = make_plan("answers", "me/answers", source=source)
    assert plan.notes == ()
    assert make_plan("answers", "me/answers", source=tmp_path) == plan

    task = next(file.data.decode() for file in plan.files if file.path == "nnd_answers.yaml")
    assert "\ndataset_path: me/answers\n" in task
    assert "hf download me/answers nnd_answers.yaml" in plan.card
    assert "runs whatever code a task YAML names after `!function`" in plan.card
    folder = tmp_path / "tasks"
    folder.mkdir()
    # In the place of the hub: the dataset folder, which `datasets` loads in the same way.
    (folder / "nnd_answers.yaml").write_text(task.replace("me/answers", str(nnd_home / "nnd" / "answers")))
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    published = manager.load(["nnd_answers"])["tasks"]["nnd_answers"]
    own = TaskManager(include_path=str(nnd_home / "task_yamls"), include_defaults=False).load(["nnd_answers"])
    document = published.eval_docs[0]
    assert type(published).__name__ == "NNDTask"
    assert published.doc_to_text(document) == own["tasks"]["nnd_answers"].doc_to_text(document)

    yaml_of_task = nnd_home / "task_yamls" / "answers" / "nnd_answers.yaml"
    kept = yaml_of_task.read_text()
    yaml_of_task.write_text(kept + "process_docs: !function mine.change\n")
    with pytest.raises(NNDError, match=r"names mine\.change.*cannot be published"):
        make_plan("answers", "me/answers", source=source)
    yaml_of_task.write_text(kept)

    ids = make_plan("answers", "me/answers", source=source, ids_only=True)
    assert "nnd_answers.yaml" not in {file.path for file in ids.files}
    recipe = json.loads(next(file.data for file in ids.files if file.path == "recipe.json"))
    assert recipe["commands"] == ["nnd new answers --from answers.csv --recipe recipe.yaml"]
    from nnd_tasks.new.draft import draft_set

    (tmp_path / "recipe.yaml").write_bytes(next(file.data for file in ids.files if file.path == "recipe.yaml"))
    again = draft_set("answers", str(source), recipe=tmp_path / "recipe.yaml")
    assert fingerprint(again.table) == recipe["fingerprints"]["default"]

    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    source.write_text("".join(lines[:-4]), encoding="utf-8")
    with pytest.raises(NNDError, match=r"answers\.csv is another file than it was built from"):
        make_plan("answers", "me/answers", source=source)
    with pytest.raises(NNDError, match="answers cannot be built again"):
        make_plan("answers", "me/answers", source=tmp_path / "nothing.csv")


@pytest.mark.parametrize(
    ("name", "file", "ids_only"), [("hanna", "hanna.jsonl", True), ("webnlg", "webnlg2020_en_human.jsonl", False)]
)
def test_the_sets_that_come_as_recipes(name: str, file: str, ids_only: bool, data: Path, nnd_home: Path) -> None:
    contributed(name, data / "extra" / file)
    plan = make_plan(name, f"nnd/{name}", source=data / "extra")
    assert plan.notes == ()
    assert plan.ids_only == ids_only
    if ids_only:
        recipe = json.loads(next(found.data for found in plan.files if found.path == "recipe.json"))
        assert recipe["commands"] == [f"nnd new {name} --from {file}"]
    else:
        assert header_of(plan)["license"] == "cc-by-nc-sa-4.0"


@pytest.mark.parametrize("key", ["config_name", "path"])
def test_a_card_that_leads_out_of_its_folder_is_not_published(key: str, tmp_path: Path) -> None:
    folder = build_set("demo", out=tmp_path / "sets" / "demo").folder
    shutil.copytree(folder / "authors", tmp_path / "victim")
    text = (folder / CARD).read_text("utf-8")
    old = "config_name: clean\n" if key == "config_name" else "path: clean/test-*.parquet\n"
    new = "config_name: ../../victim\n" if key == "config_name" else "path: ../../victim/test-*.parquet\n"
    assert text.count(old) == 1
    (folder / CARD).write_text(text.replace(old, new), encoding="utf-8")
    report = json.loads((folder / REPORT).read_text("utf-8"))
    (folder / REPORT).write_text(json.dumps({**report, "../../victim": report["authors"]}), encoding="utf-8")
    with pytest.raises(NNDError, match=r"README\.md: config .*victim"):
        make_plan(str(folder), "me/mine", dry_run=True)
