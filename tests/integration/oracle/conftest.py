"""Oracle folders, written by transformers' own save_pretrained, their float32 logits, and the table of errors after a run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3_5ForCausalLM, Qwen3_5TextConfig, Qwen3Config, Qwen3ForCausalLM

from engine import binding
from engine.checkpoint.index import Checkpoint
from engine.checkpoint.load import Source
from engine.checkpoint.names import matrix_shapes
from engine.checkpoint.quantise import quantise_folder
from engine.compare import TOLERANCE, Agreement
from engine.config import read_config
from engine.reference import Reference

LINEAR = {"linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 128, "linear_value_head_dim": 32}
ROPE = {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.25, "mrope_section": [4, 2, 2]}
ROWS = pytest.StashKey[list[tuple[str, int, int, Agreement, float]]]()


def sizes(vocab: int, hidden: int, intermediate: int, layers: int, **fields: Any) -> dict[str, Any]:
    named = {"vocab_size": vocab, "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers}
    return {**named, "num_attention_heads": 8, **fields}


def dense(**fields: Any) -> torch.nn.Module:
    return Qwen3ForCausalLM(Qwen3Config(rope_parameters={"rope_type": "default", "rope_theta": 1e6}, **fields))


def hybrid(**fields: Any) -> torch.nn.Module:
    return Qwen3_5ForCausalLM(Qwen3_5TextConfig(rope_parameters=ROPE, head_dim=64, **LINEAR, **fields))


MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    # KV heads fewer than ranks, an odd vocabulary, a separate head
    "dense": lambda: dense(**sizes(1003, 160, 320, 3, head_dim=32, num_key_value_heads=2)),
    "dense-tied": lambda: dense(**sizes(515, 128, 192, 2, head_dim=48, num_key_value_heads=4, tie_word_embeddings=True)),
    "hybrid": lambda: hybrid(**sizes(1003, 128, 256, 4, num_key_value_heads=2)),
    "hybrid-tied": lambda: hybrid(**sizes(515, 192, 320, 4, num_key_value_heads=1, tie_word_embeddings=True)),
}
FP8 = {"hybrid-fp8": ("hybrid", "float"), "hybrid-fp8-ragged": ("hybrid-tied", "float"), "dense-fp8-ue8m0": ("dense", "ue8m0")}


@dataclass
class Oracle:
    """One folder and what float32 transformers makes of it."""

    folder: Path
    model: Any
    vocab_size: int
    reference: Reference  # our own, with the engine's BF16 rounding
    _known: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    def prompt(self, length: int, seed: int = 0) -> list[int]:
        return np.random.default_rng((seed, length)).integers(0, self.vocab_size, length).tolist()

    def logits(self, ids: list[int], count: int) -> tuple[np.ndarray, np.ndarray]:
        """The last `count` positions' logits of the sequence, [count, vocabulary]: transformers', and our rounded reference's."""
        key = tuple(ids)
        if key not in self._known:
            with torch.inference_mode():
                exact = self.model(torch.tensor([ids])).logits[0].numpy()
            (rounded,) = self.reference.forward([ids])
            self._known[key] = exact, rounded.logits
        exact, close = self._known[key]
        return exact[-count:], close[-count:]


@pytest.fixture(scope="session", autouse=True)
def native_module() -> Any:
    """The compiled module; without it the error says how to build it."""
    torch.set_num_threads(1)  # the oracles are small: more threads only wait for one another
    return binding.native()


@pytest.fixture(scope="session")
def oracles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Oracle]]:
    """The oracle called `kind`, made once a session."""
    root = tmp_path_factory.mktemp("oracles")
    made: dict[str, Oracle] = {}

    def oracle(kind: str) -> Oracle:
        if kind not in made:
            made[kind] = quantised(kind, root, oracle(FP8[kind][0])) if kind in FP8 else written(kind, root)
        return made[kind]

    yield oracle
    made.clear()


def written(kind: str, root: Path) -> Oracle:
    """A folder of shards written by transformers in BF16, and the model that transformers reads back from it in float32."""
    torch.manual_seed(sum(kind.encode()))
    model: Any = MODELS[kind]()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread(name, parameter)
    model.to(torch.bfloat16).save_pretrained(root / kind, max_shard_size="400KB")
    read = AutoModelForCausalLM.from_pretrained(root / kind, dtype=torch.float32).eval()
    return Oracle(root / kind, read, read.config.vocab_size, Reference.open(root / kind, rounded=True))


def quantised(kind: str, root: Path, wide: Oracle) -> Oracle:
    """The FP8 form of a folder, and the wide model with the quantised weights in it (transformers refuses ragged edges)."""
    quantise_folder(wide.folder, root / kind, scale_format=FP8[kind][1])
    source = Source(read_config(root / kind), Checkpoint(root / kind))
    model = AutoModelForCausalLM.from_pretrained(wide.folder, dtype=torch.float32).eval()
    with torch.no_grad():
        parameters = dict(model.named_parameters())
        narrow = [plain for plain in matrix_shapes(source.config) if source.scale(plain) is not None]
        for plain in narrow:
            parameters["model." + plain].copy_(torch.from_numpy(source.matrix(plain)))
    assert len(narrow) >= 14
    return Oracle(root / kind, model, wide.vocab_size, Reference(source, rounded=True))


def spread(name: str, parameter: torch.Tensor) -> None:
    """Weights under which logits spread and greedy choices vary, conditioned as in engine.checkpoint.synthetic."""
    if name.endswith("conv1d.weight"):
        parameter.copy_(torch.randn_like(parameter) * 4 * parameter.shape[-1] ** -0.5)
    elif name.endswith("dt_bias"):
        parameter.copy_(torch.log(torch.expm1(torch.empty_like(parameter).uniform_(0.001, 0.1))))
    elif name.endswith("A_log"):
        parameter.copy_(torch.log(torch.empty_like(parameter).uniform_(1, 16)))
    elif name.endswith("norm.weight"):
        parameter.add_(0.1 * torch.randn_like(parameter))
    else:
        parameter.copy_(torch.randn_like(parameter) * parameter.shape[-1] ** -0.5)


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[[str, int, int, Agreement, float], None]:
    """Keep a row for the table."""
    rows = request.config.stash.setdefault(ROWS, [])
    return lambda *row: rows.append(row)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section(f"oracle: relative logit error against float32 transformers (at most {TOLERANCE:.0e})")
    lengths = sorted({length for _, _, length, _, _ in rows})
    terminalreporter.write_line(
        f"{'model':<30}{'tp':>3}" + "".join(f"{f'prompt {n}':>14}" for n in lengths) + "  with BF16 rounding  clear choices"
    )
    for kind, tp in dict.fromkeys((kind, tp) for kind, tp, *_ in rows):
        own = [row[2:] for row in rows if row[:2] == (kind, tp)]
        worst = {n: max((a.relative_error for length, a, _ in own if length == n), default=None) for n in lengths}
        cells = "".join(f"{'' if error is None else f'{error:.2e}':>14}" for error in worst.values())
        choices = f"{sum(a.clear for _, a, _ in own)}/{sum(a.positions for _, a, _ in own)}"
        terminalreporter.write_line(f"{kind:<30}{tp:>3}{cells}{max(r for *_, r in own):>20.2e}{choices:>15}")
