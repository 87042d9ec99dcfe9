"""vLLM's CPU backend as a subject: its offline `LLM.generate`, the real weights, token ids in and out. Run by bench_peers.py.

What it reads from the environment must be there when its process starts, so this program starts itself once more.
"""

import json
import os
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workload import NEW, Prompts, answer, not_run, read_request

HERE = Path(__file__).resolve().parent
STARTED = "PEERS_VLLM_STARTED"


def environment(threads: int) -> dict[str, str]:
    """As vLLM's guide to CPUs has it, with every core computing: left alone it keeps one back for its scheduler."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    values = {
        STARTED: "1",
        "PYTHONPATH": str(HERE / "hidden"),
        "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # its scheduler in a process of its own would take turns with the kernels
        "OMP_NUM_THREADS": str(len(cores)),
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    if " " in str(Path.home()):  # torch hands the compiler the paths of its cache without quotes
        values["VLLM_CACHE_ROOT"] = str(Path(tempfile.gettempdir()) / f"vllm-cache-{os.getuid()}")
    openmp = Path(sys.prefix) / "lib" / "libiomp5.so"  # comes with vllm-cpu; its barriers are faster than libgomp's
    if openmp.exists():
        values |= {
            "LD_PRELOAD": str(openmp),
            "KMP_AFFINITY": f"granularity=fine,explicit,proclist=[{','.join(map(str, cores))}]",
            "KMP_BLOCKTIME": "5",  # ms that a thread spins for more work, as vLLM sets it for its own workers
            "KMP_TPAUSE": "0",
        }
    return values


def main() -> None:
    """Raises what vLLM raises for a model that it cannot serve."""
    request = read_request()
    if STARTED not in os.environ:
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **environment(request.threads)})  # noqa: S606
    config = json.loads((Path(request.model) / "config.json").read_text(encoding="utf-8"))
    if config["model_type"].startswith("qwen3_5") and find_spec("torchvision") is None:
        not_run("vllm", "vLLM imports torchvision for this architecture, and this environment has none that fits its torch")
        return
    from vllm import LLM, SamplingParams

    eager = os.environ.get("PEERS_VLLM_EAGER", "0") == "1"
    llm = LLM(
        model=request.model,
        skip_tokenizer_init=True,
        dtype="bfloat16",
        max_model_len=256,
        max_num_seqs=max(8, *request.widths),
        enable_prefix_caching=False,
        enforce_eager=eager,
        disable_log_stats=True,
    )
    sampling = SamplingParams(temperature=0, max_tokens=NEW, ignore_eos=True, detokenize=False)

    def generate(asked: Prompts) -> list[list[int]]:
        done = llm.generate([{"prompt_token_ids": prompt} for prompt in asked], sampling, use_tqdm=False)
        return [list(one.outputs[0].token_ids) for one in done]

    vocab = config.get("text_config", config)["vocab_size"]
    settings: dict[str, Any] = {"version": version("vllm-cpu"), "threads": request.threads, "eager": eager}
    settings["openmp"] = Path(os.environ.get("LD_PRELOAD", "as torch has it")).name
    answer("vllm", settings, request, vocab, generate)


if __name__ == "__main__":  # vLLM's processes import this file again
    main()
