"""A stand-in for vLLM in tests that run without it: a prefix cache as vLLM's, over a small model of transformers.

Only what lm-eval's `VLLM` and ours use. Rows of cached tokens hold what other requests left there: numbers that look like
log-probabilities, of the right tokens.
"""

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
import torch

GARBAGE = -0.125


@dataclass
class SamplingParams:
    temperature: float = 1.0
    max_tokens: int | None = 16
    detokenize: bool = True
    prompt_logprobs: int | None = None
    flat_logprobs: bool = False
    logprob_token_ids: list[int] | None = None
    skip_reading_prefix_cache: bool | None = None


SamplingParams.__struct_fields__ = tuple(SamplingParams.__annotations__)  # as msgspec has them


@dataclass
class Logprob:
    logprob: float


class RequestOutput:
    def __init__(self, prompt_logprobs, outputs, num_cached_tokens=None):
        self.prompt_logprobs, self.outputs, self.num_cached_tokens = prompt_logprobs, outputs, num_cached_tokens


class LLM:
    """An engine.

    Attributes:
        made: all engines, in the order in which they were made.
        settings: what it was made with.
        calls: (tokens, parameters, cached tokens) of every prompt.
        short: leave the rows of cached tokens out, as vLLM's newer runner does.
        lies: say that nothing came from the cache.
        skew: how far log-probabilities are off where something came from the cache.
    """

    made = []  # noqa: RUF012
    short = lies = False
    skew = 0.0

    def __init__(self, **settings):
        from transformers import AutoModelForCausalLM

        self.settings = settings
        self.model = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=torch.float32).eval()
        self.calls = []
        self._cache = set()
        self._logits = {}
        self.block = int(settings.get("block_size", 16))
        cache = SimpleNamespace(
            block_size=self.block,
            num_gpu_blocks=4096,
            enable_prefix_caching=settings.get("enable_prefix_caching", True),
        )
        window = settings.get("max_model_len") or self.model.config.max_position_embeddings
        config = SimpleNamespace(
            max_model_len=window,
            dtype=settings.get("dtype"),
            logprobs_mode=settings.get("logprobs_mode", "raw_logprobs"),
        )
        self.llm_engine = SimpleNamespace(model_config=config, vllm_config=SimpleNamespace(cache_config=cache))
        LLM.made.append(self)

    def reset_prefix_cache(self):
        self._cache.clear()
        return True

    def generate(self, prompts, sampling_params, use_tqdm=True, lora_request=None):
        return [self._one(tuple(p["prompt_token_ids"]), s) for p, s in zip(prompts, sampling_params, strict=True)]

    @torch.inference_mode()
    def _one(self, tokens, params):
        assert len(tokens) < self.llm_engine.model_config.max_model_len
        skip = params.skip_reading_prefix_cache
        skip = params.prompt_logprobs is not None if skip is None else skip
        cached = 0
        while not skip and cached + self.block < len(tokens) and tokens[: cached + self.block] in self._cache:
            cached += self.block
        self._cache |= {tokens[:end] for end in range(self.block, len(tokens) + 1, self.block)}
        self.calls.append((tokens, params, cached))
        if tokens not in self._logits:
            self._logits[tokens] = self.model(torch.tensor([tokens])).logits[0].log_softmax(-1)
        logprobs = self._logits[tokens] - (self.skew if cached else 0.0)
        rows = None
        if params.prompt_logprobs is not None:
            rows = [None, *(self._row(logprobs[at - 1], tokens[at], at <= cached) for at in range(1, len(tokens)))]
            rows = rows[:1] + rows[1 + cached :] if self.short else rows
        after = None
        if params.logprob_token_ids is not None:
            ids = [int(logprobs[-1].argmax()), *params.logprob_token_ids]
            after = [{i: Logprob(float(logprobs[-1][i])) for i in ids}]
        return RequestOutput(rows, [SimpleNamespace(logprobs=after)], 0 if self.lies else cached)

    def _row(self, logprobs, token, cached):
        if cached:
            return {token: Logprob(GARBAGE)}
        return {i: Logprob(float(logprobs[i])) for i in (token, int(logprobs.argmax()))}


def _tokenizer(name, **settings):
    from transformers import AutoTokenizer

    taken = ("revision", "trust_remote_code", "add_bos_token")
    return AutoTokenizer.from_pretrained(name, **{key: settings[key] for key in taken if settings.get(key) is not None})


@contextmanager
def installed(folder, *, release="0.32.0", **changes):
    """Within this context, ``import vllm`` finds the stand-in, and lm-eval and we load their models for it anew.

    Args:
        folder: an empty folder, for what says that the package is installed.
        release: its version.
        changes: names of the package that have another value.
    """
    from lm_eval.api.registry import model_registry

    about = folder / f"vllm-{release}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}\n", encoding="utf-8")
    engine = type("LLM", (LLM,), {"made": []})
    contents = {
        "vllm": {
            "LLM": engine,
            "SamplingParams": SamplingParams,
            "RequestOutput": RequestOutput,
            "TokensPrompt": dict,
            **changes,
        },
        "vllm.lora": {},
        "vllm.lora.request": {"LoRARequest": lambda *words: words},
        "vllm.renderers": {},
        "vllm.renderers.hf": {"resolve_chat_template": lambda tokenizer, **_: tokenizer.chat_template},
        "vllm.tokenizers": {"get_tokenizer": _tokenizer},
        "vllm.platforms": {"current_platform": SimpleNamespace(is_cpu=lambda: True)},
    }
    LLM.made = engine.made
    loaded = ("lm_eval.models.vllm_causallms", "shared_prefix.vllm_shared_prefix")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        for name in loaded:
            patch.delitem(sys.modules, name, raising=False)
        for name, values in contents.items():
            module = ModuleType(name)
            module.__dict__.update(values, __spec__=ModuleSpec(name, None), __path__=[])
            patch.setitem(sys.modules, name, module)
        patch.setattr(model_registry, "_objs", {k: v for k, v in model_registry._objs.items() if "vllm" not in k})
        model_registry.register("vllm", target=f"{loaded[0]}:VLLM")
        try:
            yield engine
        finally:
            for name in loaded:
                sys.modules.pop(name, None)
                parent, _, last = name.rpartition(".")
                vars(sys.modules[parent]).pop(last, None)
