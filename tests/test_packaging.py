"""The wheel, the sdist, and what describes the package: version, citation, addresses."""

import re
import subprocess
import sys
import tarfile
import zipfile

import pytest
import yaml

import nnd_tasks
from tests.conftest import REPO

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has none")
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
CITATION = yaml.safe_load((REPO / "CITATION.cff").read_text("utf-8"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel and the sdist."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=REPO, check=True, timeout=300)
    return folder


def test_the_wheel_has_one_package_with_recipes_and_templates(built):
    [path] = built.glob("*.whl")
    names = zipfile.ZipFile(path).namelist()
    about = f"nnd_tasks-{nnd_tasks.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"nnd_tasks", about}
    assert {"nnd_tasks/task_yamls/quiz_design/_recipe", "nnd_tasks/show/templates/style.css"} <= set(names)
    assert not [name for name in names if name.endswith((".pyc", ".parquet", ".png"))]
    metadata = zipfile.ZipFile(path).read(f"{about}/METADATA").decode()
    assert f"\nProject-URL: Paper, {PROJECT['urls']['Paper']}\n" in metadata


def test_the_sdist_has_what_its_readers_need(built):
    [path] = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = "CHANGELOG.md CITATION.cff CONTRIBUTING.md LICENSE Makefile README.md SECURITY.md docs/figures.yaml"
    assert {*wanted.split(), "engine/tests/engine_tests/families.yaml", "hub_upload/__main__.py"} <= names


def test_one_version_and_one_paper():
    changes = (REPO / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## (\S+)", changes, re.MULTILINE)[1] == CITATION["version"] == nnd_tasks.__version__
    assert CITATION["license"] == PROJECT["license"]
    paper = CITATION["preferred-citation"]
    assert paper["url"] == PROJECT["urls"]["Paper"]
    bibtex = (REPO / "docs" / "paper.md").read_text("utf-8")
    assert paper["title"] in bibtex
    assert CITATION["title"] in bibtex
    assert f"version = {{{nnd_tasks.__version__}}}" in bibtex


def test_the_address_of_the_repository_is_that_of_pyproject_or_missing_everywhere():
    address = PROJECT["urls"].get("Repository")
    site = re.findall(r"^repo_url: (.*)$", (REPO / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert [CITATION.get("repository-code"), *site] == ([None] if address is None else [address, address])


@pytest.mark.parametrize(
    "path", sorted((REPO / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda path: path.stem
)
def test_issue_forms_are_those_of_github(path):
    """A form with another key or without a label is not shown."""
    form = yaml.safe_load(path.read_text("utf-8"))
    assert set(form) == {"name", "description", "labels", "body"}
    for field in form["body"]:
        assert field["type"] in ("checkboxes", "input", "textarea")
        assert set(field) <= {"type", "id", "attributes", "validations"}
        assert field["attributes"]["label"]
    assert len({field["id"] for field in form["body"]}) == len(form["body"])
