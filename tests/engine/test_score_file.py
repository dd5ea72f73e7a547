"""``nnd_file``: requests out, scores in; sums of plain transformers are those of ``--model hf``."""

import json
import runpy

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nnd_tasks
from shared_prefix.model_error import ModelError
from shared_prefix.score_file import ScoreFile, most_tokens, request_id
from tests.conftest import REPO
from tests.run.test_backends import assert_same, samples_of
from tests.task.tasks import read_task

TASKS = ["nnd_demo", "stock"]
#: A task of lm-eval's own kind, over documents of ours.
STOCK = """
task: stock
dataset_path: json
dataset_kwargs: {data_files: {test: FILE}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: 0
metric_list: [{metric: acc}, {metric: acc_norm}]
"""


@pytest.fixture(scope="module")
def files(llama, demo_home, tmp_path_factory):
    """Return a folder with the task ``stock``, the requests of both tasks and their scores; and the model."""
    folder = tmp_path_factory.mktemp("score_file")
    documents = [
        {"question": "The sky is", "choices": ["blue", "a fish"]},
        {"question": "Two and two", "choices": ["4", "5"]},
    ]
    (folder / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in documents), encoding="utf-8")
    (folder / "stock.yaml").write_text(STOCK.replace("FILE", str(folder / "docs.jsonl")), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NND_HOME", str(demo_home))
        with pytest.raises(SystemExit) as end:
            evaluate(folder, "nnd_file", requests=folder / "requests.parquet", tokenizer=llama)
        assert end.value.code == 0
    score = runpy.run_path(str(REPO / "examples" / "score_file.py"))["main"]
    score(str(llama), str(folder / "requests.parquet"), str(folder / "scores.parquet"))
    return folder, llama


def evaluate(folder, model, metadata=None, **arguments):
    arguments = {key: str(value) for key, value in arguments.items()}
    return nnd_tasks.evaluate(TASKS, model, arguments, metadata=metadata, include_path=folder, limit=6)


def test_scores_of_a_file_are_those_of_hf(files, home):
    folder, model = files
    expected = evaluate(folder, "hf", {"tokens": True}, pretrained=model, dtype="float32")
    for tokenizer, metadata in (({}, None), ({"tokenizer": model}, {"tokens": True})):
        results = evaluate(folder, "nnd_file", metadata, scores=folder / "scores.parquet", **tokenizer)
        for task in TASKS:
            for name, value in expected["results"][task].items():
                # Sums may differ by rounding; outcomes do not, and measures by as little.
                rounding = 1e-6 if name.startswith(("bits", "margin")) else 0.0
                assert results["results"][task][name] == pytest.approx(value, abs=rounding), name
        for ours, theirs in zip(results["samples"]["stock"], expected["samples"]["stock"], strict=True):
            for answer, sums in zip(ours["filtered_resps"], theirs["filtered_resps"], strict=True):
                assert answer[0] == pytest.approx(sums[0], abs=1e-4)
        assert_same(samples_of(results), samples_of(expected))
        signature = read_task(results).facts["signature"]
        assert signature["model"]["name"] == str(model)
        assert signature["model"]["engine"].startswith("transformers ")
        assert signature["protocol"] == read_task(expected).facts["signature"]["protocol"]
    ours, theirs = (table["tokens"]["nnd_demo"]["logprobs"].to_pylist() for table in (results, expected))
    for first, second in zip(ours, theirs, strict=True):
        assert first == pytest.approx(second, abs=1e-4)


def test_requests_are_each_text_once_with_its_tokens(files):
    requests = pd.read_parquet(files[0] / "requests.parquet")
    assert requests["id"].is_unique
    assert not requests.duplicated(["context", "continuation"]).any()
    assert [request_id(row.context, row.continuation) for row in requests.itertuples()] == list(requests["id"])
    scores = pd.read_parquet(files[0] / "scores.parquet").set_index("id")
    assert list(scores["tokens"].reindex(requests["id"])) == list(requests["tokens"])
    assert " blue" in set(requests["continuation"])
    assert not list(files[0].glob(".*"))


def change(column, value, row=0):
    def changed(table):
        return table.assign(**{column: [value if i == row else old for i, old in enumerate(table[column])]})

    return changed


MISTAKES = [
    (lambda table: table.iloc[3:], r"3 of \d+ requests are missing; .* first: \w{32}, \w{32}, \w{32}$"),
    (lambda table: pd.concat([table, table.iloc[:2]]), r"2 ids that stand several times; first: \w{32}, \w{32}$"),
    (lambda table: pd.concat([table, table.iloc[:1].assign(id="x")]), r"1 of \d+ rows are of no request; .* first: x$"),
    (change("sum", float("nan")), r"1 sums that are no number; first: \w{32}$"),
    (change("sum", 0.5), r"1 sums above 0"),
    (lambda table: table.assign(sum=-9999.0, tokens=1), r"\d+ sums below -1000 for each token"),
    (change("tokens", 1.5), r"1 counts of tokens that are no whole number above 0"),
    (change("tokens", 10_000), r"1 counts of tokens above the number of bytes of the text"),
    (lambda table: table.drop(columns="sum"), r"has no column sum; it has id, tokens, greedy"),
    (lambda table: table.assign(sum=table["sum"].astype(str)), r"column sum holds \w+, not numbers"),
    (lambda table: table.assign(greedy="no"), r"column greedy holds \w+, not true and false"),
]


@pytest.mark.parametrize(("mistake", "words"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_file_that_cannot_be_right_is_one_line(mistake, words, files, tmp_path):
    scores = mistake(pd.read_parquet(files[0] / "scores.parquet").drop(columns="token_logprobs"))
    pq.write_table(pa.Table.from_pandas(scores), tmp_path / "s.parquet")
    requests = pd.read_parquet(files[0] / "requests.parquet")
    texts = {row.id: (row.context, row.continuation) for row in requests.itertuples()}
    with pytest.raises(ModelError, match=words):
        ScoreFile(scores=str(tmp_path / "s.parquet")).scores.check_requests(texts)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (None, "1 rows without token_logprobs"),
        ([-1.0], "1 lists of token_logprobs of another length than tokens"),
        ("shifted", "1 lists of token_logprobs that do not add up to sum"),
        ("above 0", r"1 lists of token_logprobs with one above 0 or below -1000"),
        ("stand-in", r"1 lists of token_logprobs with one above 0 or below -1000"),
    ],
)
def test_lists_of_token_logprobs_are_checked(values, words, files, tmp_path):
    scores = pd.read_parquet(files[0] / "scores.parquet")
    longest = int(scores["tokens"].idxmax())
    if values == "shifted":
        values = [value - 0.5 for value in scores["token_logprobs"][longest]]
    elif isinstance(values, str):
        first = 0.5 if values == "above 0" else -9999.0
        values = [first, *scores["token_logprobs"][longest][1:]]
        scores = change("sum", sum(values), longest)(scores)
    change("token_logprobs", values, longest)(scores).to_parquet(tmp_path / "s.parquet")
    with pytest.raises(ModelError, match=words):
        ScoreFile(scores=str(tmp_path / "s.parquet"))


def test_counts_of_another_tokenizer_are_refused(files, home, tmp_path):
    folder, model = files
    scores = pd.read_parquet(folder / "scores.parquet").drop(columns="token_logprobs")
    change("tokens", int(scores["tokens"][2]) + 1, 2)(scores).to_parquet(tmp_path / "s.parquet")
    evaluate(folder, "nnd_file", scores=tmp_path / "s.parquet")  # without its tokenizer, nobody can tell
    with pytest.raises(
        nnd_tasks.NNDError, match=r"1 counts of tokens are not those of the tokenizer .*llama; first: \w"
    ):
        evaluate(folder, "nnd_file", scores=tmp_path / "s.parquet", tokenizer=model)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "nnd_file takes requests=FILE.parquet, to write the requests, or scores=FILE.parquet"),
        ("requests=a.parquet,scores=SCORES", "nnd_file takes requests=FILE.parquet"),
        ("scores=none.parquet", "scores=none.parquet: cannot be read (No such file"),
        ("scores=SCORES,dtype=float32", "nnd_file has no argument dtype"),
        ("scores=TEXT", "cannot be read as parquet"),
        ("scores=SCORES --apply_chat_template", "--apply_chat_template needs the tokenizer of the engine"),
        ("""scores=SCORES --metadata {"append_eos":true}""", "append_eos needs the tokenizer of the engine"),
        ("requests=/proc/none/r.parquet", "requests=/proc/none/r.parquet: cannot be written"),
    ],
)
def test_mistakes_on_the_command_line(arguments, words, files, home, nnd, tmp_path):
    (tmp_path / "text.parquet").write_text("no table", encoding="utf-8")
    for name, path in (("SCORES", files[0] / "scores.parquet"), ("TEXT", tmp_path / "text.parquet")):
        arguments = arguments.replace(name, str(path))
    model_args, *options = arguments.split(" ")
    given = ["--model_args", model_args] if model_args else []
    outcome = nnd("run", "--model", "nnd_file", *given, *options, "--tasks", "nnd_demo", "--limit", "2")
    assert outcome.status == 1
    assert words in outcome.err.splitlines()[-1]


@given(text=st.text(min_size=1))
def test_no_tokenizer_of_bytes_or_letters_gives_more_tokens(text):
    assert len(text.encode("utf-8", "surrogatepass")) + 1 <= most_tokens(text)
    assert request_id("a", text) != request_id("", f"a{text}")
