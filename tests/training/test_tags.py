"""What tags, names and revisions say of models."""

import json
import re

import pytest

from nnd_tasks.errors import NNDError
from nnd_tasks.training.model_tags import guess_family, guess_step, guess_training, known_number, read_tags
from tests.results.runs import make_run
from tests.sets.tables import read_arguments

ARGUMENTS = read_arguments(__file__)


def run_of(name, revision=None, short=""):
    info = {"name": name, "arguments": {"revision": revision} if revision else {}}
    return make_run(short or name, [True], ["a"], model_info=info)


@pytest.mark.parametrize(
    ("name", "family"),
    ARGUMENTS["the_family_is_the_name_without_its_size"],
)
def test_the_family_is_the_name_without_its_size(name, family):
    assert guess_family(run_of(name)) == family


@pytest.mark.parametrize(
    ("name", "revision", "step", "training"),
    ARGUMENTS["the_step_is_in_the_name_or_the_revision"],
)
def test_the_step_is_in_the_name_or_the_revision(name, revision, step, training):
    run = run_of(name, revision=revision)
    assert guess_step(run) == step
    assert guess_training(run) == training


def test_the_longest_name_that_fits_is_meant_by_whole_parts_of_the_path(tmp_path):
    path = tmp_path / "tags.csv"
    path.write_text("model,family,tokens\na/m-1,A,7e6\n\nm-2, B ,5\nc/m-2,C,1\n")
    tags = read_tags(path)
    first, second = run_of("/disk/a/m-1", short="m-1"), run_of("/disk/b/m-2")
    assert (tags.text(first, "family"), tags.text(second, "family")) == ("A", "B")
    assert (known_number(first, "tokens", tags), known_number(second, "tokens", tags)) == (7e6, 5)
    assert [tags.text(run_of(name), "family") for name in ("/disk/c/m-2", "m-2", "/disk/xm-2")] == ["C", "B", None]


@pytest.mark.parametrize(
    ("content", "message"),
    [("name,x\na,1\n", "each row must name a model"), ("model,x\na,1\na ,2\n", "a is there twice")],
)
def test_wrong_tags_are_named(content, message, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(NNDError, match=f"^{re.escape(str(path))}: .*{message}"):
        read_tags(path)


def test_a_tag_beyond_every_number_is_none(tmp_path):
    path = tmp_path / "tags.json"
    path.write_text(json.dumps([{"model": "m1", "x": 10**400}]))
    with pytest.raises(NNDError, match=r"tags\.json: x of m1 is '1000+', which is not a number"):
        known_number(run_of("m1"), "x", read_tags(path))
