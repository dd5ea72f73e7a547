"""Pairs of languages, read off names, and the tasks that `nnd build` writes for them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from nnd_tasks.harness.sandbox import render
from nnd_tasks.languages import LANGUAGES, language_pair, translation_prompt
from nnd_tasks.sets.build import build_set, config_of
from nnd_tasks.sets.shelf import find_recipe
from nnd_tasks.sets.tasks import write_tasks
from tests.sets.small_files import small_text, write_files

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
    "mqm_2025.final.tsv": "",
    "mqm_my_data.tsv": "",
    "mqm_this_is_no_pair.tsv": "",
    "mqm_de2de.tsv": "",
    "mqm_en2xx.tsv": "",
    "mqm_ratings.tsv": "",
}


@pytest.mark.parametrize(("file", "languages"), FILES.items())
def test_languages_are_read_off_the_name_of_a_file(file: str, languages: str) -> None:
    config = config_of(find_recipe("mqm"), file, Path(file))
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


def test_a_prompt_names_its_languages_or_none() -> None:
    doc = {"context": "Text."}
    assert render(translation_prompt(("zh", "en")), doc, "") == "Chinese: Text.\nEnglish:"
    assert render(translation_prompt(None), doc, "") == "Source: Text.\nTranslation:"


# ---------------------------------------------------------------- tasks


def test_a_config_without_a_task_of_the_package_gets_one(tmp_path: Path, nnd_home: Path) -> None:
    prompts = {}
    for file in ("mqm_ted_zhen.tsv", "mqm_newstest2021_ende.tsv", "mqm_mine.tsv"):
        source = write_files(tmp_path / file, {file: small_text("mqm")}) / file
        for task in write_tasks(find_recipe("mqm"), build_set("mqm", source)):
            assert task.path.parent == nnd_home / "task_yamls" / "mqm"
            prompts[task.name] = render(
                yaml.safe_load(task.path.read_text("utf-8"))["doc_to_text"], {"context": "T."}, ""
            )
    chinese, unknown = "Chinese: T.\nEnglish:", "Source: T.\nTranslation:"
    assert prompts == {
        "nnd_mqm_ted_zhen": chinese,
        "nnd_mqm_ted_zhen_clean": chinese,
        "nnd_mqm_mine": unknown,
        "nnd_mqm_mine_clean": unknown,
    }, "the package has those of the second file"
    assert "language:\n- en\n- zh\n- de\n" in (nnd_home / "nnd" / "mqm" / "README.md").read_text("utf-8")
