"""``llamacpp``: GGUF models by llama.cpp in this process, which reads every distinct token once.

In llama.cpp a token of a batch may belong to several sequences (``llama_batch.seq_id``), and sees the earlier tokens of its
first one. So a pack of `shared_prefix.prefix_tree` is read as it is: a token carries the numbers of all sequences that it is a
part of. With flash attention and pieces of 16, 32 or 48 tokens, each text gets the numbers that it gets alone, to the bit. From
64 on, ggml adds up tiles of cells, whose borders depend on the other texts (``use_tiled`` in ggml-cpu/ops.cpp); what is left over
from tiles of 16 rows, it multiplies by other functions (llama.cpp of llama-cpp-python 0.3.36). Importing this module does not
import llama.cpp.

Known limits: flash attention reads keys and values in 16 bits, also from a cache in float32 (``build_attn_mha`` in
llama-graph.cpp casts them), and adds them up in 16 bits, which moves a token by up to some hundredths of a nat. Bits were
compared on one CPU, with AVX-512 and with AMX, and nothing was tested on a GPU. Files with sliding windows or recurrent layers
are read text by text. ``max_length`` beyond the window of the training is refused.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import re
import struct
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PretrainedConfig

from shared_prefix.encodings import Tokenizing
from shared_prefix.model_error import ModelError, reason_with_type
from shared_prefix.prefix_tree import Ints, Pack, PackLimits, make_packs
from shared_prefix.token_requests import Response, ScoredRequest, TokenRequest, check_requests, collect_responses
from shared_prefix.upstream import LM, register_model

logger = logging.getLogger("lm_eval.shared_prefix")

#: The name of this type of models.
LLAMACPP = "llamacpp"
#: ggml multiplies so many rows together, and those that are left over by other functions, which round otherwise
#: (ggml-cpu/arch/x86/repack.cpp: 16 with AVX-512, 4 elsewhere).
_ROWS = 16
#: Most tokens that are read at once where the numbers are to be those of each text alone: whole tiles, and fewer than 64.
EXACT_PIECE = 48
#: Most sequences of a pack; llama.cpp keeps room for the logits of as many tokens. It takes up to 256.
_SEQUENCES = 64
#: A pack whose texts share little ends at this many tokens, or at the longest text: each token looks at all cells of the pack.
_ROW = 256
#: Largest difference of a log-probability in the check, in nats. What is read together moves quantized files by some hundredths.
_ALLOWED = 0.5
#: Fields of the default parameters, from the beginning to the end of each structure -> their values (llama.cpp of 0.3.36). Other
#: values mean that the library has other structures than its Python package.
_DEFAULTS = {
    "llama_context_default_params": {
        "n_ctx": 512,
        "n_batch": 2048,
        "n_ubatch": 512,
        "n_seq_max": 1,
        "flash_attn_type": -1,
    }
    | {"type_k": 1, "type_v": 1, "embeddings": False, "offload_kqv": True, "swa_full": True, "kv_unified": False},
    "llama_model_default_params": {"main_gpu": 0, "load_mode": -1, "vocab_only": False, "check_tensors": False}
    | {"use_extra_bufts": True},
}


# ---------------------------------------------------------------- the library and the file


@cache
def load_library() -> Any:
    """Import ``llama_cpp``, and let it keep its log to itself.

    Raises:
        ModelError: it is not installed, or its structures are not those of its Python package.
    """
    try:
        import llama_cpp
    except Exception as error:  # a library that was compiled for another machine can raise anything
        raise ModelError(
            f"--model {LLAMACPP} needs llama-cpp-python 0.3.36 or later ({reason_with_type(error)}); it is compiled for this "
            "machine by pip install 'lm-eval-shared-prefix[llamacpp]', which takes a C++ compiler and some 20 minutes"
        ) from error
    for function, expected in _DEFAULTS.items():
        found = getattr(llama_cpp, function)()
        for field, value in expected.items():
            if (actual := getattr(found, field, None)) != value:
                raise ModelError(
                    f"llama-cpp-python {llama_cpp.__version__}: {function}() has {field}={actual}, not {value}: the library has "
                    "other structures than its Python package; install both together, and unset LLAMA_CPP_LIB_PATH"
                )
    faulthandler.enable()  # else a library with instructions that the processor lacks ends the process without a word
    llama_cpp.llama_log_set(_log(llama_cpp), None)
    llama_cpp.llama_backend_init()
    return llama_cpp


#: The last lines that llama.cpp logged as errors.
_errors: list[str] = []


@cache
def _log(library: Any) -> Any:
    """Return the function that keeps what llama.cpp logs as an error; it must not be freed."""

    def keep(level: int, text: bytes, _: Any) -> None:
        if level == 4:  # GGML_LOG_LEVEL_ERROR
            _errors[:] = [*_errors[-1:], text.decode("utf-8", "replace").strip()]

    return library.llama_log_callback(keep)


def _last_error() -> str:
    return _errors[0] if _errors else "it says no more"


def check_file(pretrained: Any) -> Path:
    """Return the path of a GGUF file.

    Raises:
        ModelError: it is none, one of several parts, or one without weights.
    """
    path = Path(str(pretrained)).expanduser()
    if not path.is_file():
        raise ModelError(f"pretrained={pretrained}: there is no such file; --model {LLAMACPP} reads a GGUF file")
    with path.open("rb") as file:
        head = file.read(16)
    if head[:4] != b"GGUF" or len(head) < 16:
        raise ModelError(f"{path}: this is no GGUF file, which --model {LLAMACPP} reads; --model hf reads other models")
    if re.search(r"-\d{5}-of-\d{5}\.gguf$", path.name):
        raise ModelError(
            f"{path}: this is one of several parts; join them: llama-gguf-split --merge FIRST_PART FILE.gguf"
        )
    if not struct.unpack("<Q", head[8:])[0]:
        raise ModelError(f"{path}: this file has a vocabulary and no weights; take the model's own file")
    return path


class GGUFFile:
    """A GGUF file that llama.cpp has opened.

    Args:
        path: of the file.
        vocab_only: read metadata and vocabulary alone, which takes a moment.
        settings: other fields of ``llama_model_params``.

    Attributes:
        model: llama.cpp's pointer to it.
        vocabulary: llama.cpp's pointer to its vocabulary.
        tokens: number of tokens of the vocabulary.

    Raises:
        ModelError: llama.cpp cannot load it.
    """

    def __init__(self, path: Path, *, vocab_only: bool = False, **settings: Any) -> None:
        self.library = library = load_library()
        parameters = library.llama_model_default_params()
        # Weights are laid out anew; a mapped file would stay in memory beside them.
        for name, value in {"load_mode": library.LLAMA_LOAD_MODE_NONE, "vocab_only": vocab_only, **settings}.items():
            setattr(parameters, name, value)
        self.model = library.llama_model_load_from_file(str(path).encode(), parameters)
        if not self.model:
            raise ModelError(f"{path}: llama.cpp cannot load this file ({_last_error()})")
        weakref.finalize(self, library.llama_model_free, self.model)
        self.vocabulary = library.llama_model_get_vocab(self.model)
        self.tokens = int(library.llama_vocab_n_tokens(self.vocabulary))

    def read(self, key: str, default: Any = None) -> str | None:
        """Read a value of the metadata as text; ``{arch}`` in the key is the architecture."""
        if "{arch}" in key:
            key = key.format(arch=self.read("general.architecture"))
        buffer = ctypes.create_string_buffer(256)
        length = self.library.llama_model_meta_val_str(self.model, key.encode(), buffer, len(buffer))
        return default if length < 0 else buffer.value.decode("utf-8", "replace")

    @property
    def description(self) -> str:
        """The architecture, the size and the type of the weights, in llama.cpp's words."""
        buffer = ctypes.create_string_buffer(128)
        self.library.llama_model_desc(self.model, buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    @property
    def window(self) -> int:
        """Most tokens of a text in the training of the model."""
        return int(self.read("{arch}.context_length", 0) or 0)

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Tokenize as llama.cpp does; ``special`` adds the tokens that the file puts around a text."""
        data = text.encode()
        size = len(data) + 8
        tokens = (ctypes.c_int32 * size)()
        count = self.library.llama_tokenize(self.vocabulary, data, len(data), tokens, size, special, True)
        return list(tokens[: max(count, 0)])

    def decode(self, tokens: Sequence[int]) -> bytes:
        """Return the text of tokens, special ones included."""
        parts = []
        for token in tokens:
            buffer = ctypes.create_string_buffer(512)
            length = self.library.llama_token_to_piece(self.vocabulary, token, buffer, len(buffer), 0, True)
            parts.append(buffer.raw[: max(length, 0)])
        return b"".join(parts)


class GGUFTokenizing(Tokenizing):
    """Tokenizes for a GGUF file with a tokenizer of transformers: a named one, else the one that transformers makes of the file.

    Args:
        path: of the file.
        file: the same, opened.
        tokenizer: folder or name of a tokenizer; None takes the file's.
        add_bos_token: see `HFLM`; None does as the tokenizer does.
        prefix_token_id: see `HFLM`.

    Raises:
        ModelError: transformers makes no tokenizer of the file, or does not find the named one.
    """

    def __init__(self, path: Path, file: GGUFFile, tokenizer: Any, add_bos_token: Any, prefix_token_id: Any) -> None:
        config = PretrainedConfig(max_position_embeddings=file.window, vocab_size=file.tokens)
        self._named = tokenizer is not None
        try:
            super().__init__(
                str(path.parent),
                tokenizer,
                config,
                backend="causal",
                add_bos_token=add_bos_token,
                prefix_token_id=prefix_token_id,
                as_client=False,
                gguf_file=path.name,
            )
        except Exception as error:  # transformers raises many kinds
            hint = "" if self._named else "; name the model's own with tokenizer=NAME_OR_FOLDER in --model_args"
            raise ModelError(f"no tokenizer from {tokenizer or path} ({reason_with_type(error)}){hint}") from error

    def compare(self, file: GGUFFile, texts: Iterable[str]) -> None:
        """Compare the tokens of texts with those of llama.cpp, special ones around a text left out.

        Raises:
            ModelError: they are others. Of a named tokenizer they may be, as long as they stand for the same text.
        """
        if self.add_bos_token is None and (ours := self.tok_encode("a")) != (theirs := file.encode("a", special=True)):
            raise ModelError(
                f"the tokenizer {self.tokenizer.name_or_path} makes {ours} of 'a', and llama.cpp {theirs}; "
                "add_bos_token=True or False in --model_args decides, or tokenizer=NAME_OR_FOLDER names the model's own"
            )
        differing = []
        distinct = dict.fromkeys(texts)
        for text in distinct:
            ours = self.tokenizer.encode(text, add_special_tokens=False)
            theirs = file.encode(text, special=False)
            if ours == theirs:
                continue
            differing.append(text)
            same = self._named and max(ours, default=0) < file.tokens and file.decode(ours) == file.decode(theirs)
            if not same:
                raise ModelError(
                    f"the tokenizer {self.tokenizer.name_or_path} gives {len(ours)} tokens for {text!r:.80}, and llama.cpp "
                    f"{len(theirs)} others; name the model's own tokenizer with tokenizer=NAME_OR_FOLDER in --model_args"
                )
        if differing:
            logger.warning(
                "%d of %d texts have other tokens in llama.cpp, such as %.80r; those of the named tokenizer are scored",
                len(differing),
                len(distinct),
                differing[0],
            )


def open_tokenizer(arguments: Mapping[str, Any]) -> GGUFTokenizing:
    """Return how `LlamaCppLM` tokenizes with these arguments, without loading its model.

    Raises:
        ModelError: the file cannot be used, or has no tokenizer.
    """
    path = check_file(arguments.get("pretrained"))
    names = ("tokenizer", "add_bos_token", "prefix_token_id")
    return GGUFTokenizing(path, GGUFFile(path, vocab_only=True), *(arguments.get(name) for name in names))


# ---------------------------------------------------------------- the model


@register_model(LLAMACPP)
class LlamaCppLM(GGUFTokenizing):
    """A GGUF model that llama.cpp reads in this process; it gives log-likelihoods alone.

    Args:
        pretrained: path of the file.
        tokenizer: folder or name of a tokenizer; None takes the file's.
        add_bos_token: see `HFLM`.
        prefix_token_id: see `HFLM`.
        max_length: most tokens of a text; None takes the file's window.
        n_threads: of the processor; None takes as many as torch.
        n_ctx: most tokens that are read together, if the longest text has fewer.
        n_ubatch: most tokens that are read at once. Above 63, sums depend on what is read together, as in llama.cpp.
        n_gpu_layers: number of layers on a GPU; -1 puts all there.
        flash_attn: False keeps keys and values in float32; then sums depend a little on what is read together.
        shared_prefix: False reads each text alone.
        token_scores: whether responses keep the log-probability of every token, see `shared_prefix.token_requests`.

    Raises:
        ModelError: the file or an argument cannot be used.
    """

    def __init__(
        self,
        pretrained: str,
        tokenizer: str | None = None,
        add_bos_token: bool | None = None,
        prefix_token_id: int | None = None,
        max_length: int | None = None,
        n_threads: int | None = None,
        n_ctx: int = 2048,
        n_ubatch: int = EXACT_PIECE,
        n_gpu_layers: int = 0,
        flash_attn: bool = True,
        shared_prefix: bool = True,
        token_scores: bool = False,
        **unknown: Any,
    ) -> None:
        LM.__init__(self)
        for name in ("device", "batch_size", "max_batch_size"):  # lm-eval passes them to every model
            unknown.pop(name, None)
        if unknown:
            raise ModelError(f"{LLAMACPP} has no argument {min(unknown)}")
        path = check_file(pretrained)
        self.file = GGUFFile(path, n_gpu_layers=n_gpu_layers)
        super().__init__(path, self.file, tokenizer, add_bos_token, prefix_token_id)
        self._max_length = max_length
        if self.max_length > self.file.window > 0:
            raise ModelError(f"max_length={max_length}: the window of {path.name} is {self.file.window} tokens")
        if reason := why_refused(self.file):
            raise ModelError(f"{path}: {reason}; --model {LLAMACPP} takes decoder-only models")
        self.batch_size_per_gpu, self._device = 1, torch.device("cpu")
        self.token_scores, self._shared_prefix = token_scores, shared_prefix
        self._cells, self._piece = n_ctx, max(int(n_ubatch), _ROWS)
        self._threads, self._on_gpu = n_threads or torch.get_num_threads(), n_gpu_layers != 0
        self._attention = {"flash_attn_type": 1} if flash_attn else {"flash_attn_type": 0, "type_k": 0, "type_v": 0}

    enable_thinking = None  # read by HFLM

    def get_model_info(self) -> dict[str, Any]:
        """Return what lm-eval writes of the model."""
        size = int(self.file.library.llama_model_n_params(self.file.model))
        return {"model_num_parameters": size, "model_dtype": self.file.description}

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
        """Raise ModelError: this model gives likelihoods."""
        raise ModelError(f"--model {LLAMACPP} writes no text; take a task with likelihoods, or llama.cpp's server")

    # ------------------------------------------------------------ may this file share?

    def why_not(self) -> str | None:
        """Say why each text is read alone; None if common beginnings are read once. The file is checked once."""
        return self._reason

    @cached_property
    def _reason(self) -> str | None:
        reason: str | None = "shared_prefix=False"
        if self._shared_prefix:
            reason = why_alone(self.file) or self._self_check()
        if reason is not None:
            logger.info("%s: each text is read alone: %s", LLAMACPP, reason)
        return reason

    def _self_check(self) -> str | None:
        """Say how the sums of small random requests differ from those of each text alone; None if they do not."""
        random = np.random.default_rng(0)
        first, second, third = (random.integers(0, self.file.tokens, 5).tolist() for _ in range(3))
        pairs = [(first, second), (first, third), (first[:3], second), (first + second, third), (third, first[:1])]
        requests = [(None, context, continuation) for context, continuation in pairs]
        alone, together = (
            {one.index: one.logprobs for one in self._score(requests, most)} for most in (1, _SEQUENCES - 1)
        )
        difference = max(abs(a - b) for i in alone for a, b in zip(alone[i], together[i], strict=True))
        if not difference <= _ALLOWED:
            return f"on a small example the numbers of tokens differ by {difference:.2f} nats from those of each text alone"
        if difference or self._piece >= 64:
            logger.warning(
                "%s: what is read together moves numbers here (%.1e nats a token on a small example); n_ubatch=%d with "
                "flash_attn=True on a CPU avoids it",
                LLAMACPP,
                difference,
                EXACT_PIECE,
            )
        else:
            logger.info("%s: every distinct token is read once; each text has the numbers that it has alone", LLAMACPP)
        return None

    # ------------------------------------------------------------ requests

    def _loglikelihood_tokens(
        self, requests: Sequence[TokenRequest], disable_tqdm: bool = False, **kwargs: Any
    ) -> list[Response]:
        """Score requests; see `HFLM`.

        Raises:
            ModelError: a text cannot be scored, or has other tokens in llama.cpp; or memory does not suffice.
        """
        check_requests(requests, self.max_length)
        given = [text for text, _, _ in requests if text]
        self.compare(
            self.file, (part for context, text in given for part in (context.rstrip(), context + text) if part)
        )
        most = _SEQUENCES - 1 if requests and self.why_not() is None else 1
        if cut := sum(len(context) + len(text) - 1 > self.max_length for _, context, text in requests):
            logger.warning(
                "%d requests are longer than the window of %d tokens; cut from the left", cut, self.max_length
            )
        return collect_responses(self, requests, self._score(requests, most), disable_tqdm)

    def _score(self, requests: Sequence[TokenRequest], most: int) -> Iterator[ScoredRequest]:
        """Score requests in packs of at most ``most`` texts; yield those of a pack when they are scored."""
        by_input: dict[tuple[int, ...], list[ScoredRequest]] = {}
        for i, (_, context, continuation) in enumerate(requests):
            inputs = tuple((context + continuation)[-(self.max_length + 1) :][:-1])
            by_input.setdefault(inputs, []).append(ScoredRequest(i, continuation))
        sequences = sorted(by_input)
        longest = max(map(len, sequences), default=0)
        limits = PackLimits(max(_ROW, longest), max(self._cells, longest), max_sequences=most)
        largest = max((len(batch_of(pack, sequences).tokens) for pack in make_packs(sequences, limits)), default=0)
        with self._context(largest) as context:
            for pack in make_packs(sequences, limits):
                groups = [by_input[sequences[i]] for i in pack.paths]
                self._score_pack(context, batch_of(pack, sequences), groups)
                for group in groups:
                    yield from group

    def _score_pack(self, context: Any, batch: Batch, groups: Sequence[list[ScoredRequest]]) -> None:
        """Read a pack, and add their log-probabilities to the requests of each of its sequences."""
        scored = [
            (row, target, request)
            for path, group in zip(batch.paths, groups, strict=True)
            for request in group
            for row, target in zip(path[-len(request.targets) :].tolist(), request.targets, strict=True)
        ]
        scored.sort(key=itemgetter(0))  # each request keeps the order of its targets
        rows = np.array([row for row, _, _ in scored])
        wanted = np.zeros(len(batch.tokens), dtype=np.int8)
        wanted[rows] = 1
        self.file.library.llama_memory_clear(self.file.library.llama_get_memory(context), False)
        for start, stop in batch.pieces(self._piece):
            first, last = np.searchsorted(rows, (start, stop))
            if first < last:  # the vocabulary head, too, reads whole tiles
                others = np.flatnonzero(wanted[start:stop] == 0) + start
                wanted[others[: -int(wanted[start:stop].sum()) % _ROWS]] = 1
            own, places = np.unique(rows[first:last], return_inverse=True)
            logits = self._read(context, batch, wanted, start, stop)[wanted[start:stop].cumsum()[own - start] - 1]
            top = logits.max(axis=-1)
            mass = np.log(np.exp(logits - top[:, None]).sum(axis=-1, dtype=np.float64))
            likeliest = logits.argmax(axis=-1)
            for place, (_, target, request) in zip(places.tolist(), scored[first:last], strict=True):
                request.logprobs.append(float(logits[place, target]) - float(top[place]) - float(mass[place]))
                request.greedy &= bool(likeliest[place] == target)

    def _read(self, context: Any, batch: Batch, wanted: NDArray[np.int8], start: int, stop: int) -> NDArray[np.float32]:
        """Read tokens ``start`` to ``stop`` of a pack; return the logits at the wanted ones, shape (wanted, vocabulary)."""
        library = self.file.library
        fields = dict(library.llama_batch._fields_)
        offsets = np.cumsum(batch.counts) - batch.counts
        numbers = batch.numbers.ctypes.data + offsets.astype(np.uint64) * batch.numbers.itemsize
        columns: dict[str, NDArray[Any]] = {
            "token": batch.tokens,
            "pos": batch.positions,
            "n_seq_id": batch.counts,
            "seq_id": numbers,
            "logits": wanted,
        }
        pointers = {
            name: ctypes.cast(column.ctypes.data + start * column.itemsize, fields[name])
            for name, column in columns.items()
        }
        status = library.llama_decode(context, library.llama_batch(n_tokens=stop - start, **pointers))
        if status:
            raise ModelError(f"llama.cpp stopped with status {status} ({_last_error()})")
        count = int(wanted[start:stop].sum())
        if not count:
            return np.zeros((0, self.file.tokens), dtype=np.float32)
        return np.ctypeslib.as_array(library.llama_get_logits(context), (count, self.file.tokens))

    @contextmanager
    def _context(self, cells: int) -> Iterator[Any]:
        """Open a context of llama.cpp with room for so many tokens.

        Raises:
            ModelError: memory does not suffice, or the model sees the tokens that follow.
        """
        library = self.file.library
        parameters = library.llama_context_default_params()
        # llama.cpp takes multiples of 256 cells, and aborts the process where n_ctx or n_batch is below n_seq_max.
        settings = {
            "n_ctx": -(-cells // 256) * 256 or 256,
            "n_batch": max(self._piece, _SEQUENCES),
            "n_ubatch": self._piece,
        }
        settings |= {"n_seq_max": _SEQUENCES}
        settings |= {
            "n_threads": self._threads,
            "n_threads_batch": self._threads,
            "kv_unified": True,
        }
        settings |= {"offload_kqv": self._on_gpu, "op_offload": self._on_gpu, **self._attention}
        for name, value in settings.items():
            setattr(parameters, name, value)
        context = library.llama_init_from_model(self.file.model, parameters)
        if not context:
            raise ModelError(
                f"llama.cpp opens no context of {cells} tokens ({_last_error()}); n_ctx=N in --model_args reads fewer together, "
                "and max_length=N allows shorter texts alone"
            )
        try:
            yield context
        finally:
            library.llama_free(context)


def why_refused(file: GGUFFile) -> str | None:
    """Say why the texts of a file have no likelihoods that are read from left to right; None if they have."""
    library, model = file.library, file.model
    if library.llama_model_has_encoder(model):
        return "the model has an encoder"
    if library.llama_model_is_diffusion(model):
        return "the model writes by diffusion"
    if file.read("{arch}.attention.causal") == "false":
        return "tokens see those that follow them"
    return None


def why_alone(file: GGUFFile) -> str | None:
    """Say why each text of a file is read alone; None if texts may be read together."""
    library, model = file.library, file.model
    if library.llama_model_is_recurrent(model) or library.llama_model_is_hybrid(model):
        return "the model has recurrent layers"
    if window := library.llama_model_n_swa(model):
        return f"the model has sliding windows, of {window} tokens"
    return None


# ---------------------------------------------------------------- a pack as a batch


@dataclass(frozen=True)
class Batch:
    """The tokens of a pack as llama.cpp takes them: parents before their children.

    Attributes:
        tokens: ids, shape (tokens,).
        positions: of each token in its sequences, shape (tokens,).
        counts: number of sequences that each token belongs to, shape (tokens,).
        numbers: the numbers of these sequences, ascending, of one token after the other, shape (sum of counts,).
        paths: of each sequence, the places of its tokens.
    """

    tokens: NDArray[np.int32]
    positions: NDArray[np.int32]
    counts: NDArray[np.int32]
    numbers: NDArray[np.int32]
    paths: list[Ints]

    def pieces(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield the first token, and the one after the last, of pieces of whole tiles, of at most ``most`` tokens."""
        tiles, count = len(self.tokens) // _ROWS, -(-len(self.tokens) // (most // _ROWS * _ROWS))
        yield from pairwise(tiles * i // count * _ROWS for i in range(count + 1))


def batch_of(pack: Pack, sequences: Sequence[tuple[int, ...]]) -> Batch:
    """Lay a pack out as a batch: its trunk, one branch after the other, and tokens of no text up to whole tiles.

    Args:
        pack: without a stem.
        sequences: of which the packs were made.
    """
    tokens, positions = pack.tokens.tolist(), pack.mask.positions.tolist()
    paths = {i: path.tolist() for i, path in pack.paths.items()}
    for branch in pack.branches:
        rest = sequences[branch.sequence][branch.start :]
        paths[branch.sequence] += range(len(tokens), len(tokens) + len(rest))
        tokens += rest
        positions += range(branch.start, branch.start + len(rest))
    padding = range(len(tokens), len(tokens) + -len(tokens) % _ROWS)
    tokens, positions = tokens + tokens[:1] * len(padding), [*positions, *range(len(padding))]
    places = [np.array(path, dtype=np.int64) for path in [*paths.values(), padding]]
    owners = np.repeat(np.arange(len(places)), [*map(len, places)])
    order = np.argsort(joined := np.concatenate(places), kind="stable")
    columns = tokens, positions, np.bincount(joined), owners[order]
    ids, at, counts, numbers = (np.asarray(column, dtype=np.int32) for column in columns)
    return Batch(ids, at, counts, numbers, places[:-1])
