"""A BF16 GGUF file from a Hugging Face folder of this family, by the `gguf` package in llama.cpp's environment.

    python make_gguf.py FOLDER FILE.gguf

Architectures `qwen3` and `qwen35`; no vocabulary. The values are exact, but for hybrids with more value heads than key heads:
llama.cpp wants those heads in another order, which costs the same time and is left out here. Matrices stay BF16, bit for bit;
vectors, the convolution and the decays become F32, as llama.cpp's own converter has them.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

LAYER = {
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight",
    "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
    "linear_attn.in_proj_b.weight": "ssm_beta.weight",
    "linear_attn.out_proj.weight": "ssm_out.weight",
    "linear_attn.norm.weight": "ssm_norm.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.A_log": "ssm_a",
}
WHOLE = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def tensors(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Plain name -> values of every tensor, BF16 as uint16, mapped from the files. Raises ValueError for another element type."""
    kinds = {"BF16": np.uint16, "F32": np.float32}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
        header.pop("__metadata__", None)
        for name, entry in header.items():
            if entry["dtype"] not in kinds:
                raise ValueError(f"{path}: tensor {name}: found {entry['dtype']}, expected BF16 or F32")
            at = 8 + size + entry["data_offsets"][0]
            plain = name.removeprefix("model.").removeprefix("language_model.")
            yield plain, np.memmap(path, kinds[entry["dtype"]], "r", at, tuple(entry["shape"]))


def target(plain: str, hybrid: bool) -> str:
    """GGUF's name. Raises KeyError for a tensor that the text model does not have."""
    if plain in WHOLE:
        return WHOLE[plain]
    _, index, rest = plain.split(".", 2)
    if rest == "post_attention_layernorm.weight":
        return f"blk.{index}." + ("post_attention_norm.weight" if hybrid else "ffn_norm.weight")
    return f"blk.{index}.{LAYER[rest]}"


def wide(plain: str, values: np.ndarray, hybrid: bool) -> np.ndarray:
    """A vector as llama.cpp computes with it, F32: norms of hybrids are stored as what is added to 1, decays as logarithms."""
    floats = (values.astype(np.uint32) << 16).view(np.float32) if values.dtype == np.uint16 else np.asarray(values)
    if plain.endswith("A_log"):
        return -np.exp(floats)
    if plain.endswith("conv1d.weight"):
        return floats.reshape(floats.shape[0], floats.shape[-1])
    if hybrid and plain.endswith("norm.weight") and not plain.endswith("linear_attn.norm.weight"):
        return floats + np.float32(1)
    return floats


def describe(writer: gguf.GGUFWriter, config: dict[str, Any], hybrid: bool) -> None:
    """The keys that llama.cpp reads."""
    rope = config["rope_parameters"]
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    if hybrid:
        values = config["linear_num_value_heads"]
        writer.add_rope_dimension_count(int(config["head_dim"] * rope["partial_rotary_factor"]))
        writer.add_rope_dimension_sections([*rope["mrope_section"], 0])
        writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
        writer.add_ssm_state_size(config["linear_key_head_dim"])
        writer.add_ssm_group_count(config["linear_num_key_heads"])
        writer.add_ssm_time_step_rank(values)
        writer.add_ssm_inner_size(values * config["linear_value_head_dim"])
        writer.add_full_attention_interval(config["layer_types"].index("full_attention") + 1)


def main() -> None:
    """The file appears whole or not at all."""
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = config.get("text_config", config)
    hybrid = "layer_types" in config and "linear_num_value_heads" in config
    part = out.with_suffix(f".{os.getpid()}.part")
    writer = gguf.GGUFWriter(part, "qwen35" if hybrid else "qwen3")
    describe(writer, config, hybrid)
    for plain, values in tensors(folder):
        if plain.startswith(("visual.", "mtp.")):
            continue
        if values.ndim == 2:
            writer.add_tensor(target(plain, hybrid), values, raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(target(plain, hybrid), wide(plain, values, hybrid))
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        part.rename(out)
    finally:
        part.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
