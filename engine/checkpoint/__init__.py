"""Checkpoints: Hugging Face folders of safetensors, mapped and cut per rank; synthetic ones; the block quantiser. No torch."""
