"""A report as text, Markdown and JSON, and the command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from nnd_tasks.check.findings import Finding, Row, Severity, differing, finding, mask, shown
from typer.testing import CliRunner

from nnd_tasks.check.check_report import COMMENT, as_json, markdown, render, text, write
from nnd_tasks.check.checking import CheckReport, Size
from nnd_tasks.cli import app
from nnd_tasks.errors import NNDError
from tests import commands
from tests.check.made import Made
from tests.check.made import text as put


def report(*findings: Finding, **changes: object) -> CheckReport:
    sizes = {"authors": Size(2_000, 80, {"fluency": 2_000})}
    return CheckReport(
        **{"name": "made", "folder": Path("/x/made"), "sizes": sizes, "tasks": ["nnd_made"], **changes},
        findings=list(findings),
    )  # type: ignore[arg-type]


ERROR = finding("card_license", "no licence", "name it")
WARNING = finding("html", "tags", "remove", rows=[Row(3, "abc", "a <b>bold</b>")] * 7, config="authors")
NOTE = finding("near_equal", "near", "look?")


@pytest.mark.parametrize(
    ("findings", "status", "strict"),
    [((), 0, 0), ((NOTE,), 0, 0), ((NOTE, WARNING), 0, 3), ((ERROR,), 2, 2), ((NOTE, WARNING, ERROR), 2, 2)],
)
def test_the_exit_status_follows_the_worst(findings: tuple[Finding, ...], status: int, strict: int) -> None:
    assert report(*findings).exit_code() == status
    assert report(*findings).exit_code(strict=True) == strict


def test_text_has_rows_count_and_advice() -> None:
    shown_ = text(report(ERROR, WARNING, NOTE))
    assert "warning: html [authors]: tags\n    row 3, test abc: a <b>bold</b>\n" in shown_
    assert "    and 2 more\n    to do: remove\n" in shown_
    assert shown_.endswith("1 error, 1 warning, 1 note")
    assert "authors: 2,000 tests of 80 prompts (fluency 2,000)" in shown_


def test_markdown_is_in_order_of_severity_with_notes_folded() -> None:
    shown_ = markdown(report(NOTE, WARNING, ERROR))
    places = [
        shown_.index(part) for part in ("### Errors", "### Warnings", "<details><summary>Notes</summary>", "</details>")
    ]
    assert places == sorted(places)
    assert "- **`card_license`**: no licence. *To do:* name it." in shown_
    assert "  - row 3, test `abc`: `a <b>bold</b>`" in shown_
    assert "| `authors` | 2,000 | 80 | fluency 2,000 |" in shown_
    assert "look?." not in shown_


#: What a reader of the rendered report must not be made to see, click or be called by.
ATTACKS = [
    "```<img src=x>```",
    "` `` ``` <b>x</b> ```",
    "<script>alert(1)</script> <!-- x -->",
    "[click](https://evil.example) ![x](https://evil.example/x.png) <https://evil.example>",
    "https://evil.example www.evil.example jane@evil.example @someone #1 GH-1 octo/repo#1",
    "a | b \\| c \\\\| d",
    "\\` \\\\` &lt;b&gt; &#60; **bold** __x__ ~~y~~ $x$ {z} \\[a](b)",
    "# heading",
]


def tokens(content: str) -> list[Token]:
    """Return what GitHub's Markdown makes of a report, without the fold around notes, which is ours."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    blocks = parser.parse(re.sub(r"</?(details|summary)>", "", content))
    return [token for block in blocks for token in (block, *(block.children or []))]


def kinds(content: str) -> list[str]:
    return [token.type for token in tokens(content) if token.type not in ("text", "text_special", "entity")]


def everywhere(value: str) -> CheckReport:
    one = finding("html", f"{value} x", f"do {value}", rows=[Row(0, value or "t", shown(value))], config=value)
    sizes = {value: Size(2_000, 80, {value: 2_000})}
    return report(one, name=value or "made", sizes=sizes, tasks=[value], ran=[])


@given(st.text(max_size=60) | st.sampled_from(ATTACKS) | st.text("`<>[]()!\\\\|&#;@*_~ \nx", max_size=30))
def test_what_the_data_hold_is_never_markup(value: str) -> None:
    """It is read as it stands, and the same elements come out as for a harmless text."""
    found = tokens(markdown(everywhere(value)))
    assert kinds(markdown(everywhere(value))) == kinds(markdown(everywhere("x" if value else "")))
    assert not {"html_inline", "html_block", "link_open", "image", "s_open"} & {token.type for token in found}


@pytest.mark.parametrize("value", ATTACKS)
def test_nobody_is_called_and_nothing_is_linked(value: str) -> None:
    """GitHub looks for these in what is rendered, but not in code."""
    content = markdown(everywhere(value))
    rendered = "".join(token.content for token in tokens(content) if token.type in ("text", "text_special"))
    assert not re.search(r"(?i)@\w|#\w|://|www\.\w|gh-\d", rendered)
    shown_ = rendered.replace("\u200b", "")
    assert f"{value} x" in shown_
    assert f"{value} 2,000" in shown_


def test_our_own_advice_comes_out_as_it_is_written() -> None:
    one = finding("card_citation", "no citation", "add a ```bibtex block")
    rendered = "".join(token.content for token in tokens(markdown(report(one))) if token.type == "text")
    assert "add a ```bibtex block." in rendered


def test_texts_are_left_out_of_what_is_posted() -> None:
    shown_ = render(report(WARNING), "markdown", texts=False)
    assert "bold" not in shown_
    assert "  - row 3, test `abc`\n" in shown_
    assert "Texts are left out" in shown_
    assert "bold" in render(report(WARNING), "text", texts=False)


def test_markdown_fits_into_a_comment() -> None:
    many = [finding("html", f"tags {i} {'x' * 400}", "remove", rows=[Row(3, "abc", "y" * 80)] * 7) for i in range(400)]
    shown_ = markdown(report(ERROR, *many, NOTE))
    assert COMMENT - 2_000 < len(shown_) < 65_536
    left = re.search(r"(\d+) more did not fit here", shown_)
    assert left is not None
    assert int(left[1]) + shown_.count("**`html`**") + shown_.count("**`near_equal`**") == 401


def test_json_has_everything() -> None:
    content = json.loads(as_json(report(ERROR, WARNING)))
    assert content["counts"] == {"error": 1, "warning": 1, "note": 0}
    assert content["configs"] == {"authors": {"tests": 2_000, "contexts": 80, "categories": {"fluency": 2_000}}}
    assert content["findings"][1] == {
        "severity": "warning",
        "code": "html",
        "message": "tags",
        "fix": "remove",
        "rows": [{"index": 3, "test_id": "abc", "detail": "a <b>bold</b>"}] * 5,
        "count": 7,
        "config": "authors",
    }


def test_terminal_escapes_are_shown_not_obeyed() -> None:
    one = finding("html", "a\x1b[31mred", "b\nc", rows=[Row(0, "i\x1bd", shown("x\x07y"))])
    for form in ("text", "markdown"):
        assert not re.search("[\x1b\x07]", render(report(one), form))


def test_a_format_that_there_is_not() -> None:
    with pytest.raises(NNDError, match="--format html: expected text, markdown or json"):
        render(report(), "html")


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write("new", tmp_path / "a" / "report.md")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["report.md"]
    assert (tmp_path / "a" / "report.md").read_text() == "new\n"
    (tmp_path / "folder").mkdir()
    with pytest.raises(NNDError, match=r"folder: cannot be written \(is a folder\); name another file with --output"):
        write("new", tmp_path / "folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


# ---------------------------------------------------------------- what is shown of texts


@given(st.text(alphabet="ab @.x", max_size=120), st.text(alphabet="ab .x", max_size=120))
def test_an_address_is_masked_wherever_it_stands(before: str, after: str) -> None:
    address = "jane.doe@example.org"
    for shown_ in (shown(f"{before} {address} {after}"), differing(f"{before} {address} a", f"{before} {address} b")):
        assert "example" not in shown_
        assert "jane" not in shown_


@given(
    st.text(alphabet="abc ", max_size=200), st.text(alphabet="abc ", max_size=20), st.text(alphabet="abc ", max_size=20)
)
def test_the_first_difference_is_shown(same: str, better: str, worse: str) -> None:
    left, _, right = differing(f"{same}{better}", f"{same}{worse}").partition(" | ")
    assert (left != right) == (better != worse)


def test_masks_keep_how_it_begins() -> None:
    assert mask("call +49 30 1234567 or write to jane@example.org") == "call +49 ** ******* or write to j***@***.org"


# ---------------------------------------------------------------- the command


def nnd(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NND_DEBUG", "COLUMNS")}
    command = [sys.executable, "-m", "nnd_tasks.cli", "check", *map(str, arguments)]
    env |= {"NND_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    return commands.run(command, env=env)


@pytest.mark.slow
def test_the_command_ends_as_it_says(nnd_home: Path, tmp_path: Path) -> None:
    made = Made(nnd_home)
    made.write()
    done = nnd(nnd_home, "made", "--no-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("made  "), "text in a pipe too"
    done = nnd(nnd_home, "made")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("0 errors, 0 warnings, 0 notes\n")
    assert "1 of 1 run on a tiny model" in done.stdout

    put(made, "<b>bold</b>")
    folder = str(made.write())
    call = CliRunner().invoke
    assert call(app, ["check", folder, "--no-run"]).exit_code == 0
    strict = call(app, ["check", folder, "--no-run", "--strict", "--format", "json"])
    assert strict.exit_code == 3
    assert json.loads(strict.stdout)["counts"] == {"error": 0, "warning": 1, "note": 0}

    made.header["license"] = "unknown"
    made.write()
    done = nnd(nnd_home, "made", "--no-run", "--format", "markdown", "--output", tmp_path / "report.md")
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.strip() == f"1 error, 1 warning, 0 notes; written: {tmp_path / 'report.md'}"
    assert (tmp_path / "report.md").read_text().startswith("## `nnd check`: made\n")


@pytest.mark.parametrize(
    ("changes", "quoted"),
    [({}, True), ({"nnd_set": "hanna"}, False), ({"license": "proprietary"}, False), ({"license": "unknown"}, False)],
)
def test_texts_are_posted_only_where_they_may_be(
    changes: dict[str, str], quoted: bool, nnd_home: Path, tmp_path: Path
) -> None:
    made = Made(nnd_home)
    put(made, "some <b>bold</b> words")
    made.header |= changes
    folder = made.write()
    for form, expected in (("markdown", quoted), ("text", True)):
        output = tmp_path / form
        call = ["check", str(folder), "--no-run", "--format", form, "--output", str(output)]
        CliRunner().invoke(app, call)
        assert ("bold" in output.read_text()) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["summeval"],
            "nnd: error: set 'summeval' is not built here; run: nnd build summeval",
        ),
        (["made", "--config", "lost"], "it has no config 'lost', only authors"),
        (["made", "--format", "html"], "nnd: error: --format html: expected text, markdown or json"),
        (["made", "--tasks", "nowhere"], "nnd: error: --tasks nowhere: there is no such folder"),
    ],
)
def test_a_wrong_call_is_one_line_and_status_1(arguments: list[str], message: str, nnd_home: Path) -> None:
    Made(nnd_home).write()
    done = nnd(nnd_home, *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_severities_have_an_order() -> None:
    assert Severity.ERROR > Severity.WARNING > Severity.NOTE


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_brief_shows_no_notes_and_counts_them(form: str) -> None:
    short = render(replace(report(ERROR, NOTE), brief=True), form)
    assert NOTE.code not in short
    assert ERROR.code in short
    assert '"note": 1' in short if form == "json" else "1 error, 0 warnings, 1 note" in short
