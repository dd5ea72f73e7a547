"""What tests of studies share."""

import pytest

from tests.studies.pipeline import TEXTS


@pytest.fixture
def corpus(tmp_path):
    """Return a file of `TEXTS`, one of them twice, and an empty line."""
    path = tmp_path / "mine.txt"
    path.write_text("\n".join([*TEXTS, "", TEXTS[0]]) + "\n", encoding="utf-8")
    return path
