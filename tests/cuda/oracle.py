"""Holds CUDA logits against float32 transformers on the same folders: wide weights of both families.

python tests/cuda/oracle.py [CHECKPOINT ...]        with `engine` importable; exit code 1 where they part
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from engine import Session, SessionOptions
from engine.checkpoint.synthetic import resolve
from engine.compare import compare

CHECKPOINTS = ("synthetic:tiny", "synthetic:tiny-hybrid", "synthetic:small-dense", "synthetic:small")
LENGTHS = (1, 16, 97)
NEW_TOKENS = 4


def run(checkpoint: str, cache: Path) -> bool:
    """Whether they agree on every prompt."""
    folder = resolve(checkpoint, cache)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to("cuda").eval()
    draw = np.random.default_rng(3)
    good = True
    with Session.open(folder, SessionOptions(mode="batch", devices="cuda:0")) as session:
        prompts = [draw.integers(0, session.facts.vocab_size, length).tolist() for length in LENGTHS]
        ours = session.generate(prompts, NEW_TOKENS, keep_logits=True)
    for prompt, generation in zip(prompts, ours, strict=True):
        assert generation.logits is not None
        fed = torch.tensor([prompt + list(generation.tokens[:-1])], device="cuda")
        with torch.no_grad():
            theirs = model(fed).logits[0, len(prompt) - 1 :].float().cpu().numpy()
        agreement = compare(generation.logits, theirs)
        state = "ok" if agreement.passed else f"PART, choices differ at {list(agreement.differing)}"
        print(f"{checkpoint}: prompt of {len(prompt)}: {agreement.relative_error:.2e}, clear {agreement.clear}: {state}")
        good = good and agreement.passed
    return good


def main() -> int:
    """Exit code 0 when all agree."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    with tempfile.TemporaryDirectory() as cache:
        results = [run(checkpoint, Path(cache)) for checkpoint in sys.argv[1:] or CHECKPOINTS]
    print("passed" if all(results) else "FAILED")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
