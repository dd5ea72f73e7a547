"""``nnd models``: the table is the registry's, and of one config it says what a run would say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoConfig
from typer.testing import CliRunner

from nnd_tasks.cli import app
from nnd_tasks.cli.model_types import describe_model
from nnd_tasks.errors import NNDError
from nnd_tasks.models.architectures import DECODERS, REFUSED, SEQ2SEQ
from tests.models.decoder_configs import TINY


def test_the_table_has_a_row_for_each_type_in_markdown() -> None:
    done = CliRunner().invoke(app, ["models"])
    assert done.exit_code == 0
    rows = re.findall(r"^\| (\w+) \| (yes|no) \| (.+) \|$", done.output, re.MULTILINE)
    assert {name for name, shared, _ in rows if shared == "yes"} == {*DECODERS, *SEQ2SEQ}
    assert {name: why for name, shared, why in rows if shared == "no"} == REFUSED
    assert [name for name, _, _ in rows] == sorted(name for name, _, _ in rows)
    words = {name: how for name, _, how in rows}
    assert words["gemma2"] == "full attention, windows; logits capped"
    assert words["granite"] == "full attention; logits scaled"
    assert words["mistral"] == "full attention, or windows in all layers"


def write(folder: Path, kind: str, settings: dict[str, Any]) -> str:
    AutoConfig.for_model(kind, **settings).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("llama", ["attention: full attention"]),
        ("starcoder2 switch", ["attention: windows of 8"]),
        ("qwen3_moe switch", ["attention: full attention", "experts: 4"]),
        ("gemma3_text capped", ["attention: full attention, windows of 8", "logits: capped at 2"]),
        ("granite", ["logits: multiplied with 0.3333"]),
        ("llama4", ["attention: full attention, chunks of 8"]),
    ],
)
def test_a_config_says_what_its_model_shares(name: str, lines: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["models", write(tmp_path, name.split()[0], TINY[name][0])])
    assert done.exit_code == 0
    assert f"- type: {name.split()[0]}\n- shared: yes" in done.output
    assert all(f"- {line}" in done.output for line in lines)


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        ("mamba", {}, "no, its recurrent layers"),
        ("xlnet", {}, "no, the architecture xlnet is not known"),
        ("marian", {}, "no, the architecture marian is not known"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, "type dynamic"),
    ],
)
def test_a_config_says_why_its_model_does_not(kind: str, settings: dict[str, Any], reason: str, tmp_path: Path) -> None:
    assert reason in describe_model(write(tmp_path, kind, settings))


def test_a_type_that_is_no_model_of_the_hub_has_its_row() -> None:
    assert "\n| llama | yes |" in describe_model("llama")
    with pytest.raises(NNDError, match="no config of a model"):
        describe_model("lama")


@pytest.mark.parametrize("name", ["/no/such/folder", "./gone", "a/b/c", "config.json"])
def test_a_path_that_is_not_there_is_no_name_on_the_hub(name: str) -> None:
    with pytest.raises(NNDError, match=f"^{name}: there is no such folder or file"):
        describe_model(name)


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"model_type": "nonsense"}'])
def test_no_config_is_one_line(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(NNDError, match="no config of a model that transformers knows") as caught:
        describe_model(str(tmp_path))
    assert "\n" not in str(caught.value)
