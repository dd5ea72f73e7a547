"""The authors' published runs: experiments against the published numbers, runs of stand-ins against the authors' own rule."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml
from click.testing import Result
from tokenizers import processors
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedTokenizerFast,
    ProphetNetConfig,
    ProphetNetForConditionalGeneration,
    ProphetNetTokenizer,
)
from typer.testing import CliRunner

from nnd_tasks.analysis import reproduce as module
from nnd_tasks.analysis.experiments import Experiment, PublishedRun, find_weights, load_experiments
from nnd_tasks.analysis.reproduce import list_experiments, measure, reproduce
from nnd_tasks.analysis.results import read_results
from nnd_tasks.cli import app
from nnd_tasks.datasets import load, read_table
from nnd_tasks.errors import NNDError
from nnd_tasks.sets.tasks import shipped_task
from nnd_tasks.show.report import file_stem
from tests import random_models
from tests.conftest import DATA

PUBLISHED = DATA.parent / "docs" / "published_results.json"
EXPERIMENTS = load_experiments()
EVERY = [(experiment, published) for experiment in EXPERIMENTS.values() for published in experiment.models]
#: Of the release's notebook: pairs per most common error, OtherE included.
FRANK = {"EntE": 314, "CorefE": 154, "GramE": 133, "RelE": 74, "CircE": 67, "OutE": 45, "LinkE": 37, "OtherE": 24}


# ---------------------------------------------------------------- experiments


def published_runs(found: dict[str, Any]) -> dict[str, dict[str, tuple[str | None, dict[str, float]]]]:
    """Return experiment -> our name of the model -> its model, and label -> rate, from the printed figures."""
    runs: dict[str, dict[str, tuple[str | None, dict[str, float]]]] = {}
    for name in ("quiz_design", "challenge300", "summeval", "frank", "news_gpt3"):
        for row in found[name]:
            labels = {key: value for key, value in row.items() if key not in ("name", "model", "set", "pass_rate")}
            suffix = f"_{row['set'].removeprefix('news_gpt3_')}" if "set" in row else ""
            run = row["model"], {"all": row["pass_rate"], **labels}
            runs.setdefault(name.removesuffix("_gpt3"), {})[row["name"] + suffix] = run
    for row in found["mqm_ende"]:  # printed by category, then by severity
        rates = runs.setdefault("mqm", {}).setdefault(row["name"], (None, {}))[1]
        assert round(row["accuracy"] / 100, 6) == row["A_No-error"]
        rates |= {key.removeprefix("A_"): value for key, value in row.items() if key.startswith("A_")}
        rates["all"] = rates.pop("No-error")
    return runs


@pytest.mark.skipif(not PUBLISHED.is_file(), reason=f"no published figures at {PUBLISHED}")
def test_experiments_have_the_published_numbers() -> None:
    published = published_runs(json.loads(PUBLISHED.read_text(encoding="utf-8")))
    assert published.keys() == EXPERIMENTS.keys()
    del published["mqm"]["FSMT WMT19 En-De"]  # lm-eval cannot run it
    for name, runs in published.items():
        ours = {published.name: published for published in EXPERIMENTS[name].models}
        assert list(ours) == list(runs)
        for model, (hub, rates) in runs.items():
            if name == "frank":  # our set leaves out the tests of one label
                passed = round(rates["all"] * sum(FRANK.values())) - round(rates.pop("OtherE") * FRANK["OtherE"])
                rates["all"] = pytest.approx(passed / 824)
            assert dict(ours[model].rates) == rates
            if hub is not None:
                assert ours[model].model == hub.split()[0]
                assert ours[model].released is ("fine-tuned by the authors" not in hub)


def test_there_are_as_many_as_were_published() -> None:
    sizes = {name: len(experiment.models) for name, experiment in EXPERIMENTS.items()}
    assert sizes == {"quiz_design": 10, "challenge300": 9, "summeval": 3, "frank": 3, "news": 5, "mqm": 1}
    assert sum(not published.released for _, published in EVERY) == 5
    for experiment in EXPERIMENTS.values():
        assert len({file_stem(published.name) for published in experiment.models}) == len(experiment.models)


def yaml_setting(task: str, key: str) -> str:
    """Return a setting of a task YAML or of the set's base that it includes."""
    path = shipped_task(task)
    assert path is not None, f"there is no task {task}"
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    while key not in found:
        path = path.parent / found["include"]
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return str(found[key])


@pytest.mark.parametrize(("experiment", "published"), EVERY, ids=lambda one: one.name.replace(" ", "_"))
def test_the_task_exists_and_reads_the_set_of_the_experiment(experiment: Experiment, published: PublishedRun) -> None:
    assert yaml_setting(published.task, "dataset_path") == f"nnd/{experiment.set}"
    assert yaml_setting(published.task, "dataset_name") == published.config
    assert published.task.endswith(("_authors", "_gpt2", "_macaw", "_mixqg", "_prophetnet"))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_labels_and_numbers_of_tests_are_those_of_the_real_set(name: str, real_home: Path) -> None:
    experiment = EXPERIMENTS[name]
    for published in experiment.models:
        rows = read_table(real_home / "nnd" / experiment.set, published.config)
        found = Counter(label for column in experiment.columns for label in rows.column(column).to_pylist())
        if name == "frank":  # the rates are shares of the release's pairs, and today's file gives some another label
            assert found.keys() <= FRANK.keys()
            found = Counter(FRANK)
        else:
            assert rows.num_rows == published.tests
        assert set(published.rates) - {"all"} <= set(found)
        for label, rate in published.rates.items():  # six digits of a share of that many tests
            tests = published.tests if label == "all" else found[label]
            assert round(rate * tests) / tests == pytest.approx(rate, abs=5e-7), label


# ---------------------------------------------------------------- rates


def table_of(*prompts: list[tuple[str, str, bool | None]]) -> pd.DataFrame:
    """Return the tests of a run: subcategory, severity and outcome of the tests of each prompt."""
    rows = [(str(i), *test) for i, tests in enumerate(prompts) for test in tests]
    table = pd.DataFrame(rows, columns=["cluster_id", "subcategory", "severity", "passed"])
    return table.astype({"passed": "boolean"})


def test_rates_are_pooled_over_tests_and_their_errors_over_prompts() -> None:
    kind = "Fluency/Grammar"
    published = PublishedRun("x", "x", "x", "x", 5, {"all": 0.5, kind: 0.25, "Minor": 0.75, "Major": 0.1})
    tests = table_of(
        [(kind, "Minor", True), (kind, "Major", False), ("Other", "Minor", None)],
        [(kind, "Minor", True), ("Other", "Minor", True)],
    )
    found = measure(tests, EXPERIMENTS["mqm"], published).set_index("label")
    assert found["measured"].to_dict() == pytest.approx({"all": 0.75, kind: 2 / 3, "Minor": 1.0, "Major": 0.0})
    assert found["tests"].to_dict() == {"all": 4, kind: 3, "Minor": 3, "Major": 1}
    assert found["clusters"].to_dict() == {"all": 2, kind: 2, "Minor": 2, "Major": 1}
    # residuals 1 - .75 * 2 and 2 - .75 * 2; sqrt(2 / 1 * .5) / 4
    assert found["stderr"]["all"] == pytest.approx(0.25)
    assert math.isnan(found["stderr"]["Major"])
    assert found["published"].to_dict() == published.rates


# ---------------------------------------------------------------- the authors' rule, recomputed


def fast_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    inner = random_models._byte_level(["<s>", "<pad>", "</s>", "<unk>"])
    inner.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


SMALL = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 2048, "dropout": 0.0}


def bart(folder: Path, texts: Iterable[str]) -> Path:
    tokenizer = fast_tokenizer(folder)
    torch.manual_seed(4)
    model = BartForConditionalGeneration(BartConfig(vocab_size=len(tokenizer), **SMALL, **HEADS))
    return random_models._save(model, tokenizer, folder, 3.0)


def prophetnet(folder: Path, texts: Iterable[str]) -> Path:
    """ProphetNet: its tokenizer names no EOS token; texts are words of a vocabulary file."""
    folder.mkdir(parents=True)
    words = sorted({word for text in texts for word in text.lower().split() if word.isalpha()})
    letters = [mark + letter for letter in "abcdefghijklmnopqrstuvwxyz0123456789" for mark in ("", "##")]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[X_SEP]"]
    vocabulary = [*special, *letters, *".,;:!?'\"()-", *(word for word in words if len(word) > 1)]
    file = folder / "prophetnet.tokenizer"
    file.write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    tokenizer = ProphetNetTokenizer(str(file))
    torch.manual_seed(6)
    config = ProphetNetConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_encoder_layers=1,
        num_decoder_layers=1,
        num_encoder_attention_heads=2,
        num_decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=1024,
        decoder_start_token_id=3,
        bos_token_id=3,
        eos_token_id=3,
        dropout=0.0,
    )
    return random_models._save(ProphetNetForConditionalGeneration(config), tokenizer, folder, 3.0)


def t5(folder: Path, texts: Iterable[str]) -> Path:
    return random_models.t5(folder)


def authors_rates(
    folder: Path,
    rows: list[dict[str, Any]],
    source: Callable[[dict[str, Any]], str],
    prefix: str,
    ends: tuple[int, int],
) -> dict[str, float]:
    """Return pass rates as `run_nnd` and `GeneratorHF` of the release compute them, one candidate at a time."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder)
    start, end = ends

    @cache
    def likelihood(document: str, text: str) -> float:
        candidate = tokenizer.encode(prefix + text, add_special_tokens=False)
        encoder, decoder = torch.tensor([tokenizer.encode(document)]), torch.tensor([[start, *candidate]])
        with torch.no_grad():
            logits = model(input_ids=encoder, decoder_input_ids=decoder, use_cache=False).logits[0].double()
        target = [*candidate, end]
        return float(torch.log_softmax(logits, -1)[range(len(target)), target].mean())

    outcomes: dict[str, list[bool]] = {}
    for row in rows:
        high, low = likelihood(source(row), row["high"]), likelihood(source(row), row["low"])
        # The release takes the second candidate unless the first is likelier.
        passed = high > low if row["high_first"] else not low > high
        for label in {"all", row["category"], row.get("subcategory"), row.get("severity")} - {None, ""}:
            outcomes.setdefault(label, []).append(passed)
    return {label: sum(found) / len(found) for label, found in outcomes.items()}


@pytest.mark.parametrize(
    ("build", "name", "model", "source", "prefix", "ends"),
    [
        (bart, "quiz_design", "bartl_sup", lambda r: f"{r['answer']} \n {r['context']}", "", (0, 2)),
        (prophetnet, "quiz_design", "prophetnet", lambda r: f"{r['answer']} [SEP] {r['context']}", "", (3, 3)),
        (t5, "quiz_design", "mixqg", lambda r: f"{r['answer']} \\n {r['context']}", "", (0, 1)),
        (t5, "mqm", "T5 Large", lambda r: r["context"], "translate English to German:", (0, 1)),
        (bart, "news", "BART-L_bbc", lambda r: r["context"], "", (0, 2)),
    ],
    ids=["bart", "prophetnet", "t5-mixqg", "t5-prefix", "bart-bbc"],
)
def test_a_stand_in_gets_the_rates_of_the_authors_own_rule(
    build: Callable[[Path, Iterable[str]], Path],
    name: str,
    model: str,
    source: Callable[[dict[str, Any]], str],
    prefix: str,
    ends: tuple[int, int],
    real_home: Path,
    tmp_path: Path,
) -> None:
    contexts = 2 if name == "mqm" else 4  # of MQM, contexts have a hundred tests
    published = next(one for one in EXPERIMENTS[name].models if one.name == model)
    rows = load(EXPERIMENTS[name].set, published.config).to_list()
    first = list(dict.fromkeys(row["cluster_id"] for row in rows))[:contexts]
    rows = [row for row in rows if row["cluster_id"] in first]
    texts = [row[key] for row in rows for key in ("context", "high", "low")]
    folder = build(tmp_path / "model", texts)
    report = reproduce(name, [f"{model}={folder}"], out=tmp_path, limit=contexts)
    assert not report.facts["failed"]
    [result] = read_results(tmp_path / name)
    assert (len(result.documents), len(result.tests), result.truncated) == (contexts, len(rows), 0)
    expected = authors_rates(folder, rows, source, prefix, ends)
    assert 0 < expected["all"] < 1  # a degenerate model would agree with anything
    measured = report.tables[0].data.set_index("label")["measured"].dropna()
    assert measured.to_dict() == pytest.approx({label: expected[label] for label in measured.index})
    if model == "bartl_sup":  # the start token of the model's own config gives other rates
        assert authors_rates(folder, rows, source, prefix, (2, 2)) != expected


# ---------------------------------------------------------------- whole runs


def nnd(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture
def quiz_home(real_sets: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which two sets are built."""
    home = tmp_path / "two"
    for name in ("quiz_design", "frank"):
        shutil.copytree(real_sets(name), home / "nnd" / name)
    monkeypatch.setenv("NND_HOME", str(home))
    return home


def test_without_arguments_it_lists_everything() -> None:
    rows = list_experiments().tables[0].data
    assert [*zip(rows["experiment"], rows["name"], rows["task"], strict=True)] == [
        (experiment.name, published.name, published.task) for experiment, published in EVERY
    ]
    assert "have not been run on the authors' weights" in nnd().stdout


def test_stand_ins_end_to_end(tiny_models: dict[str, Path], quiz_home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    weights = (f"--weights=dgpt2_sup={tiny_models['gpt2']}", f"--weights=mixqg={tiny_models['t5']}")
    done = nnd("quiz_design", *weights, "--limit", 3, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("# Quiz Design, question generation"), "what lm-eval prints goes elsewhere"
    assert "have not been run on the authors' weights" in done.stdout
    assert "--limit 3: the published rates are over all prompts" in done.stdout
    parts = [".md", ".json", ".tex", ".html", "_rates.csv"]
    assert {path.name for path in out.iterdir()} == {"quiz_design", *(f"quiz_design{part}" for part in parts)}
    rows = json.loads((out / "quiz_design.json").read_text(encoding="utf-8"))["tables"]["rates"]
    assert {row["model"] for row in rows} == {"dgpt2_sup", "mixqg"}
    for row in rows:
        line = f"| {row['model']} | {row['label']} | {row['published']:.4f} | {row['measured']:.4f} | "
        assert line + f"{row['measured'] - row['published']:+.4f} | {row['stderr']:.4f} | " in done.stdout
    for run in read_results(out / "quiz_design"):
        assert run.protocol["eos"] is True
        assert run.protocol["ties"] == "authors"
        assert len(run.documents) == 3


def test_frank_by_its_fine_categories(tiny_models: dict[str, Path], quiz_home: Path, tmp_path: Path) -> None:
    report = reproduce("frank", [f"BRIO={tiny_models['t5']}"], limit=3, out=tmp_path)
    [run] = read_results(tmp_path)
    rows = report.tables[0].data.set_index("label")
    assert rows["tests"]["all"] == rows["tests"].drop("all").sum() == (run.tests["subcategory"] != "OtherE").sum()
    assert rows["clusters"]["all"] == 3
    assert rows["few"].all()


def test_an_interrupted_run_goes_on_with_the_rest(
    tiny_models: dict[str, Path], quiz_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    real = module.read_results

    def stopped(folder: Path) -> Any:
        ran.append(folder.name.rpartition("-")[0])
        if ran == ["mixqg", "mixqg-3b"]:
            for path in folder.rglob("*.json*"):
                path.unlink()
            raise KeyboardInterrupt
        return real(folder)

    monkeypatch.setattr(module, "read_results", stopped)
    weights = [f"{name}={tiny_models['gpt2']}" for name in ("mixqg", "mixqg-3b")]
    with pytest.raises(KeyboardInterrupt):
        reproduce("quiz_design", weights, limit=2, out=tmp_path)
    [first] = (tmp_path / "quiz_design").rglob("samples_*")
    kept = first.stat().st_mtime_ns
    reproduce("quiz_design", weights, limit=2, out=tmp_path)
    assert first.stat().st_mtime_ns == kept
    assert len([*(tmp_path / "quiz_design").rglob("samples_*")]) == 2
    # Made otherwise, results are neither mixed nor lost.
    reproduce("quiz_design", weights[:1], limit=1, out=tmp_path)
    reproduce("quiz_design", [f"mixqg={tiny_models['t5']}"], limit=2, out=tmp_path)
    assert len([*(tmp_path / "quiz_design").rglob("samples_*")]) == 4
    assert first.stat().st_mtime_ns == kept
    first.write_text("{")
    with pytest.raises(NNDError, match=first.name):
        reproduce("quiz_design", weights[:1], limit=2, out=tmp_path)


def test_one_broken_model_does_not_stop_the_others(
    tiny_models: dict[str, Path], quiz_home: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    weights = (f"--weights=dgpt2_sup={broken}", f"--weights=mixqg={tiny_models['t5']}")
    done = nnd("quiz_design", *weights, "--limit", 2, "--out", tmp_path)
    assert "| mixqg | all |" in done.stdout
    assert isinstance(done.exception, NNDError)
    assert "dgpt2_sup: failed (" in str(done.exception)


def test_released_weights_come_from_the_hub() -> None:
    ours = {published.name: published for published in EXPERIMENTS["quiz_design"].models}
    assert find_weights(ours["mixqg"]) == "Salesforce/mixqg-large"
    with pytest.raises(NNDError, match="gpt2b_sup: never released"):  # the base is not what the authors fine-tuned
        find_weights(ours["gpt2b_sup"])


# ---------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["quiz_desing"], "there is no experiment 'quiz_desing'; did you mean 'quiz_design'?"),
        (["zzz"], "there is no experiment 'zzz'; known: quiz_design, challenge300"),
        (["quiz_design", "--weights", "mixq"], "there is no model of quiz_design 'mixq'; did you mean 'mixqg'?"),
        (["quiz_design", "--weights", "MixQG=x"], "did you mean 'mixqg'?"),
        (["quiz_design", "--weights", "mixqg=nowhere"], "nowhere: no model is there for mixqg (it has no config.json)"),
        (["quiz_design", "--weights", "dgpt2_sup"], "dgpt2_sup: never released by the authors"),
        (["challenge300"], "set 'challenge300' is not built here; run: nnd build challenge300"),
    ],
)
def test_a_wrong_input_is_named(arguments: list[str], message: str, quiz_home: Path) -> None:
    error = nnd(*arguments).exception
    assert isinstance(error, NNDError)
    assert message in str(error)


def test_a_place_that_cannot_be_written_shows_before_a_model_runs(
    tiny_models: dict[str, Path], quiz_home: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    error = nnd("quiz_design", "--weights", f"mixqg={tiny_models['t5']}", "--out", tmp_path / "file" / "x").exception
    assert isinstance(error, NNDError)
    assert "cannot be written" in str(error)
