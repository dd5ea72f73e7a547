"""A small OpenAI-compatible server of text completions around a transformers model, for tests.

It answers ``POST /v1/completions`` with what lm-eval's ``local-completions`` needs to score a given text: the prompt is
echoed with the log-probability of each of its tokens, taken from the model's own logits in float32. Nothing is batched,
padded or cached, so that a client's numbers can be compared with the model's.

    with CompletionsServer.load(folder) as server:
        nnd_tasks.evaluate(tasks, "local-completions", {"model": ..., "base_url": server.url, "tokenizer": folder})
        server.answered  # the prompts, as token ids, in the order of the answers
"""

import threading
from functools import partial
from itertools import accumulate

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.run.local_server import LocalServer

#: Most tokens of a prompt that only tries a server (`check_order`).
PROBE = 13


class CompletionsServer(LocalServer):
    """Serve one model on a free port of this machine, as a context manager.

    Args:
        model: a causal language model of transformers, in evaluation mode.
        tokenizer: its tokenizer.
        spoil: changes what the server answers, for servers that answer badly.
        meet: requests wait until so many of them have been in progress at once.

    Attributes:
        answered: the prompts that were answered, as token ids, in the order of the answers. A prompt is noted just
            before its answer is sent, so that a client that has the answer finds it here.
        sizes: the number of prompts of each request, in the order of arrival.
        texts: how many prompts came as text, not as token ids.
        most_at_once: the largest number of requests that were in progress at the same time.
    """

    path = "/v1/completions"

    def __init__(
        self,
        model,
        tokenizer,
        *,
        spoil=lambda answer: answer,
        meet=1,
    ):
        self.model, self.tokenizer = model, tokenizer
        self.spoil, self.meet = spoil, meet
        self.answered = []
        self.sizes = []
        self.texts = 0
        self.most_at_once = 0
        self._at_once = 0
        self._state = threading.Condition()  # guards the counts; never held while the model runs
        self._model_lock = threading.Lock()
        super().__init__()

    @classmethod
    def load(cls, folder, **kwargs):
        """Return a server of the model and tokenizer in ``folder``, in float32; ``kwargs`` as for the class."""
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        return cls(model, AutoTokenizer.from_pretrained(folder), **kwargs)

    # ------------------------------------------------------------ one request

    def respond(self, request):
        """Answer a request for completions."""
        given = request["prompt"]
        prompts = [given] if isinstance(given, str) or isinstance(given[0], int) else given
        encode = partial(self.tokenizer.encode, add_special_tokens=False)
        tokens = [encode(prompt) if isinstance(prompt, str) else prompt for prompt in prompts]
        with self._state:
            self.sizes.append(len(prompts))
            self.texts += sum(isinstance(prompt, str) for prompt in prompts)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self._state.notify_all()
            if len(tokens[0]) > PROBE:
                self._state.wait_for(lambda: self.most_at_once >= self.meet, timeout=60)
        assert request["echo"]
        choices = [self._choice(i, prompt, request["logprobs"]) for i, prompt in enumerate(tokens)]
        with self._state:
            self._at_once -= 1
            self.answered.extend(tokens)
        return self.spoil({"object": "text_completion", "model": request.get("model"), "choices": choices})

    @torch.inference_mode()
    def _choice(self, index, prompt, top):
        """Return the answer to one prompt: itself, and the one token that greedy decoding adds."""
        with self._model_lock:
            logits = self.model(torch.tensor([prompt])).logits[0].float()
        logprobs = torch.log_softmax(logits, dim=-1)  # row i is about token i + 1
        ids = [*prompt, int(logprobs[-1].argmax())]
        pieces = [self._piece(token) for token in ids]
        own = logprobs[range(len(prompt)), ids[1:]].tolist()
        best = logprobs.topk(top, dim=-1)
        alternatives = []
        for tokens, values, token, value in zip(best.indices.tolist(), best.values.tolist(), ids[1:], own, strict=True):
            # The token itself is always told, after those that are likelier.
            pairs = [*zip(tokens, values, strict=True), (token, value)]
            alternatives.append({self._piece(one): number for one, number in pairs})
        found = {
            "tokens": pieces,
            "token_logprobs": [None, *own],  # nothing comes before the first token, which has none
            "top_logprobs": [None, *alternatives],
            "text_offset": [*accumulate(map(len, pieces[:-1]), initial=0)],
        }
        return {"index": index, "text": "".join(pieces), "finish_reason": "length", "logprobs": found}

    def _piece(self, token):
        """Return the text of one token; a part of a character is the replacement character."""
        return str(self.tokenizer.decode([token], clean_up_tokenization_spaces=False))
