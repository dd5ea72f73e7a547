"""Candidates that merge with their prompt, are empty, or follow a BOS token twice: counted in the results, and said once."""

import pytest
from tokenizers import Tokenizer, models, processors
from transformers import PreTrainedTokenizerFast

from nnd_tasks.errors import NNDError
from tests.task.tasks import build_task, run_task, small_set

#: Texts of letters, of which ``ab`` is one token where the two meet.
ROWS = [("xa", "bc", "ok"), ("xa", "cb", "wrong"), ("xa", "", "wrong"), ("xc", "bc", "ok"), ("xc", "c", "wrong")]


@pytest.fixture
def letters(tmp_path):
    """Return the folder of a tokenizer that begins every text with ``<s>``."""
    vocabulary = {token: i for i, token in enumerate(["<s>", "</s>", "x", "a", "b", "c", "ab", "\n"])}
    inner = Tokenizer(models.BPE(vocabulary, [("a", "b")]))
    inner.add_special_tokens(["<s>", "</s>"])
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>")
    tokenizer.save_pretrained(tmp_path / "letters")
    return str(tmp_path / "letters")


def small(folder, prompt, rows=ROWS, delimiter=""):
    return [small_set(folder, rows, doc_to_text=prompt, target_delimiter=delimiter)]


def test_each_is_counted_in_results_and_samples_and_warned_of_once(letters, gpt2, tmp_path, home, caplog):
    # HFLM asks for no BOS where the text begins with its prefix token, which another one here hides.
    arguments = {"tokenizer": letters, "prefix_token_id": 1}
    include = small(tmp_path, "<s>{{context}}")
    run = run_task(gpt2, "small", include_path=include, model_args=arguments)
    assert run.facts["tokenization"] == {"merged": 1, "bos_twice": 4, "empty": 1}
    records = [sample["candidates"] for sample in run.samples]
    flaws = [[record and {*record} - {"sum", "mean", "tokens", "bytes"} for record in each] for each in records]
    assert flaws == [[{"merged", "bos_twice"}, {"bos_twice"}, None], [{"bos_twice"}, {"bos_twice"}]]
    assert records[0][0]["tokens"] == 1, "of the two letters, lm-eval scores the last"
    for words in ("1 candidates begin within", "4 candidates follow a prompt", "1 candidates are empty"):
        assert len([message for message in caplog.messages if f"small: {words}" in message]) == 1


@pytest.mark.parametrize(
    ("prompt", "metadata", "merged", "twice"),
    [
        ("{{context}}", {}, 1, 0),
        ("{{context}}\n", {}, 0, 0),
        ("{{context}}", {"backend": "seq2seq"}, 0, 0),  # the texts are read apart
        ("<s>{{context}}", {}, 1, 0),
        ("<s><s>{{context}}", {}, 1, 4),
        ("<s>{{context}}", {"base_url": "http://localhost:1"}, 1, 0),
        ("<s>{{context}}", {"base_url": "http://localhost:1", "add_bos_token": True}, 1, 4),
    ],
)
def test_what_the_model_will_read_is_counted(prompt, metadata, merged, twice, letters, tmp_path):
    task = build_task("small", {"tokenizer": letters, **metadata}, small(tmp_path, prompt))
    known = task.dump_config()["metadata"]["nnd"]["tokenization"]
    assert known == {"merged": merged, "bos_twice": twice, "empty": 1}


def test_a_candidate_that_merges_wholly_into_the_prompt_is_an_error_that_names_its_test(letters, tmp_path):
    include = small(tmp_path, "{{context}}", [("xa", "b", "ok"), ("xa", "c", "wrong")])
    with pytest.raises(NNDError, match=r"the candidate 'b' of test [0-9a-f]{16} has no token of its own"):
        build_task("small", {"tokenizer": letters}, include)


@pytest.mark.parametrize(("prompt", "delimiter", "warned"), [(" ", " ", 3), (" ", "", 0), ("", " ", 0), ("\n", " ", 0)])
def test_a_space_on_both_sides_of_the_border_is_warned_of(prompt, delimiter, warned, letters, tmp_path, caplog):
    rows = [("xc", "b", "ok"), ("xc", "c", "wrong"), ("xc", "bc", "wrong")]
    build_task("small", {"tokenizer": letters}, small(tmp_path, f"{{{{context}}}}{prompt}", rows, delimiter))
    found = [message for message in caplog.messages if "the model reads two" in message]
    assert [message.split()[1] for message in found] == ([str(warned)] if warned else [])
