"""The torch reference against transformers, on folders that transformers itself has saved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3_5ForCausalLM, Qwen3_5TextConfig, Qwen3Config, Qwen3ForCausalLM

from engine.compare import relative_error
from engine.reference import Reference

LENGTHS = (1, 16, 97)
COMMON: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "vocab_size": 211}
LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 24}
ROPE = {"rope_type": "default", "rope_theta": 5e4, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1]}


def dense(**fields: Any) -> torch.nn.Module:
    rope = {"rope_type": "default", "rope_theta": 1e5}
    return Qwen3ForCausalLM(
        Qwen3Config(num_hidden_layers=3, head_dim=24, num_key_value_heads=2, rope_parameters=rope, **COMMON, **fields)
    )


def hybrid(**fields: Any) -> torch.nn.Module:
    sizes = {"num_hidden_layers": 4, "head_dim": 32, "num_key_value_heads": 1, "rope_parameters": ROPE}
    return Qwen3_5ForCausalLM(Qwen3_5TextConfig(**sizes, **COMMON, **LINEAR, **fields))


MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "dense": dense,
    "dense-tied": lambda: dense(tie_word_embeddings=True),
    "hybrid": hybrid,
    "hybrid-tied": lambda: hybrid(tie_word_embeddings=True),
}


@pytest.mark.parametrize("kind", MODELS)
def test_logits_and_every_hidden_state(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(11)
    model: Any = MODELS[kind]().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.add_(0.2 * torch.randn_like(parameter))
            elif parameter.ndim == 2:
                parameter.copy_(torch.randn_like(parameter) * parameter.shape[1] ** -0.5)
    model.save_pretrained(tmp_path)
    prompts = [torch.randint(0, 211, (length,)).tolist() for length in LENGTHS]
    ours = Reference.open(tmp_path).forward(prompts, keep_hidden=True)
    for prompt, out in zip(prompts, ours, strict=True):
        with torch.no_grad():
            theirs = model(torch.tensor([prompt]), output_hidden_states=True)
        assert relative_error(out.logits, theirs.logits[0].numpy()) < 3e-5
        assert out.logits.std() > 0.5
        for mine, other in zip(out.hidden[:-1], theirs.hidden_states[:-1], strict=True):  # theirs ends after the final norm
            assert relative_error(mine, other[0].numpy()) < 3e-5
        np.testing.assert_array_equal(Reference.open(tmp_path).read_out(out.hidden[-1]), out.logits)


@pytest.mark.parametrize("shape", ["tiny", "tiny-hybrid", "tiny-fp8"])
def test_synthetic_checkpoints_are_what_transformers_reads(shape: str, checkpoints: Callable[[str], Path]) -> None:
    folder = checkpoints(shape)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = np.random.default_rng(2).integers(0, 512, 40).tolist()
    with torch.no_grad():
        theirs = model(torch.tensor([prompt])).logits[0].numpy()
    (ours,) = Reference.open(folder).forward([prompt])
    assert relative_error(ours.logits, theirs) < 3e-5


@pytest.mark.parametrize("shape", ["tiny", "tiny-hybrid"])
def test_greedy_choices_of_a_synthetic_model_vary(shape: str, checkpoints: Callable[[str], Path]) -> None:
    prompt = np.random.default_rng(4).integers(0, 512, 64).tolist()
    (out,) = Reference.open(checkpoints(shape)).forward([prompt])
    assert len(set(out.logits.argmax(axis=-1).tolist())) > 30
    assert 0.5 < out.logits.std() < 3
