"""A small OpenAI-compatible server of text completions around a transformers model, for tests.

It answers ``POST /v1/completions`` with what lm-eval's ``local-completions`` needs to score a given text: the prompt is
echoed with the log-probability of each of its tokens, taken from the model's own logits in float32. Nothing is batched,
padded or cached, so that a client's numbers can be compared with the model's.

    with CompletionsServer.load(folder) as server:
        nnd_tasks.evaluate(tasks, "local-completions", {"model": ..., "base_url": server.url, "tokenizer": folder})
        server.answered  # the prompts, as token ids, in the order of the answers
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

PATH = "/v1/completions"


class BadRequest(Exception):
    """A request that no server could answer; becomes status 400 with an error message, as at OpenAI."""


class CompletionsServer:
    """Serve one model on a free port of this machine, as a context manager.

    Args:
        model: a causal language model of transformers, in evaluation mode.
        tokenizer: its tokenizer.
        add_special_tokens: whether prompts that come as text get the tokenizer's special tokens (BOS), as vLLM does
            unless told otherwise. Prompts that come as token ids are taken as they are.
        echoes: whether the server heeds ``echo``. One that does not, as llama.cpp's, answers with the generated token alone.
        stop_after: hold every request that comes after so many prompts, until `release`: to a client the server hangs.
            None never holds any.

    Attributes:
        answered: the prompts that were answered, as token ids, in the order of the answers. A prompt is noted just
            before its answer is sent, so that a client that has the answer finds it here.
        sizes: the number of prompts of each well-formed request, held ones included, in the order of arrival.
        texts: how many prompts came as text, not as token ids.
        heard: path and headers of each request.
        most_at_once: the largest number of requests that were in progress at the same time.
        holding: set when the first request is held; a test waits for it to know that the client waits.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        add_special_tokens: bool = False,
        echoes: bool = True,
        stop_after: int | None = None,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.add_special_tokens, self.echoes, self.stop_after = add_special_tokens, echoes, stop_after
        self.answered: list[list[int]] = []
        self.sizes: list[int] = []
        self.texts = 0
        self.heard: list[tuple[str, dict[str, str]]] = []
        self.most_at_once = 0
        self.holding = threading.Event()
        self._released = threading.Event()
        self._closing = False
        self._at_once = self._admitted = 0
        self._state = threading.Lock()  # guards the counts; never held while the model runs
        self._model_lock = threading.Lock()
        self._pieces: dict[int, str] = {}
        self._http = _HTTPServer(("127.0.0.1", 0), _Handler)
        self._http.owner = self
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @classmethod
    def load(cls, folder: str | Path, **kwargs: Any) -> CompletionsServer:
        """Return a server of the model and tokenizer in ``folder``, in float32; ``kwargs`` as for the class."""
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        return cls(model, AutoTokenizer.from_pretrained(folder), **kwargs)

    @property
    def url(self) -> str:
        """What to give a client as ``base_url``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}{PATH}"

    @property
    def requests(self) -> int:
        """How many well-formed requests came in, held ones included."""
        return len(self.sizes)

    def __enter__(self) -> CompletionsServer:
        """Start to serve."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop; requests that are held get status 503."""
        self._closing = True
        self._released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def release(self) -> None:
        """Answer the requests that are held, and all that follow."""
        self._released.set()

    # ------------------------------------------------------------ one request

    def respond(self, request: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body of the answer to one request."""
        try:
            prompts, texts = self._read_prompts(request.get("prompt"))
            if request.get("max_tokens", 1) != 1 or request.get("n", 1) != 1 or request.get("stream"):
                raise BadRequest("this server generates one token: max_tokens=1, n=1, no stream")
            top = request.get("logprobs")
            if top is not None and (type(top) is not int or top < 0):
                raise BadRequest(f"logprobs: expected a number of alternatives, found {top!r}")
            window = self.model.config.max_position_embeddings
            for prompt in prompts:
                if not 0 < len(prompt) < window:
                    raise BadRequest(f"a prompt of {len(prompt)} tokens; the window of {window} holds it and one more")
        except BadRequest as error:
            return 400, {"error": {"message": str(error), "type": "invalid_request_error"}}
        with self._state:
            self.sizes.append(len(prompts))
            self.texts += texts
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            hold = self.stop_after is not None and self._admitted >= self.stop_after
            self._admitted += len(prompts)
        try:
            if hold:
                self.holding.set()
                self._released.wait()
            if self._closing:
                return 503, {"error": {"message": "the server is shutting down", "type": "server_error"}}
            echo = self.echoes and bool(request.get("echo"))
            choices = [self._choice(i, prompt, echo=echo, top=top) for i, prompt in enumerate(prompts)]
        finally:
            with self._state:
                self._at_once -= 1
        with self._state:
            self.answered.extend(prompts)
        total = sum(len(prompt) for prompt in prompts)
        usage = {"prompt_tokens": total, "completion_tokens": len(prompts), "total_tokens": total + len(prompts)}
        body = {"object": "text_completion", "model": request.get("model"), "choices": choices, "usage": usage}
        return 200, body

    def _read_prompts(self, prompt: Any) -> tuple[list[list[int]], int]:
        """Return the prompts as token ids, and how many of them came as text."""
        if isinstance(prompt, str) or (isinstance(prompt, list) and prompt and type(prompt[0]) is int):
            prompt = [prompt]  # one prompt, which OpenAI's API takes without a list around it
        if not isinstance(prompt, list) or not prompt:
            raise BadRequest("prompt: expected a text, token ids, or a list of either")
        if all(isinstance(one, str) for one in prompt):
            encode = self.tokenizer.encode
            return [encode(one, add_special_tokens=self.add_special_tokens) for one in prompt], len(prompt)
        size = self.model.config.vocab_size
        for one in prompt:
            if not isinstance(one, list) or not all(type(token) is int and 0 <= token < size for token in one):
                raise BadRequest("prompt: expected token ids of this model's vocabulary")
        return prompt, 0

    @torch.inference_mode()
    def _choice(self, index: int, prompt: list[int], *, echo: bool, top: int | None) -> dict[str, Any]:
        """Return the answer to one prompt: itself, with ``echo``, and the one token that greedy decoding adds."""
        with self._model_lock:
            logits = self.model(torch.tensor([prompt])).logits[0].float()
        logprobs = torch.log_softmax(logits, dim=-1)  # row i is about token i + 1
        ids = [*prompt, int(logprobs[-1].argmax())]
        first = 0 if echo else len(prompt)
        pieces = [self._piece(token) for token in ids[first:]]
        choice = {"index": index, "text": "".join(pieces), "finish_reason": "length", "logprobs": None}
        if top is None:
            return choice
        own = logprobs[range(len(prompt)), ids[1:]].tolist()
        best = logprobs.topk(max(top, 1), dim=-1)
        alternatives: list[dict[str, float] | None] = []
        rows = zip(best.indices.tolist(), best.values.tolist(), ids[1:], own, strict=True)
        for tokens, values, token, value in rows:
            # The token itself is always told, after those that are likelier.
            likeliest = list(zip(tokens, values, strict=True))[:top]
            alternatives.append({self._piece(t): v for t, v in [*likeliest, (token, value)]})
        choice["logprobs"] = {
            "tokens": pieces,
            "token_logprobs": [None, *own][first:],  # nothing comes before the first token, which has none
            "top_logprobs": [None, *alternatives][first:],
            "text_offset": [*accumulate(map(len, pieces[:-1]), initial=0)],
        }
        return choice

    def _piece(self, token: int) -> str:
        """Return the text of one token; a part of a character is the replacement character."""
        if token not in self._pieces:
            self._pieces[token] = self.tokenizer.decode([token], clean_up_tokenization_spaces=False)
        return self._pieces[token]


class _HTTPServer(ThreadingHTTPServer):
    """One thread per connection; knows the `CompletionsServer` that it works for."""

    daemon_threads = True
    owner: CompletionsServer


class _Handler(BaseHTTPRequestHandler):
    """Translate between HTTP and `CompletionsServer.respond`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two writes; Nagle's algorithm would wait between them

    def do_POST(self) -> None:
        """Answer a request for completions; any other address is not found."""
        server = cast("_HTTPServer", self.server)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server.owner.heard.append((self.path, dict(self.headers)))
        if self.path.partition("?")[0] != PATH:
            self._send(404, {"error": {"message": f"only {PATH} is served", "type": "not_found"}})
            return
        try:
            request = json.loads(body)
        except ValueError:
            request = {}
        self._send(*server.owner.respond(request if isinstance(request, dict) else {}))

    def do_GET(self) -> None:
        """Answer that there is nothing: lm-eval asks for ``/tokenizer_info``, which few servers have."""
        self._send(404, {"error": {"message": "not found", "type": "not_found"}})

    def _send(self, status: int, answer: Mapping[str, Any]) -> None:
        """Send ``answer``, if the client is still there."""
        data = json.dumps(answer).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""
