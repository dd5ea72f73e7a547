"""Pairs of languages, read off names, and the tasks that `nnd build` writes for them."""

from pathlib import Path

import yaml

from nnd_tasks.languages import LANGUAGES, language_pair, translation_prompt
from nnd_tasks.sets.build import build_set
from nnd_tasks.sets.catalogue import find_recipe
from nnd_tasks.sets.rows import config_of
from nnd_tasks.sets.tasks import write_tasks
from nnd_tasks.task.sandbox import fill_template
from tests.sets.small_files import small_text, write_files

#: Names of files, and the languages in them.
FILES = """mqm_newstest2020_ende en-de
    mqm_newstest2021_zhen zh-en
    mqm_ted_zhen zh-en
    mqm_generalMT2022_enru en-ru
    mqm_generalMT2023_heen he-en
    mqm_generalMT2024_jazh ja-zh
    sxs_mqm_generalMT2023_ende.3ratingsPerSegment en-de
    mqm_chinese-english zh-en
    mqm_wmt25_en-cs_CZ en-cs
    mqm_wmt25_cs-uk_UA cs-uk
    mqm_zh-en zh-en
    mqm_it2pt it-pt
    mqm_my_English_to_German
    mqm_2025.final
    mqm_my_data
    mqm_this_is_no_pair
    mqm_de2de
    mqm_en2xx
    mqm_ratings"""


def test_languages_are_read_off_the_name_of_a_file():
    for line in FILES.splitlines():
        file, _, languages = line.strip().partition(" ")
        config = config_of(find_recipe("mqm"), f"{file}.tsv", Path(f"{file}.tsv"))
        for name in (config, f"{config}_clean"):
            assert "-".join(language_pair(name) or ()) == languages, file


def test_every_pair_with_english_is_known_in_every_form():
    for code in set(LANGUAGES) - {"en"}:
        for one, other in (("en", code), (code, "en")):
            names = (
                f"x_{one}{other}",
                f"x_{one}_{other}",
                f"{one}2{other}",
                f"{LANGUAGES[one]}_{LANGUAGES[other]}".lower(),
            )
            assert {language_pair(name) for name in names} == {(one, other)}, names


def test_a_prompt_names_its_languages_or_none():
    doc = {"context": "Text."}
    assert fill_template(translation_prompt(("zh", "en")), doc, "") == "Chinese: Text.\nEnglish:"
    assert fill_template(translation_prompt(None), doc, "") == "Source: Text.\nTranslation:"


# ---------------------------------------------------------------- tasks


def test_a_config_without_a_task_of_the_package_gets_one(tmp_path, nnd_home):
    prompts = {}
    for file in ("mqm_ted_zhen.tsv", "mqm_newstest2021_ende.tsv", "mqm_mine.tsv"):
        source = write_files(tmp_path / file, {file: small_text("mqm")}) / file
        for task in write_tasks(find_recipe("mqm"), build_set("mqm", source)):
            assert task.path.parent == nnd_home / "task_yamls" / "mqm"
            prompts[task.name] = fill_template(
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
