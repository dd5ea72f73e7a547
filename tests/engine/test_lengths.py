"""Tokenizers that end every text with a token of their own, and each text tokenized once in a run."""

import shutil
from collections import Counter

import pytest
from tokenizers import processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from engine_tests.comparing import instances
from nnd_tasks.errors import NNDError
from nnd_tasks.task.request import split_before_candidate
from shared_prefix.hf_shared_prefix import SharedPrefixLM
from shared_prefix.lengths import TokenCounter
from shared_prefix.model_error import ModelError
from tests.random_models import CHAT_TEMPLATE, evaluate
from tests.task.tasks import run_stock, run_task

#: What lm-eval's split by length would make of it is not the candidate.
REFUSED = "the tokenizer .* puts '</s>' after every text"


def with_template(template, model, folder, **settings):
    """Copy the tiny Llama with a tokenizer that puts special tokens as ``template`` says."""
    shutil.copytree(model, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    for name, value in settings.items():
        setattr(tokenizer, name, value)
    tokenizer.save_pretrained(folder)
    return folder


def sums(folder, **options):
    samples = run_task(folder, limit=4, **options).samples
    return [record["sum"] for sample in samples for record in sample["candidates"]]


@pytest.mark.parametrize("template", ["$A </s>", "<s> $A </s>"])
def test_a_tokenizer_that_appends_a_token_is_refused_on_every_way_to_a_causal_model(template, llama, home, tmp_path):
    folder = with_template(template, llama, tmp_path / "model")
    for sharing in (True, False):
        with pytest.raises(NNDError, match=f"{REFUSED}.*add_bos_token=False"):
            evaluate(folder, ["nnd_demo"], limit=2, shared_prefix=sharing)
    arguments = {"pretrained": str(folder), "dtype": "float32"}
    with pytest.raises(ModelError, match=REFUSED):
        run_stock(arguments, limit=2)
    # A task of lm-eval's own asks no counter.
    model = SharedPrefixLM(**arguments, device="cpu")
    with pytest.raises(ModelError, match=REFUSED):
        model.loglikelihood(instances([("The cat", " sat")]), disable_tqdm=True)


def test_add_bos_token_false_scores_the_candidates_as_without_the_token(llama, home, tmp_path):
    """The way out that the error names, against a tokenizer that puts no token anywhere."""
    folders = [with_template(template, llama, tmp_path / template) for template in ("$A </s>", "$A")]
    expected = pytest.approx(sums(folders[1]), rel=1e-5)
    for sharing in (True, False):
        assert sums(folders[0], shared_prefix=sharing, model_args={"add_bos_token": False}) == expected


def test_prompts_that_begin_with_bos_get_no_token_and_are_scored(llama, home, tmp_path):
    """lm-eval lets the tokenizer add nothing to a text that begins with BOS, as chat templates write it."""
    template = "{{ bos_token }}" + CHAT_TEMPLATE
    folders = [
        with_template(single, llama, tmp_path / single, chat_template=template) for single in ("<s> $A </s>", "<s> $A")
    ]
    found, expected = (sums(folder, apply_chat_template=True) for folder in folders)
    assert found == expected


@pytest.mark.parametrize(
    ("context", "text", "scored"),
    [
        ("<|assistant|>\n", "The cat.", "The cat."),
        ("<|assistant|>", "The cat.", "The cat."),
        ("Answer:", " The cat.", " The cat."),
        ("Answer: ", "The cat.", " The cat."),  # a space is part of the first token
        ("Answer:\n ", "The cat.", " The cat."),
    ],
)
def test_after_a_chat_template_only_tokens_with_characters_of_the_text_are_scored(context, text, scored, llama):
    counter = TokenCounter({"pretrained": str(llama)})
    pair = split_before_candidate(context, text, counter)
    assert "".join(pair) == context + text
    tokens = counter.split(*pair)[1]
    assert tokens == counter.tok_encode(scored, add_special_tokens=False)
    assert counter.lengths(*pair)[1] == len(tokens)
    assert counter.find_flaws(*pair) == []


# ---------------------------------------------------------------- each text is tokenized once


@pytest.fixture
def asked(monkeypatch):
    """Return how often each string was tokenized, with and without special tokens, and under None the number of calls."""
    counts = Counter()
    encode = PreTrainedTokenizerFast._encode_plus

    def counting(self, text, *args, **kwargs):
        counts[None] += 1
        counts.update((each, kwargs.get("add_special_tokens")) for each in ([text] if isinstance(text, str) else text))
        return encode(self, text, *args, **kwargs)

    monkeypatch.setattr(PreTrainedTokenizerFast, "_encode_plus", counting)
    return counts


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_a_run_tokenizes_each_distinct_string_once(name, tiny_models, home, asked):
    """Two tasks over one set, which ask for the same texts: a call or two for each prompt of the first one."""
    evaluate(tiny_models[name], ["nnd_demo", "nnd_demo_clean"], limit=20)
    assert asked.pop(None) < 50
    assert len(asked) > 100
    assert {*asked.values()} == {1}
