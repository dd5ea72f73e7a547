"""Pairs of languages, read off names or said by the user, and the tasks that `nnd build` writes for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from nnd_tasks.errors import NNDError
from nnd_tasks.harness.sandbox import render
from nnd_tasks.languages import LANGUAGES, language_pair, read_pair, translation_prompt
from nnd_tasks.new.keep import build_recipe
from nnd_tasks.recipes.make import config_of
from nnd_tasks.recipes.shelf import find_recipe
from tests.recipes.small_files import MQM_COLUMNS, mqm_rows, tsv, write_files

#: Name of a file -> the languages in it.
FILES = {
    "mqm_newstest2020_ende.tsv": "en-de",
    "mqm_newstest2021_zhen.tsv": "zh-en",
    "mqm_ted_zhen.tsv": "zh-en",
    "mqm_generalMT2022_enru.tsv": "en-ru",
    "mqm_generalMT2023_ende.tsv": "en-de",
    "mqm_generalMT2023_heen.tsv": "he-en",
    "mqm_generalMT2024_jazh.tsv": "ja-zh",
    "mqm_generalMT2024_enes.tsv": "en-es",
    "sxs_mqm_generalMT2023_ende.3ratingsPerSegment.tsv": "en-de",
    "mqm_chinese-english.tsv": "zh-en",
    "mqm_my_English_to_German.tsv": "",
    "mqm_wmt25_en-cs_CZ.tsv": "en-cs",
    "mqm_wmt25_cs-uk_UA.tsv": "cs-uk",
    "mqm_zh-en.tsv": "zh-en",
    "mqm_en2es.tsv": "en-es",
    "mqm_it2pt.tsv": "it-pt",
    "mqm_2025.zh-en.tsv": "zh-en",
    "mqm_2025.final.tsv": "",
    "mqm_my_data.tsv": "",
    "mqm_this_is_no_pair.tsv": "",
    "mqm_de2de.tsv": "",
    "mqm_en2xx.tsv": "",
    "mqm_ratings.tsv": "",
}


@pytest.mark.parametrize(("file", "languages"), FILES.items())
def test_languages_are_read_off_the_name_of_a_file(file: str, languages: str) -> None:
    config = config_of("mqm", find_recipe("mqm").recipe, file, Path(file))
    for name in (config, f"{config}_clean"):
        assert language_pair(name) == (tuple(languages.split("-")) if languages else None)


def test_every_pair_with_english_is_known_in_every_form() -> None:
    for code in set(LANGUAGES) - {"en"}:
        for one, other in (("en", code), (code, "en")):
            names = (
                f"x_{one}{other}",
                f"x_{one}_{other}",
                f"{one}2{other}",
                f"{LANGUAGES[one]}_{LANGUAGES[other]}".lower(),
            )
            assert {language_pair(name) for name in names} == {(one, other)}, names
            assert read_pair(f"{one}-{other}") == read_pair(f"{LANGUAGES[one]}-{LANGUAGES[other]}") == (one, other)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("zx-en", "--languages zx-en: zx is no code of a language that we have a name of"),
        ("en-germn", "did you mean 'german'?"),
        ("zhen", "name two languages, of the source and of the translation, such as zh-en"),
        ("en-en", "name two languages"),
        ("en-de-fr", "name two languages"),
        ("", "name two languages"),
    ],
)
def test_what_names_no_two_languages_is_one_error(said: str, message: str) -> None:
    with pytest.raises(NNDError) as caught:
        read_pair(said)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_prompt_names_its_languages_or_none() -> None:
    doc = {"context": "Text."}
    assert render(translation_prompt(("zh", "en")), doc, "") == "Chinese: Text.\nEnglish:"
    assert render(translation_prompt(None), doc, "") == "Source: Text.\nTranslation:"


# ---------------------------------------------------------------- tasks


@pytest.fixture
def prompts(tmp_path: Path, nnd_home: Path) -> Callable[..., dict[str, str]]:
    """Build a small file of a name; return task -> prompt of those that were written."""

    def call(file: str, **options: object) -> dict[str, str]:
        source = write_files(tmp_path / "in", {file: tsv(MQM_COLUMNS, mqm_rows())}) / file
        result, tasks = build_recipe("mqm", source, **options)
        call.notes = result.notes  # type: ignore[attr-defined]
        said = {task.name: yaml.safe_load(task.path.read_text("utf-8")) for task in tasks}
        assert all(task.path.parent == nnd_home / "task_yamls" / "mqm" for task in tasks)
        assert all(one["task"] == name == f"nnd_mqm_{one['dataset_name']}" for name, one in said.items())
        return {name: render(one["doc_to_text"], {"context": "T."}, "") for name, one in said.items()}

    return call


def test_a_config_without_a_task_of_the_package_gets_one(
    prompts: Callable[..., dict[str, str]], nnd_home: Path
) -> None:
    both = "nnd_mqm_ted_zhen", "nnd_mqm_ted_zhen_clean"
    assert prompts("mqm_ted_zhen.tsv") == dict.fromkeys(both, "Chinese: T.\nEnglish:")
    assert prompts("mqm_newstest2021_ende.tsv") == {}, "the package has these tasks"
    assert "language:\n- de\n- en\n- zh\n" in (nnd_home / "nnd" / "mqm" / "README.md").read_text("utf-8")


def test_languages_may_be_said_where_the_name_has_none(prompts: Callable[..., dict[str, str]], nnd_home: Path) -> None:
    assert set(prompts("mqm_mine.tsv").values()) == {"Source: T.\nTranslation:"}
    [note] = [note for note in prompts.notes if "--languages" in note]  # type: ignore[attr-defined]
    assert note.startswith("nnd_mqm_mine and nnd_mqm_mine_clean: the prompt names no languages")
    prompts("mqm_mine.tsv", languages="zh-en")
    kept = [note for note in prompts.notes if "was there and is kept" in note]  # type: ignore[attr-defined]
    assert len(kept) == 2
    assert set(prompts("mqm_mine.tsv", languages="zh-en", replace=True).values()) == {"Chinese: T.\nEnglish:"}
    assert "language:\n- en\n- zh\n" in (nnd_home / "nnd" / "mqm" / "README.md").read_text("utf-8")


def test_languages_other_than_those_of_the_name_are_refused(
    prompts: Callable[..., dict[str, str]], nnd_home: Path
) -> None:
    with pytest.raises(NNDError, match="--languages en-de: config ted_zhen is named for zh-en"):
        prompts("mqm_ted_zhen.tsv", languages="en-de")
    assert not (nnd_home / "nnd").exists(), "nothing is half-written"
    with pytest.raises(NNDError, match="set demo: --languages is for sets of translations"):
        build_recipe("demo", languages="en-de")


def test_a_name_whose_task_scores_another_config_gets_no_task(prompts: Callable[..., dict[str, str]]) -> None:
    assert set(prompts("mqm_ende.tsv")) == set()
    assert any("as nnd_mqm_ende scores another config; rename the file" in n for n in prompts.notes)  # type: ignore[attr-defined]


def test_with_out_no_task_is_written(prompts: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    assert prompts("mqm_ted_zhen.tsv", out=tmp_path / "out") == {}
