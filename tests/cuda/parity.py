"""Holds CUDA against the CPU within the tolerance, and serial against batch on CUDA bit by bit, through sessions.

python tests/cuda/parity.py [CHECKPOINT ...]        with `engine` importable; exit code 1 where something differs
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from engine import Session, SessionOptions
from engine.compare import compare

CHECKPOINTS = ("synthetic:tiny", "synthetic:tiny-hybrid", "synthetic:tiny-fp8", "synthetic:small-fp8", "synthetic:small-dense")
LENGTHS = (16, 1, 33, 16, 7, 64, 16, 97, 2, 16, 130, 16, 16, 5, 250, 31)  # of the prompts, the first sixteen
COUNTS = (*range(1, 9), 16)  # requests in one batch
NEW_TOKENS = 8
CONTEXT = 320


def prompts_of(vocab_size: int) -> list[list[int]]:
    """The same prompts for every session of a checkpoint."""
    draw = np.random.default_rng(7)
    return [draw.integers(0, vocab_size, length).tolist() for length in LENGTHS]


def run(checkpoint: str, cache: Path) -> list[str]:
    """Everything that is wrong, in words."""
    faults = []
    with Session.open(checkpoint, SessionOptions(mode="serial", devices="cuda:0", context=CONTEXT), cache=cache) as session:
        prompts = prompts_of(session.facts.vocab_size)
        serial = session.generate(prompts, NEW_TOKENS, keep_logits=True)
    with Session.open(checkpoint, SessionOptions(mode="batch", tp=1, context=CONTEXT), cache=cache) as session:
        on_cpu = session.generate(prompts[:8], 1, keep_logits=True)
    worst = 0.0
    for number, (gpu, cpu) in enumerate(zip(serial, on_cpu, strict=False)):
        assert gpu.logits is not None
        assert cpu.logits is not None
        agreement = compare(gpu.logits[:1], cpu.logits)
        worst = max(worst, agreement.worst_error)
        if not agreement.passed:
            faults.append(f"prompt {number} of {LENGTHS[number]}: CPU and CUDA part by {agreement.relative_error:.2e}")
    with Session.open(
        checkpoint, SessionOptions(mode="batch", devices="cuda:0", slots=16, context=CONTEXT), cache=cache
    ) as session:
        for count in COUNTS:
            batch = session.generate(prompts[:count], NEW_TOKENS, keep_logits=True)
            for number, (alone, together) in enumerate(zip(serial, batch, strict=False)):
                assert alone.logits is not None
                assert together.logits is not None
                if alone.tokens != together.tokens or alone.logits.tobytes() != together.logits.tobytes():
                    faults.append(f"prompt {number} of {LENGTHS[number]}: not the bits of serial among {count}")
    print(f"{checkpoint}: CPU against CUDA at most {worst:.2e}; serial against batches of {list(COUNTS)}: {len(faults)} faults")
    return faults


def main() -> int:
    """Exit code 0 when nothing is wrong."""
    failed = False
    with tempfile.TemporaryDirectory() as cache:
        for checkpoint in sys.argv[1:] or CHECKPOINTS:
            faults = run(checkpoint, Path(cache))
            failed = failed or bool(faults)
            for fault in faults[:10]:
                print(f"  {fault}")
            sys.stdout.flush()
    print("FAILED" if failed else "passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
