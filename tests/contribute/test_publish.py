"""`nnd publish`: complete cards, data that a new build gives, no text that may not go out."""

import hashlib
import io
import shutil
from unittest.mock import Mock

import datasets
import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import HfApi

from nnd_tasks.contribute.publish import make_plan
from nnd_tasks.errors import NNDError
from nnd_tasks.publishers.licences import KNOWN as TERMS
from nnd_tasks.schema import fingerprint
from nnd_tasks.sets.catalogue import list_recipes
from nnd_tasks.store import CARD, REPORT, parse_card
from nnd_tasks.studies.stress.corpora import KNOWN
from nnd_tasks.task.documents import load_tests
from nnd_tasks.training.training_pairs import add_preferences
from tests.contribute.conftest import some_tests
from tests.sets.tables import read_arguments

ARGUMENTS = read_arguments(__file__)

PARQUET = "all/test-00000-of-00001.parquet"


def card_in(plan):
    return parse_card(plan.files[CARD].decode(), "")


def test_a_set_whose_texts_may_go_out_goes_as_it_is(own_set, tmp_path):
    mine = own_set(prepare="def rows(folder): ...\n")
    (mine.recipe / "nnd_mine.yaml").write_text("task: nnd_mine\nclass: !function nnd_tasks.task.task.NNDTask\n")
    plan = make_plan("mine", "me/mine", source="in/*.json")
    assert plan.version != make_plan("mine", "me/mine", ids_only=True).version
    assert mine.build.call_args_list[0].args[1] == "in/*.json"
    assert list(plan.files) == [CARD, REPORT, "mine/_recipe", "mine/prepare.py", "nnd_mine.yaml", PARQUET]
    assert (plan.ids_only, plan.notes) == (False, ())
    header, body = card_in(plan)
    assert header["license"] == "mit"
    assert 'load_dataset("me/mine", "all"' in body
    assert "hf download me/mine nnd_mine.yaml" in body
    assert pq.read_table(io.BytesIO(plan.files[PARQUET])).equals(some_tests())
    assert b"\ndataset_path: me/mine\n" in plan.files["nnd_mine.yaml"]
    assert make_plan(str(mine.folder), "me/mine") == plan, "the same again, and by its folder"

    (mine.recipe / "nnd_mine.yaml").write_text("task: nnd_mine\nprocess_docs: !function mine.change\n")
    with pytest.raises(NNDError, match=r"names mine\.change.*cannot be published"):
        make_plan("mine", "me/mine")


def test_a_set_whose_prompt_is_its_context_is_described_to_inspect(own_set):
    """tests/contribute/test_inspect.py runs such a description."""
    plain = some_tests().drop_columns(["question"])
    own_set(tables={"all": plain, "asking": some_tests(word="fine")})
    plan = make_plan("mine", "me/mine")
    described = yaml.safe_load(plan.files["eval.yaml"])
    [task] = described["tasks"]
    assert (described["evaluation_framework"], task["id"], task["config"]) == ("inspect-ai", "all", "all")
    fields = task["field_spec"]
    assert {fields["input"], *fields["choices"]} <= set(plain.column_names)
    assert "eval.yaml" not in make_plan("mine", "me/mine", ids_only=True).files


def test_of_texts_that_may_not_go_out_only_ids_labels_and_how_to_build_them(own_set):
    mine = own_set(prepare="# how\n", license="other")
    with pytest.raises(NNDError, match=r"licence other is not known .* --ids-only"):
        make_plan("mine", "me/mine")
    plan = make_plan("mine", "me/mine", ids_only=True)
    assert plan.ids_only
    assert list(plan.files) == [CARD, REPORT, "mine/_recipe", "mine/prepare.py", PARQUET]
    table, ids = some_tests(), pq.read_table(io.BytesIO(plan.files[PARQUET]))
    hashes = {"context_sha256", "high_sha256", "low_sha256", "question_sha256"}
    assert {*ids.column_names} == {"test_id", "cluster_id", "category", "high_first", *hashes}
    assert ids["test_id"].equals(table["test_id"])
    texts = table["high"].to_pylist()
    assert ids["high_sha256"].to_pylist() == [hashlib.sha256(text.encode()).hexdigest() for text in texts]
    assert not any(text[:40].encode() in content for text in texts for content in plan.files.values())
    header, body = card_in(plan)
    assert "nnd_schema_version" not in header, "a clone of it is no set to run"
    assert "nnd build ./mine --source mine.csv --trust" in body
    assert body.index("## Ids and a recipe") < body.index("## Sizes")

    quoting = mine.folder.joinpath(CARD).read_text().replace("Mine.", f"Such as: {texts[3]}")
    mine.folder.joinpath(CARD).write_text(quoting)
    with pytest.raises(NNDError, match=r"README\.md: it quotes a text that may not be published"):
        make_plan("mine", "me/mine", ids_only=True)


def test_terms_that_we_know_decide_whatever_the_licence(own_set, monkeypatch):
    stress = {"texts": 3, "seeds": 1, "levels": {"truncation": [1]}}
    own_set("closed", license="other", corpus="ted", **stress)
    monkeypatch.setattr("nnd_tasks.contribute.publish.list_recipes", dict)
    plan = make_plan("closed", "me/closed")
    assert plan.ids_only
    header, body = card_in(plan)
    assert header["license"] == "apache-2.0"
    assert "nnd stress build closed --corpus ted --source FOLDER --texts 3 --seeds 1 --errors truncation" in body
    assert "there is no recipe of closed here" in plan.notes[0]
    own_set("free", license="other", corpus="wikitext", **stress)
    monkeypatch.setattr("nnd_tasks.contribute.publish.list_recipes", dict)
    free = make_plan("free", "me/free")
    assert not free.ids_only
    assert card_in(free)[0]["license"] == ["cc-by-sa-3.0", "gfdl"]


@pytest.mark.parametrize(("license", "lost", "message"), ARGUMENTS["incomplete_cards_and_closed_licences"])
def test_incomplete_cards_and_closed_licences(license, lost, message, own_set):
    card = own_set(license=license).folder / CARD
    assert lost in card.read_text()
    card.write_text(
        card.read_text().replace(lost, "Judges: TODO who?" if lost.startswith("Judges") else "", bool(lost))
    )
    with pytest.raises(NNDError, match=message):
        make_plan("mine", "me/mine")


def test_data_that_no_build_gives(own_set, monkeypatch):
    mine = own_set()

    def refuse(message, **options):
        with pytest.raises(NNDError, match=message):
            make_plan("mine", "me/mine", **options)

    mine.again.tables["all"] = some_tests(word="fine")
    refuse(r"a new build gives other tests for config all.*; build the set again")
    mine.again.report = {"all": {"source_sha256": {"mine.csv": "cd" * 32}}}
    refuse(r"mine\.csv is another file than it was built from")
    mine.again.tables.clear()
    refuse("gives no tests for config all")
    monkeypatch.setattr("nnd_tasks.contribute.publish.make_set", Mock(side_effect=NNDError("mine.csv has no address")))
    assert make_plan("mine", "me/mine", dry_run=True).notes == ("mine was not built again: mine.csv has no address",)
    refuse(r"so it is not published: mine\.csv has no address; name its files with --source")
    refuse("so it is not published", source="other.csv", dry_run=True)
    pq.write_table(some_tests(word="fine"), mine.folder / PARQUET)
    refuse("the data of config all is not what its build wrote", dry_run=True)


@pytest.mark.parametrize("name", [PARQUET, "all", CARD, REPORT])
def test_nothing_goes_out_from_outside_the_folder(name, own_set, tmp_path):
    folder = own_set().folder
    elsewhere = (folder / name).rename(tmp_path / "elsewhere")
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(NNDError, match="is a link to a place outside of the folder"):
        make_plan(str(folder), "me/mine")


def test_every_set_and_corpus_has_its_terms():
    assert set(TERMS["sets"]) == {name for name, found in list_recipes().items() if found.origin == "package"}
    assert set(TERMS["corpora"]) == set(KNOWN)
    assert all(term.terms and term.source for of in TERMS.values() for terms in of.values() for term in terms)


def test_preference_data_stay_here(demo_home, nnd_home):
    folder = shutil.copytree(demo_home / "nnd" / "demo", nnd_home / "nnd" / "demo")
    before = make_plan("demo", "me/demo").files
    add_preferences(folder)
    assert make_plan("demo", "me/demo").files == before


def test_what_is_loaded_from_the_hub_is_what_was_built(own_set, tmp_path, monkeypatch):
    tables = {"all": some_tests(), "part": some_tests(12)}
    folder = own_set(tables=tables).folder
    for place, ids_only in ((tmp_path / "open", False), (tmp_path / "ids", True)):
        for path, content in make_plan("mine", "nnd/mine", ids_only=ids_only).files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
    shutil.rmtree(folder)
    place, load = tmp_path / "open", datasets.load_dataset

    def from_hub(path, *arguments, **options):
        assert path == "nnd/mine"
        return load(str(place), *arguments, cache_dir=str(tmp_path / "cache" / place.name), **options)

    monkeypatch.setattr(datasets, "load_dataset", from_hub)
    monkeypatch.setattr(HfApi, "dataset_info", Mock())
    for config, table in ((None, tables["all"]), ("part", tables["part"])):
        loaded, origin, _ = load_tests("nnd/mine", config, "test", {})
        assert (origin["config"], origin["local"]) == (config or "all", False)
        assert origin["fingerprint"] == fingerprint(loaded) == fingerprint(table)
    place = tmp_path / "ids"
    with pytest.raises(NNDError, match=r"\(the hub has its ids, and no texts\)"):
        load_tests("nnd/mine", None, "test", {})

    monkeypatch.setattr(HfApi, "dataset_info", Mock(side_effect=OSError("no route")))
    with pytest.raises(NNDError, match=r"FILE_OR_DIR \(and the hub could not be"):
        load_tests("nnd/frank", None, "test", {})
