"""What a card says, what of it people may write, and that no text of a stranger becomes markup."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from huggingface_hub import RepoCard
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nnd_tasks.contribute.check.checking import find_todos
from nnd_tasks.errors import NNDError
from nnd_tasks.schema import ConfigSummary
from nnd_tasks.sets.recipe import Facts
from nnd_tasks.sets.write import KNOWN_BY_PEOPLE, CardFacts, make_card, todo
from nnd_tasks.store import parse_card, read_table

GIVEN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
FACTS = Facts(**GIVEN["facts"])
CARD_FACTS = CardFacts("answers", FACTS, "Right ones are better.", recipe="label: grade\nbetter: [right]\n")
REPORT = GIVEN["report"]
SUMMARIES = [ConfigSummary(name, 1000, 70, 900, {"wrong": 1000}, "f" * 16) for name in ("all", "all_clean")]
COLUMNS = ("test_id", "high_first", "question")


def card_of(card_facts=CARD_FACTS, earlier="", **report):
    return make_card(card_facts, SUMMARIES, COLUMNS, {"all": REPORT | report}, default="all", earlier=earlier)


def test_a_card_has_the_facts_and_the_counts():
    card = card_of()
    header = yaml.safe_load(card.split("---\n")[1])
    assert header["nnd_set"] == "answers"
    assert header["size_categories"] == ["1K<n<10K"]
    assert [one.get("default") for one in header["configs"]] == [True, None]
    assert header["configs"][1]["data_files"] == [{"split": "test", "path": "all_clean/test-*.parquet"}]
    assert "human-evaluation" in header["tags"]
    for line in (
        f"| `all` | 1,000 | 70 | 900 | `{'f' * 16}` |",
        "| `question` | prompt field: what was asked |",
        "- `all`: 1,200 rows read = 1,199 used + 1 left out: 1 row without a judgement.",
        "- `all`: 1,199 judgements read = 1,197 used + 2 left out: 2 judgements whose label says nothing of quality.",
        "| `all` | wrong | **0.810** | 0.500 |",
        "| `all` | 1,000 | 0 | 0 | 0 | 4 | 4 | 996 | `all_clean` |",
        f"| `answers.csv` | `{'ab' * 32}` | `all` |",
        "Human evaluation: Answers, https://example.org. Licence: cc-by-4.0.",
        "better: [right]",
    ):
        assert f"\n{line}\n" in card, line
    assert card.index("@misc{answers2024,") < card.index("@inproceedings{laban2022nnd,")
    begin = "<!-- kept by builds: begin -->\n"
    assert find_todos(*parse_card(card.replace(begin, f"{begin}TODO: draw a picture.\n"), "")) == []


def test_what_only_people_know_is_marked_where_it_is_missing():
    unknown = Facts(**{**FACTS.model_dump(), **dict.fromkeys(KNOWN_BY_PEOPLE), "language": ()})
    card = card_of(replace(CARD_FACTS, facts=unknown))
    assert all(todo(key) in card for key in KNOWN_BY_PEOPLE)
    assert {*find_todos(*parse_card(card, ""))} == {*KNOWN_BY_PEOPLE}
    nothing = Facts(**{**FACTS.model_dump(), "citation": "", "homepage": ""})
    assert find_todos(*parse_card(card_of(replace(CARD_FACTS, facts=nothing)), "")) == [], "known to be nothing"
    said = Facts(**{**FACTS.model_dump(), "summary": "TODO: write it", "judges": "TODO", "homepage": "TODO later"})
    assert find_todos(*parse_card(card_of(replace(CARD_FACTS, facts=said)), "")) == ["summary", "judges", "homepage"]


def test_only_what_stands_between_the_markers_and_new_fields_stay():
    first = card_of()
    assert card_of(earlier=first) == first
    begin = "<!-- kept by builds: begin -->\n"
    edited = first.replace(begin, f"{begin}### Ours\n\nAsk us <b>first</b>.\n").replace("Two people.", "Changed.")
    edited = edited.replace("license: cc-by-4.0", "license: mit\nannotations_creators: [found]\nnnd_published: ids")
    again = card_of(earlier=edited)
    assert f"{begin}### Ours\n\nAsk us <b>first</b>.\n<!-- kept by builds: end -->" in again
    assert "Two people." in again
    header, _ = parse_card(again, "")
    assert (header["license"], header["annotations_creators"]) == ("cc-by-4.0", ["found"])
    assert "nnd_published" not in header
    assert card_of(earlier=again) == again
    for damaged in (edited.replace(begin, ""), edited.replace("<!-- kept by builds: end -->", "")):
        with pytest.raises(NNDError, match="is missing; put it back"):
            card_of(earlier=damaged)
    with pytest.raises(NNDError, match="no YAML header"):
        card_of(earlier="# Mine")
    with pytest.raises(NNDError, match="alias"):
        card_of(earlier="---\na: &a [1]\nb: *a\n---\n")


HOSTILE = (
    "<img src=x onerror=a()> | ![x](http://x) `</code>` <script>a</script>\n```\n<b>\n<!-- kept by builds: begin -->\nx"
)


def test_no_text_of_a_stranger_is_html_or_leaves_its_cell():
    facts = Facts(
        **{**FACTS.model_dump(), **dict.fromkeys(("title", "summary", "judges", "citation", "license"), HOSTILE)}
    )
    card_facts = replace(CARD_FACTS, facts=facts, rule=HOSTILE, recipe=HOSTILE)
    summaries = [replace(SUMMARIES[0], categories={HOSTILE: 1})]
    rates = {"all": {"shorter": 0.5, "system": 0.5}, HOSTILE: {"shorter": 0.5}}
    report = REPORT | {"source_sha256": {HOSTILE: HOSTILE}, "trivial_rules": rates, "trivial_system": HOSTILE}
    first = make_card(card_facts, summaries, [*COLUMNS, HOSTILE], {"all": report}, default="all")
    card = make_card(card_facts, summaries, [*COLUMNS, HOSTILE], {"all": report}, default="all", earlier=first)
    assert card == first, "a marker in a fact is none"
    _, body = parse_card(card, "")
    blocks = MarkdownIt().enable("table").parse(body)
    found = [token.content for one in blocks for token in [one, *(one.children or [])] if token.type.startswith("html")]
    assert all(re.fullmatch("<!--[^<]*-->", text.strip()) for text in found), "only our comments"
    headings = [one.content for place, one in enumerate(blocks) if blocks[place - 1].type == "heading_open"]
    assert headings[1:3] == ["Sizes", "Use"]
    assert headings[-1] == "Citation"
    rows = [line.replace("\\|", "").count("|") for line in body.splitlines() if line.startswith("| `all` | &lt;img")]
    assert rows == [4, 5], "of the categories and of the baselines"


@given(st.text("-\n\r# a:", max_size=30), st.sampled_from(["\n", "\r\n"]), st.text("-\n a#", max_size=30))
def test_header_and_body_are_where_the_hub_sees_them(header, end, body):
    text = f"---{end}a: 1{end}#{header}{end}---{end}{body}"
    try:
        known = RepoCard(text, ignore_metadata_errors=True)
        found = parse_card(text, "")[1]
    except Exception:  # a header that is not YAML, or no mapping
        return
    assert found == known.text.replace("\r\n", "\n").replace("\r", "\n")


def test_the_patterns_on_a_card_read_one_config_and_no_other(home, monkeypatch):
    monkeypatch.chdir(home / "nnd" / "demo")
    card = Path("README.md").read_text("utf-8")
    expected = sorted(Path("authors").rglob("*.parquet"))
    patterns = re.findall(r"""["' ](authors/test-\*[^"'\n]*)["']""", card)
    assert len(patterns) == 2  # of polars and duckdb
    assert [sorted(Path().glob(pattern)) for pattern in patterns] == [expected] * 2
    [pandas_line] = re.findall(r"^pandas\..*$", card, re.MULTILINE)
    tests = eval(pandas_line, {"pandas": pd})
    assert tests["test_id"].is_unique
    assert len(tests) == len(read_table(Path(), "authors")) == 381
