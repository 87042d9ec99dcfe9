"""Hides packages that vLLM installs for pictures and sound where their build does not fit torch's: importing one then ends vLLM.

A build is told by its version's local part: 2.13.0+cpu and 0.28.0 do not fit. Python imports this at the start of each of vLLM's
processes, from the PYTHONPATH that subject_vllm.py sets.
"""

import sys
from importlib.metadata import PackageNotFoundError, version


def _build(package: str) -> str:
    try:
        return version(package).partition("+")[2]
    except PackageNotFoundError:
        return ""


for _name in ("torchvision", "torchaudio", "torchcodec"):
    if _build(_name) != _build("torch"):
        sys.modules[_name] = None  # type: ignore[assignment]  # find_spec then says that there is none
