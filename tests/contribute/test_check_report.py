"""What a report of a check holds as Markdown and JSON, and that texts of a set are neither markup nor links."""

import json
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nnd_tasks.contribute.check.checking import CheckReport
from nnd_tasks.contribute.check.rules import Row, finding

SIZES = {"tests": 2_000, "contexts": 80, "categories": {"fluency": 2_000}}
ERROR, NOTE = finding("card_license"), finding("edge_space")
WARNING = finding("html", config="authors", rows=[Row(3, "abc", "a <b>bold</b>")], count=3)


def report(*findings):
    return CheckReport("made", Path("/x/made"), {"authors": SIZES}, ["nnd_made"], findings)


def test_markdown_has_sizes_rows_counts_and_tables():
    table = finding("trivial_rule", table=[{"category": "fluency", "shorter": "99.0%"}])
    lines = report(ERROR, WARNING, table).markdown().split("\n")
    assert {
        "| `authors` | 2,000 | 80 | fluency 2,000 |",
        "- row 3, test `abc`: `a <b>bold</b>`",
        "- and 2 more",
        "| category | shorter |",
        "| fluency | 99.0% |",
    } <= {*lines}
    assert any(line.startswith("**warning** `html` (`authors`): HTML tags. To do: ") for line in lines)
    todo = report(finding("card_todo"))
    assert "under `facts` in the recipe" in todo.markdown(rendered=False), "a terminal would show entities"
    assert "under \\`facts\\` in the recipe" in todo.markdown()
    posted = report(WARNING).markdown(texts=False)
    assert "bold" not in posted
    assert "Texts are left out" in posted


TEXT = ("text", "text_special")
#: What a reader of the rendered report must not be made to see, click or be called by.
ATTACKS = [
    "```<img src=x>```",
    "<script>alert(1)</script> <!-- x -->",
    "[click](https://evil.example) ![x](https://evil.example/x.png) <https://evil.example>",
    "https://evil.example www.evil.example jane@evil.example @someone #1 GH-1 octo/repo#1",
    "#1",
    "a | b \\| c \\\\| d",
    "\\` \\\\` &lt;b&gt; &#60; **bold** __x__ ~~y~~ $x$ {{ 7 * 7 }} \\[a](b)",
]


def tokens(value):
    """Render a report as GitHub's Markdown does, with ``value`` wherever data may stand."""
    one = finding("html", value, value, rows=[Row(0, value, value)], count=1, table=[{value: value}])
    sizes = {value: {**SIZES, "categories": {value: 2_000}}}
    content = CheckReport(value, Path(), sizes, [value], [one]).markdown()
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return [token for block in parser.parse(content) for token in (block, *(block.children or []))]


HARMLESS = [one.type for one in tokens("x") if one.type not in TEXT]


@settings(max_examples=25)
@given(st.text(min_size=1, max_size=60) | st.sampled_from(ATTACKS) | st.text("`<>[]()!\\\\|&#;@*_~ \nx", min_size=1))
def test_what_the_data_hold_is_neither_markup_nor_a_link(value):
    """The same elements come out as for a harmless text, and nothing that GitHub would link, but in code."""
    found = tokens(value)
    assert [one.type for one in found if one.type not in TEXT] == HARMLESS
    rendered = "\n".join(
        "".join(one.content for one in block.children if one.type in TEXT) for block in found if block.children
    )
    assert not re.search(r"(?i)@\w|#\w|://|www\.\w|gh-\d", rendered)
    assert not value.isprintable() or " ".join(value.split()) in rendered.replace("\u200b", "")


def test_json_has_everything():
    content = json.loads(report(ERROR, WARNING).json())
    assert {**content, "findings": ...} == {
        **{"set": "made", "folder": "/x/made", "configs": {"authors": SIZES}, "tasks": ["nnd_made"]},
        **{"counts": {"error": 1, "warning": 1, "note": 0}, "findings": ...},
    }
    error, warning = content["findings"]
    assert (error["severity"], warning["severity"]) == ("error", "warning")
    assert warning["rows"] == [{"index": 3, "test_id": "abc", "detail": "a <b>bold</b>"}]
