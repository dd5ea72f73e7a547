"""Licences of what the extras install: nobody gets a copyleft package."""

import re
from importlib.metadata import PackageNotFoundError, metadata

from tests.test_packaging import PROJECT


def test_no_extra_asks_for_a_package_under_the_gpl():
    extras = {
        name: found for name, found in PROJECT["optional-dependencies"].items() if name not in ("test", "dev", "docs")
    }
    found = set()
    for extra, requirements in {"": PROJECT["dependencies"], **extras}.items():
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
