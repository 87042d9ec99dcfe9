"""llama.cpp as a subject, through its C API: one context, a sequence a request, one batch a step. Run by bench_peers.py.

All prompts go through in one batch, then each step decodes one token of every sequence; the next token is the largest logit,
found here by numpy (a fraction of a per cent of a step).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import llama_cpp
import numpy as np
from workload import NEW, PROMPT, Prompts, answer, read_request

CELLS = 256  # positions a sequence; llama.cpp rounds up to this


class Engine:
    """A model and a context with room for `slots` sequences."""

    def __init__(self, path: str, slots: int, threads: int) -> None:
        """Raises RuntimeError when llama.cpp takes the file or the context not."""
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"{path}: llama.cpp does not load it; its reasons stand above")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = slots * CELLS
        params.n_seq_max = slots
        params.n_batch = params.n_ubatch = max(512, slots * PROMPT)
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = os.environ.get("PEERS_LLAMA_UNIFIED", "0") == "1"
        params.flash_attn_type = int(os.environ.get("PEERS_LLAMA_FLASH", "1"))
        params.no_perf = True
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError(f"{path}: llama.cpp makes no context for {slots} sequences; its reasons stand above")
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(slots * PROMPT, 0, 1)
        self.settings = {
            "threads": threads,
            "flash attention": params.flash_attn_type == 1,
            "unified cache": bool(params.kv_unified),
            "ubatch": params.n_ubatch,
        }

    def generate(self, prompts: Prompts) -> list[list[int]]:
        """NEW tokens for each prompt. Raises RuntimeError when a step fails."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), False)
        rows = [(token, at, slot, at == PROMPT - 1) for slot, prompt in enumerate(prompts) for at, token in enumerate(prompt)]
        steps = [self._step(rows, len(prompts))]
        for position in range(PROMPT, PROMPT + NEW - 1):
            steps.append(self._step([(token, position, slot, True) for slot, token in enumerate(steps[-1])], len(prompts)))
        return [list(tokens) for tokens in zip(*steps, strict=True)]

    def _step(self, rows: list[tuple[int, int, int, bool]], width: int) -> list[int]:
        """Decode (token, position, sequence, whether its logits are wanted); the largest logit's token of each wanted row."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for index, (token, position, slot, wanted) in enumerate(rows):
            batch.token[index] = token
            batch.pos[index] = position
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = slot
            batch.logits[index] = wanted
        if code := llama_cpp.llama_decode(self.context, batch):
            raise RuntimeError(f"llama_decode of {len(rows)} tokens: found code {code}, expected 0")
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self.context), (width, self.vocab))
        return logits.argmax(axis=1).tolist()

    def close(self) -> None:
        """Give everything back."""
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)


@contextmanager
def _only_errors() -> Iterator[None]:
    """llama.cpp's log, held to warnings and errors."""

    def show(level: int, text: bytes, _: Any) -> None:
        if level in (3, 4):  # warning, error
            print(text.decode(errors="replace"), end="", flush=True)

    callback = llama_cpp.llama_log_callback(show)
    llama_cpp.llama_log_set(callback, None)
    yield


def main() -> None:
    """Raises RuntimeError when llama.cpp does not run the model."""
    request = read_request()
    with _only_errors():
        engine = Engine(request.model, max(request.widths), request.threads)
        settings = {"version": version("llama-cpp-python"), **engine.settings}
        answer("llama.cpp", settings, request, engine.vocab, engine.generate)
        engine.close()


if __name__ == "__main__":
    main()
