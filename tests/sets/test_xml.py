"""read_records, read_table of XML: the innermost list of elements with attributes or children."""

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.tables.read import read_records
from tests.sets.small_files import write_files
from tests.sets.tables import make, pick, read_tests

SEG = '<seg id="1"><src>q</src><hyp score="1">bb</hyp><hyp score="3">aa</hyp></seg><seg id="2"><src>r</src></seg>'
HYPS = [{"score": "1", "text": "bb"}, {"score": "3", "text": "aa"}]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (f"<doc>{SEG}</doc>", {"id": "1", "src": "q", "hyp": HYPS}),
        (f'<doc xmlns="http://example.org/x">{SEG}</doc>', {"id": "1", "src": "q", "hyp": HYPS}),
        (
            "<d><s><t>q</t><h><text>bb</text><r>1</r><r>2</r></h><h><text>aa</text></h></s></d>",
            {"t": "q", "h": [{"text": "bb", "r": ["1", "2"]}, {"text": "aa"}]},
        ),
        (
            '<d by="us"><s><t>q</t><as><h><text>bb</text></h><h><text>aa</text></h></as></s></d>',
            {"t": "q", "as": [{"text": "bb"}, {"text": "aa"}]},
        ),
    ],
    ids=["attributes", "a namespace", "a list of texts", "a list in an element"],
)
def test_elements_become_records(text, first, tmp_path):
    assert next(read_records(write_files(tmp_path, {"t.xml": text}) / "t.xml")) == first


def test_an_element_per_text_is_a_row(tmp_path):
    rows = [f"<row><c>q</c><t>{text}</t><s>{score}</s></row>" for text, score in (("bb", 1), ("aa", 3))]
    source = write_files(tmp_path, {"t.xml": f"<rows>{''.join(rows)}</rows>"}) / "t.xml"
    assert pick(read_tests(make(source, context="c", candidate="t", score="s", min_gap=1)), "high", "low") == [
        ("aa", "bb")
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<d><a>", "is not XML that can be read here"),
        ('<!DOCTYPE d [<!ENTITY e "x">]><d/>', "it defines entities"),
        ("<d><a/></d>", "no element in it is repeated"),
    ],
)
def test_xml_that_cannot_be_read(text, message, tmp_path):
    with pytest.raises(NNDError, match=message):
        list(read_records(write_files(tmp_path, {"t.xml": text}) / "t.xml"))
