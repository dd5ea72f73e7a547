"""Licences of what the extras install: nobody gets a copyleft package."""

import re
from importlib.metadata import PackageNotFoundError, metadata

import pytest

from tests.conftest import REPO

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")


def test_no_extra_asks_for_a_package_under_the_gpl():
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {
        name: found for name, found in project["optional-dependencies"].items() if name not in ("test", "dev", "docs")
    }
    found = set()
    for extra, requirements in {"": project["dependencies"], **extras}.items():
        for requirement in requirements:
            package = re.split(r"[^\w.-]", requirement)[0]
            try:
                about = metadata(package)
            except PackageNotFoundError:
                continue
            said = [*(about.get_all("Classifier") or []), about.get("License-Expression") or ""]
            if any(re.search(r"GNU (Affero )?General Public|\bA?GPL", text) for text in said):
                found.add((extra, package))
    assert not found
