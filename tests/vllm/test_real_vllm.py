"""vLLM itself: outcomes of hf, the sums of lm-eval's `VLLM` with contexts read once, and vLLM's own server.

``nox -s vllm`` runs this file, in a virtual environment of its own: vLLM wants torch and transformers of its own versions.
"""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.real_servers import serving

pytestmark = pytest.mark.skipif(
    find_spec("vllm") is None or not os.environ.get("NND_TEST_VLLM"),
    reason="nox -s vllm runs it, with vLLM installed",
)

PROMPTS = 20
#: Small on a CPU: GiB of the cache of keys and values; ignored on GPUs.
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
ENGINE = {"dtype": "float32", "max_model_len": 1024, "gpu_memory_utilization": 0.1}


@pytest.fixture(scope="module", autouse=True)
def _environment():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def model(models):
    return models / "tiny-lm-m"


@pytest.fixture(scope="module")
def quiz_home(real_sets):
    return Path(real_sets("quiz_design")).parents[1]


def nnd_run(home, out, model, arguments, *more):
    """Run ``nnd run`` on some prompts of Quiz Design; return its results, samples and log."""
    words = ["run", "--model", model, "--model_args", ",".join(f"{k}={v}" for k, v in arguments.items())]
    words += ["--tasks", "nnd_quiz_design", "--limit", str(PROMPTS), "--output_path", str(out), "--log_samples", *more]
    environment = {**os.environ, "NND_HOME": str(home), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "nnd_tasks.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    [results] = out.rglob("results_*.json")
    [samples] = out.rglob("samples_*.jsonl")
    lines = [json.loads(line) for line in samples.read_text("utf-8").splitlines()]
    return json.loads(results.read_text("utf-8")), lines, done.stdout + done.stderr


def assert_outcomes(some, others, allowed=1e-5):
    """Check that outcomes and token counts are equal, and sums within ``allowed`` per token; return the largest difference."""
    worst = 0.0
    assert len(some) == len(others) == PROMPTS
    for one, other in zip(some, others, strict=True):
        assert one["tests"] == other["tests"]
        for a, b in zip(one["candidates"], other["candidates"], strict=True):
            assert (a["tokens"], a["bytes"]) == (b["tokens"], b["bytes"])
            assert a["sum"] == pytest.approx(b["sum"], abs=allowed * a["tokens"])
            worst = max(worst, abs(a["sum"] - b["sum"]))
    return worst


TOKENS = ("--metadata", '{"tokens": true}')


@pytest.fixture(scope="module")
def hf_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hf")


@pytest.fixture(scope="module")
def of_hf(quiz_home, model, hf_folder):
    """Return the samples of hf; its token scores are in `hf_folder`."""
    settings = {"pretrained": model, "dtype": "float32", "max_length": 1024}
    return nnd_run(quiz_home, hf_folder, "hf", settings, "--device", "cpu", *TOKENS)[1]


@pytest.mark.parametrize("sharing", [True, False])
def test_the_command_gives_the_outcomes_of_hf(sharing, quiz_home, model, of_hf, tmp_path):
    more = [] if sharing else ["--no-shared-prefix"]
    results, samples, log = nnd_run(
        quiz_home, tmp_path, "vllm", {"pretrained": model, **ENGINE}, "--batch_size", "auto", *more
    )
    print(f"largest difference of a sum: {assert_outcomes(samples, of_hf):.1e}")
    assert results["config"]["model"] == ("vllm-shared-prefix" if sharing else "vllm")
    assert ("contexts are read once" in log) == sharing
    assert "vllm" in results["configs"]["nnd_quiz_design"]["metadata"]["nnd"]["signature"]["environment"]


@pytest.mark.parametrize("sharing", [True, False])
def test_token_scores_are_those_of_hf(sharing, quiz_home, model, of_hf, hf_folder, tmp_path):
    more = [] if sharing else ["--no-shared-prefix"]
    _, samples, _ = nnd_run(quiz_home, tmp_path, "vllm", {"pretrained": model, **ENGINE}, *TOKENS, *more)
    assert_outcomes(samples, of_hf)
    rows, expected = (
        {(row["cluster_id"], row["candidate"]): row for row in pq.read_table(path).to_pylist()}
        for folder in (tmp_path, hf_folder)
        for path in folder.rglob("tokens_*.parquet")
    )
    assert rows.keys() == expected.keys()
    for name, row in rows.items():
        for column in ("text", "token_ids", "starts", "ends"):
            assert row[column] == expected[name][column]
        assert row["logprobs"] == pytest.approx(expected[name]["logprobs"], abs=1e-4)


# ---------------------------------------------------------------- one engine


@pytest.fixture(scope="module")
def engine(model):
    from shared_prefix.vllm_shared_prefix import VLLMSharedPrefixLM

    return VLLMSharedPrefixLM(str(model), batch_size="auto", block_size=32, **ENGINE)


def both(engine, requests):
    """Return the answers with contexts read once, and those of lm-eval's `VLLM`, from one engine."""
    from lm_eval.models.vllm_causallms import VLLM

    assert engine.why_not() is None
    ours = engine._loglikelihood_tokens(requests, disable_tqdm=True)
    return ours, VLLM._loglikelihood_tokens(engine, requests, disable_tqdm=True)


def assert_equal(requests, ours, plain):
    for (_, _, continuation), one, other in zip(requests, ours, plain, strict=True):
        assert one[0] == pytest.approx(other[0], abs=1e-5 * len(continuation))
        assert one[1] == other[1]


def test_requests_of_all_shapes_have_lm_evals_sums(engine):
    text = engine.tok_encode("It was late, and nobody knew the song that the man on the stage had begun to sing. " * 60)
    pairs = [(text[:n], text[at : at + m]) for n in (1, 31, 32, 33, 64, 100) for at in (0, 200) for m in (1, 2, 40)]
    pairs += [
        (text[:100], [*text[100:132], other]) for other in (5, 6, 7)
    ]  # beyond the context, and apart at a block's end
    pairs += [(text[:64], [other]) for other in range(10, 150)]  # more first tokens than one prompt may ask for
    pairs += [(text[:n], text[n : n + 9]) for n in (1010, 1014, 1015, 1016, 1023, 1100)]  # cut from the left
    requests = [(None, context, continuation) for context, continuation in pairs]
    assert_equal(requests, *both(engine, requests))
    assert engine.sent.again == 0
    assert engine.sent.cached > 0


def test_a_hit_beyond_the_context_is_not_believed(engine, monkeypatch):
    """Somebody else has read a candidate already; vLLM gives garbage for it, and says how much."""
    from shared_prefix.prefix_cache import Ask

    context, candidate = list(range(100, 150)), list(range(300, 400))
    requests = [(None, context, candidate), (None, context, candidate[:70])]
    assert engine.why_not() is None
    monkeypatch.setattr(engine.model, "reset_prefix_cache", lambda: True)
    whole = tuple(context + candidate)
    engine._send([Ask(whole)])
    [stale] = engine._send([Ask(whole, rows=True)])
    assert stale.cached == 128
    [fresh] = engine._send([Ask(whole, rows=True, fresh=True)])
    known = [position for position in range(51, 129) if stale.row(position) == fresh.row(position)]
    assert len(known) < 78  # rows that would have been summed are not log-probabilities
    assert_equal(requests, *both(engine, requests))
    assert engine.sent.again == 1


def test_quiz_design_has_lm_evals_sums(engine, quiz_home, monkeypatch):
    from benchmarks import workloads

    monkeypatch.setenv("NND_HOME", str(quiz_home))
    requests = [(None, *engine._encode_pair(*request)) for request in workloads.quiz_design(40).distinct]
    assert_equal(requests, *both(engine, requests))
    assert engine.sent.again == 0
    assert engine.sent.tokens < sum(len(context) + len(continuation) for _, context, continuation in requests) / 3


# ---------------------------------------------------------------- the server


def served(model, log, *options):
    """Start vLLM's server; see `serving`."""
    command = [Path(sys.executable).with_name("vllm"), "serve", model, "--dtype", "float32", "--max-model-len", "1024"]
    return serving([*command, "--gpu-memory-utilization", "0.1", *options], "/health", log)


@pytest.mark.skipif(find_spec("tenacity") is None, reason="needs lm-eval[api]")
@pytest.mark.parametrize("caching", ["--enable-prefix-caching", "--no-enable-prefix-caching"])
def test_the_server_gives_the_outcomes_of_hf(caching, quiz_home, model, of_hf, tmp_path):
    assert shutil.which(str(Path(sys.executable).with_name("vllm")))
    with served(model, tmp_path / "log.txt", caching) as url:
        arguments = {
            "model": model,
            "base_url": f"{url}/v1/completions",
            "tokenizer": model,
            "tokenizer_backend": "huggingface",
            "max_length": 1024,
        }
        for turn in ("first", "again"):  # the second finds everything in the server's cache
            samples = nnd_run(quiz_home, tmp_path / turn, "local-completions", arguments, "--batch_size", "8")[1]
            print(f"{caching}, {turn}: largest difference of a sum: {assert_outcomes(samples, of_hf):.1e}")
