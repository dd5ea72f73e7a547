"""Secrets: known by their names, at any depth, and by their values; URLs without user, password and query."""

import json
import logging
import time

import pytest

from nnd_tasks.redact import bare_urls, hidden_in_logs, hide, is_secret, keep_secret, without_secrets

SECRET = """userToken clientKey token auth_token hf_token use_auth_token access_token api_token hub_token api_key openai_api_key
    OPENAI_API_KEY apiKey X-API-Key authorization Proxy-Authorization accessToken password client_secret header headers
    default_headers credentials cookie key auth pw"""
PLAIN = """bosToken KeyError hotkey tokenizer tokenizer_backend add_bos_token eos_token pad_token max_tokens max_new_tokens
    think_end_token prefix_token_id custom_prefix_token_id skip_special_tokens pretrained revision num_key_value_heads author
    monkey keyboard base_url max_num_batched_tokens softmax_dtype trust_remote_code use_fast_tokenizer passes pass_rate
    tokenized_requests categories key_value_cache"""


def test_names_tell_secrets():
    assert [name for name in SECRET.split() if not is_secret(name)] == []
    assert [name for name in PLAIN.split() if is_secret(name)] == []


GIVEN = {
    "pretrained": "gpt2",
    "add_bos_token": True,
    "hub_token": "hush-0",
    "base_url": "http://ann:hush-1@h:8000/v1/completions?api_key=hush-2#hush-3",
    "header": {"Authorization": "Bearer hush-4", "X-Other": "hush-5"},
    "model_kwargs": {"more": [{"openai_api_key": "hush-6"}, "see https://hush-7@h/x"], "size": 3},
    "args": "api_key=hush-8,size=3",
}


def test_secrets_go_at_any_depth_and_the_rest_stays():
    assert without_secrets(GIVEN, None) == {
        "pretrained": "gpt2",
        "add_bos_token": True,
        "base_url": "http://h:8000/v1/completions",
        "model_kwargs": {"more": [{}, "see https://h/x"], "size": 3},
        "args": "api_key=***,size=3",
    }
    assert without_secrets(GIVEN)["header"] == "***"
    assert without_secrets(GIVEN)["model_kwargs"]["more"][0] == {"openai_api_key": "***"}
    assert GIVEN["hub_token"] == "hush-0", "the model gets it"


@pytest.mark.parametrize(
    "text",
    [
        repr(GIVEN),
        json.dumps(GIVEN),
        json.dumps(json.dumps(GIVEN)),
        ",".join(f"{key}={value}" for key, value in GIVEN.items()),
        "token: 'hush'",
        "Max retries exceeded with url: /v1/completions?size=3&api_key=hush (caused by x)",
        "Authorization: Bearer hush",
    ],
)
def test_secrets_go_from_running_text(text):
    assert "hush" in text
    assert "hush" not in hide(text)


@pytest.mark.parametrize(
    "text",
    [
        "{'pretrained': 'gpt2', 'add_bos_token': True, 'max_length': 20}",
        "pretrained=gpt2,dtype=float32,base_url=http://h:8000/v1/completions,tokenizer=me@home",
        "unexpected token: x",
        "the key of this set is: context",
        "expected token 'end of print statement', got 'x'",
        "KeyError: 'a'",
        "--model_args {a: no JSON; or write KEY=VALUE,... without braces",
        "2026-01-01 12:00:00 [run:12] 40% done (3/4)",
    ],
)
def test_other_text_stays_as_it_is(text):
    assert hide(text) == text


def test_log_lines_and_their_tracebacks_show_none(caplog):
    logger = logging.getLogger("lm_eval.test")
    with caplog.at_level(logging.INFO), hidden_in_logs():
        logger.info("arguments: %s and %s", {"token": "hush"}, {"a": {"api_key": "hush"}})
        logger.info("100% done, token=hush")
        try:
            raise ValueError("http://a:hush@h refused api_key=hush")
        except ValueError:
            logger.exception("failed")
    assert "100% done, token=***" in caplog.text
    assert "http://h refused api_key=***" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ('model=m,header={"a": "hush", "b": "hush"},x=1', "model=m,header=***,x=1"),
        ("x=1,base_url=http://a:hush@h/v1?key=hush,size=3,token=hush", "x=1,base_url=http://h/v1,size=3,token=***"),
        ("header={broken,hush", "header=***"),
    ],
)
def test_arguments_in_text_keep_all_but_secrets(given, kept):
    assert hide(given) == kept


def test_values_of_secrets_go_wherever_they_appear(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "qwerty/12345")
    monkeypatch.setenv("MY_TOKEN", "off")
    keep_secret({"model": "never-hidden", "header": {"Authorization": "Bearer zxcvbnm-678"}, "size": 3})
    said = "no qwerty/12345, zxcvbnm-678 or hf_abcdefghijklmnopqr here; the token never-hidden is off"
    assert hide(said) == "no ***, *** or *** here; the token never-hidden is off"
    assert bare_urls("http://h/qwerty%2F12345/v1?a=1") == "http://h/***/v1"
    assert without_secrets({"base_url": "http://h/qwerty/12345/v1"}) == {"base_url": "http://h/***/v1"}


@pytest.mark.parametrize("piece", ["a", "a-", "a.", "x://", "x://a@", "token=", "token={", "'token': '", " ", "a="])
def test_the_time_grows_as_the_text_does(piece):
    start = time.process_time()
    hide(piece * 60_000)
    assert time.process_time() - start < 30, "about 0.1 s; minutes if it grew as the square"
