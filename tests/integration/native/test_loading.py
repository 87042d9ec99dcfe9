"""What the engine refuses: models, options, tensors, memory. Each error names the field, its value and what would be right."""

from typing import Any

import numpy as np
import pytest
from native_support import Model, build

from engine.binding import native

OPTIONS: dict[str, Any] = {"mode": "batch", "tp": 2, "slots": 2, "context": 64, "threads": 1}


def open_engine(model: Model, **options: Any) -> Any:
    return native().Engine(native().ModelConfig(**model.config), native().EngineOptions(**OPTIONS | options))


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("mode", "both", "serial or batch"),
        ("tp", 0, "1 .. 64"),
        ("slots", 0, "1 .. 1024"),
        ("context", 1, "2 .. "),
        ("threads", -1, "0 .. "),
        ("prefill_rows", 0, "1 .. "),
        ("queue_limit", 0, "1 .. "),
        ("device", "tpu", "cpu"),
    ],
)
def test_options_name_what_is_allowed(option: str, value: Any, words: str) -> None:
    with pytest.raises(native().ConfigError) as error:
        native().EngineOptions(**OPTIONS | {option: value})
    assert option in str(error.value)
    assert str(value) in str(error.value)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("family", "gpt", "qwen3, qwen3_5"),
        ("vocab_size", 0, "at least 1"),
        ("hidden_size", -3, "at least 1"),
        ("num_heads", 6, "multiple of num_kv_heads = 4"),
        ("rotary_dim", 33, "even"),
        ("rotary_dim", 34, "head_dim = 32"),
        ("rms_norm_eps", 0.0, "positive"),
        ("rope_theta", -1.0, "positive"),
        ("num_layers", 3, "layer_types has 2 entries"),
        ("layer_types", ["full_attention", "sliding"], "layer_types[1]"),
        ("layer_types", ["full_attention", "linear_attention"], "linear_num_key_heads"),
    ],
)
def test_configurations_name_what_is_allowed(qwen3: Model, field: str, value: Any, words: str) -> None:
    with pytest.raises(native().ConfigError) as error:
        native().ModelConfig(**qwen3.config | {field: value})
    assert words in str(error.value)


def test_dense_models_have_no_linear_layers(hybrid: Model) -> None:
    with pytest.raises(native().ConfigError, match="qwen3 has full_attention alone"):
        native().ModelConfig(**hybrid.config | {"family": "qwen3"})


@pytest.mark.parametrize("tp", [3, 8, 16])
def test_heads_that_ranks_cannot_share(qwen3: Model, tp: int) -> None:
    with pytest.raises(native().ConfigError, match=f"tp = {tp} cannot be served: it must divide num_heads = 4"):
        open_engine(qwen3, tp=tp)


def test_kv_heads_that_ranks_cannot_share(qwen3: Model) -> None:
    config = qwen3.config | {"num_heads": 12, "num_kv_heads": 3}
    with pytest.raises(native().ConfigError, match="tp = 4 cannot be served: beyond num_kv_heads = 3 it must be a multiple"):
        native().Engine(native().ModelConfig(**config), native().EngineOptions(**OPTIONS | {"tp": 4}))


def test_an_unknown_kernel_path_is_named(qwen3: Model) -> None:
    with pytest.raises(native().ConfigError, match="sse9"):
        open_engine(qwen3, isa="sse9")


def test_every_missing_tensor_is_named(hybrid: Model) -> None:
    engine = open_engine(hybrid)
    with pytest.raises(native().WeightError) as error:
        hybrid.load(engine, 2, skip=("layers.0.in_z", "layers.1.q_norm", "norm", "embed"))
    text = str(error.value)
    assert text.startswith("7 tensors are missing: ")
    assert "embed" in text
    for rank in (0, 1):
        for name in ("norm", "layers.0.in_z", "layers.1.q_norm"):
            assert f"rank {rank}: {name}" in text
    with pytest.raises(native().NativeError, match="finish_loading first"):
        engine.submit(np.array([1], np.int32), 1)
    engine.close()


def part(rows: int, cols: int, dtype: str = "bf16", **extra: Any) -> Any:
    stored = {"bf16": np.uint16, "f16": np.uint16, "f32": np.float32, "f8_e4m3": np.uint8}[dtype]
    return native().MatrixPart(np.zeros((rows, cols), stored), dtype, **extra)


@pytest.mark.parametrize(
    ("rank", "name", "parts", "words"),
    [
        (0, "layers.0.nothing", lambda: [part(64, 64)], "layers.0.nothing: the model has no tensor"),
        (2, "layers.0.o", lambda: [part(64, 64)], "rank = 2: the engine has ranks 0 .. 1"),
        (-1, "layers.0.o", lambda: [part(64, 64)], "rank = -1"),
        (0, "layers.0.o", lambda: [part(64, 65)], "part 0 has 65 columns, expected 64"),
        (1, "layers.0.qkv", lambda: [part(64, 64), part(64, 64)], "[64, 64] rows, expected [64, 64, 64]"),
        (0, "layers.0.down", lambda: [part(63, 64)], "[63] rows, expected [64]"),
        (0, "layers.0.q_norm", lambda: [part(1, 32)], "it is a vector"),
        (0, "layers.0.o", lambda: [part(64, 64, "f8_e4m3")], "no block scales"),
        (0, "layers.0.o", lambda: [part(64, 64, scale=np.ones((1, 1), np.float32))], "f8_e4m3 alone"),
        (
            0,
            "layers.0.o",
            lambda: [part(64, 64, "f8_e4m3", scale=np.ones((1, 1), np.float32), row_offset=128)],
            "block scales [1, 1], its slice needs at least [2, 1]",
        ),
    ],
)
def test_misshapen_matrices_say_found_and_expected(qwen3: Model, rank: int, name: str, parts: Any, words: str) -> None:
    engine = open_engine(qwen3)
    with pytest.raises(native().WeightError) as error:
        engine.set_matrix(rank, name, parts())
    assert words in str(error.value)
    engine.close()


def test_vectors_and_the_embedding_say_found_and_expected(qwen3: Model) -> None:
    engine = open_engine(qwen3)
    for name, values, words in [
        ("norm", np.ones(63, np.float32), r"its shape is \[63\], expected \[64\]"),
        ("norm", np.ones((64, 1), np.float32), r"its shape is \[64, 1\], expected \[64\]"),
        ("norm", np.ones(64, np.float64), "float64, expected float32"),
        ("layers.1.o", np.ones(64, np.float32), "it is a matrix"),
    ]:
        with pytest.raises(native().WeightError, match=words):
            engine.set_vector(0, name, values)
    with pytest.raises(native().WeightError, match=r"embed: its shape is \[508, 64\], expected \[509, 64\]"):
        engine.set_embedding(qwen3.embed[:508], "bf16")
    with pytest.raises(native().WeightError, match="uint16, expected float32"):
        engine.set_embedding(qwen3.embed, "f32")
    engine.set_vector(0, "norm", np.ones(64, np.float32))
    engine.set_embedding(qwen3.embed, "bf16")
    with pytest.raises(native().WeightError, match="norm: set twice"):
        engine.set_vector(0, "norm", np.ones(64, np.float32))
    with pytest.raises(native().WeightError, match="embed: set twice"):
        engine.set_embedding(qwen3.embed, "bf16")
    engine.close()


def test_matrix_parts_know_their_elements() -> None:
    with pytest.raises(native().WeightError, match="bf16 has elements of float32, expected uint16"):
        native().MatrixPart(np.zeros((2, 2), np.float32), "bf16")
    with pytest.raises(native().WeightError, match=r"int4.*must be bf16, f16, f32 or f8_e4m3"):
        native().MatrixPart(np.zeros((2, 2), np.uint16), "int4")
    with pytest.raises(native().WeightError, match="1 dimensions"):
        native().MatrixPart(np.zeros(4, np.uint16), "bf16")
    with pytest.raises(native().WeightError, match="stand together"):
        native().MatrixPart(np.zeros((4, 8), np.uint16)[:, ::2], "bf16")


def test_tensors_are_final_once_loaded(qwen3: Model) -> None:
    engine = open_engine(qwen3)
    qwen3.load(engine, 2)
    with pytest.raises(native().NativeError, match="its tensors are final"):
        engine.set_vector(0, "norm", np.ones(64, np.float32))
    engine.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"slots": 1024, "context": 1 << 20}, "lower slots (now 1024) or context (now 1048576)"),
        ({"weight_bytes": 1 << 60}, "use a smaller or an FP8 checkpoint"),
    ],
)
def test_memory_is_planned_before_it_is_taken(qwen3: Model, options: dict[str, int], words: str) -> None:
    with pytest.raises(native().OutOfMemoryError) as error:
        open_engine(qwen3, **options)
    text = str(error.value)
    assert words in text
    assert "of KV cache" in text
    assert "are available" in text


def test_memory_and_step_bytes_follow_from_the_shapes(hybrid: Model) -> None:
    engine = open_engine(hybrid, tp=1, slots=2, context=64)
    hybrid.load(engine, 1)
    memory = engine.memory()
    assert memory["kv_cache"] == 2 * 2 * 4 * 64 * 32 * 2  # keys and values, slots, heads, positions, head_dim, bfloat16
    state = 8 * 16 * 16 * 4 + 3 * (2 * 64 + 128) * 4  # recurrent and convolution, of one layer and slot
    assert memory["state"] == 2 * 2 * state
    matrices = sum(matrix.nbytes for parts in hybrid.matrices.values() for matrix in parts)
    assert memory["weights"] >= matrices
    row = 10 * 2 * 4 * 32 * 2 + 2 * 2 * state + 64 * 2
    assert engine.step_bytes(3, 10) - engine.step_bytes(2, 10) == row
    assert engine.step_bytes(0, 10) >= matrices
    engine.close()


def test_facts_and_build_say_what_runs(qwen3: Model) -> None:
    engine = open_engine(qwen3, mode="serial", slots=8, threads=4)
    facts = engine.facts()
    assert native().isa_paths()[facts["isa"]] is True
    assert (facts["tp"], facts["slots"], facts["threads_per_rank"]) == (2, 1, 2)
    engine.close()
    info = native().build_info()
    assert info["backends"] == ["cpu"]
    assert info["isa_paths"] == list(native().isa_paths())
    assert info["compiler"]
    assert info["flags"]
    assert info["build_type"]
    assert native().API_VERSION == 1


@pytest.mark.parametrize("dtype", ["f32", "f16", "f8_e4m3"])
def test_other_element_types_serve(dtype: str) -> None:
    model = build("qwen3", ["full_attention"])
    engine = open_engine(model, tp=1)
    random = np.random.default_rng(3)

    def convert(matrix: Any) -> Any:
        if dtype == "f8_e4m3":
            scales = np.full((-(-matrix.shape[0] // 128), -(-matrix.shape[1] // 128)), 0.01, np.float32)
            return native().MatrixPart(random.integers(0, 120, matrix.shape, np.uint8), dtype, scales)
        values = random.standard_normal(matrix.shape).astype(np.float32) / 8
        return native().MatrixPart(values if dtype == "f32" else values.astype(np.float16).view(np.uint16), dtype)

    for name, parts in model.matrices.items():
        engine.set_matrix(0, name, [convert(matrix) for matrix in parts])
    for name, values in model.vectors.items():
        engine.set_vector(0, name, values)
    engine.set_embedding(model.embed, "bf16")
    engine.finish_loading()
    request = engine.submit(np.arange(40, dtype=np.int32), 4, keep_logits=True)
    assert request.wait(60)
    assert request.finish_reason == "length", request.error
    assert np.isfinite(request.logits()).all()
    assert request.logits().std() > 0
    engine.close()
