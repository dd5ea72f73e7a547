"""What people write on a card stays when the set is built again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nnd_tasks.card import CARD, COMPOSED, Card, keep_written, read_card

HEADER = {"nnd_set": "a", "license": "TODO(licence)", "configs": [{"config_name": "default"}]}
SECTIONS = {
    "": "# A",
    "Sizes": "| tests |\n|---|\n| 3 |\n| 4 |",
    "Origin": "Licence: TODO(licence).\n\nJudges: TODO(judges)",
}
FIRST = Card(HEADER, SECTIONS)


def rebuilt(folder: Path, composed: Card, edited: str, new: Card, *, stored: bool = True) -> tuple[Card, list[str]]:
    """Return the card after a build that composed ``composed``, an edit and a build that composes ``new``."""
    folder.mkdir(exist_ok=True)
    (folder / COMPOSED).unlink(missing_ok=True)
    if stored:
        (folder / COMPOSED).write_text(composed.text(), encoding="utf-8")
    (folder / CARD).write_text(edited, encoding="utf-8")
    return keep_written(new, folder)


def test_todos_that_people_filled_in_and_text_that_they_added_stay(tmp_path: Path) -> None:
    edited = FIRST.text().replace("TODO(licence)", "mit").replace("| 4 |", "| 4 |\n\nOurs, below the sizes.")
    edited = (
        edited.replace("nnd_set: a", "nnd_set: a\nannotations_creators: [expert-generated]") + "\n## Notes\n\nOurs.\n"
    )
    card, clashing = rebuilt(tmp_path, FIRST, edited, FIRST)
    assert clashing == []
    assert card.header["license"] == "mit"
    assert card.header["annotations_creators"] == ["expert-generated"]
    assert card.sections["Origin"] == "Licence: mit.\n\nJudges: TODO(judges)"
    assert card.sections["Notes"] == "Ours."

    sizes = SECTIONS["Sizes"].replace("| 3 |", "| 30 |")
    origin = SECTIONS["Origin"].replace("TODO(judges)", "Two people.")
    added = {"Sizes": sizes, "Origin": origin, "Clean": "- 2 tests"}
    card, clashing = rebuilt(tmp_path, FIRST, edited, Card({**HEADER, "configs": []}, {**SECTIONS, **added}))
    assert clashing == []
    assert (card.header["license"], card.header["configs"]) == ("mit", [])
    assert card.sections["Sizes"] == f"{sizes}\n\nOurs, below the sizes."
    assert card.sections["Origin"] == "Licence: mit.\n\nJudges: Two people."
    assert (card.sections["Clean"], card.sections["Notes"]) == ("- 2 tests", "Ours.")


def test_lines_that_people_changed_and_a_build_would_change_stay_and_are_named(tmp_path: Path) -> None:
    edited = FIRST.text().replace("Licence: TODO(licence).", "Licence: mit, but ask us.")
    origin = SECTIONS["Origin"].replace("TODO(licence)", "apache-2.0").replace("TODO(judges)", "Two people.")
    card, clashing = rebuilt(
        tmp_path, FIRST, edited, Card({**HEADER, "license": "apache-2.0"}, {**SECTIONS, "Origin": origin})
    )
    assert clashing == ["Origin"]
    assert card.sections["Origin"] == "Licence: mit, but ask us.\n\nJudges: Two people."
    assert card.header["license"] == "apache-2.0", "said in the recipe since"


def test_what_a_build_composes_no_more_goes_and_what_people_took_away_stays_away(tmp_path: Path) -> None:
    before = Card({**HEADER, "size": 1}, {**SECTIONS, "Clean": "none left"})
    edited = Card(before.header, {name: text for name, text in before.sections.items() if name != "Origin"}).text()
    card, _ = rebuilt(tmp_path, before, edited, Card(HEADER, {**SECTIONS, "Origin": "other"}))
    assert card.header == HEADER
    assert list(card.sections) == ["", "Sizes"]


def test_without_the_composed_card_only_what_no_build_composes_is_peoples(tmp_path: Path) -> None:
    edited = FIRST.text().replace("TODO(licence)", "mit").replace("---\n\n#", "dataset_info: []\ntheirs: 1\n---\n\n#")
    card, _ = rebuilt(tmp_path, FIRST, f"{edited}\n## Notes\n\nOurs.\n", FIRST, stored=False)
    assert card.header == {**HEADER, "theirs": 1}, "dataset_info is of the data that was published"
    assert card.sections["Notes"] == "Ours."


LINES = st.lists(st.sampled_from(["one", "two", "", "three", "| 1 |"]), max_size=6).map(
    lambda lines: "\n".join(lines).strip("\n")
)
CARDS = st.dictionaries(st.sampled_from(["", "A", "B", "C"]), LINES, max_size=4).map(
    lambda sections: Card({"nnd_set": "a"}, {"": "# A", **sections})
)


@given(CARDS, CARDS)
def test_two_simple_cases_of_any_cards(tmp_path_factory: pytest.TempPathFactory, one: Card, other: Card) -> None:
    folder = tmp_path_factory.getbasetemp() / "cards"
    card, clashing = rebuilt(folder, one, one.text(), other)
    assert (card.sections, clashing) == (other.sections, []), "nobody wrote on it: it is the new one"
    card, clashing = rebuilt(folder, one, other.text(), one)
    assert (card.sections, clashing) == (read_card(folder).sections, []), "nothing new to say: it stays as it is"
