"""What no weight may hold: NaN. Looked for where a tensor's own reading makes it cheap, so that it is refused by name.

FP8 E4M3 has two codes for NaN, 0x7f and 0xff, that a quantiser never writes: they mean a damaged file. The kernels would carry
them into every logit. Wide matrices are not searched: there NaN reaches the logits as NaN.
"""

import numpy as np
import numpy.typing as npt

from engine.checkpoint.index import Tensor
from engine.errors import CheckpointError

_BAND = 1 << 18  # bytes looked at in one go: what stays in a core's cache
_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONE = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_DAMAGED = "the file is damaged: download or quantise it again"


def first_nan_code(codes: npt.NDArray[np.uint8]) -> int | None:
    """Index into the flattened codes of the first FP8 NaN, None when there is none. Eight codes at a time, no copy."""
    flat = codes.reshape(-1)
    for start in range(0, flat.size, _BAND):
        band = flat[start : start + _BAND]
        whole = band.size // 8 * 8
        words = band[:whole].view(np.uint64) & _LOW
        words += _ONE  # a byte of 0x7f, and only that, reaches its highest bit
        words &= _HIGH
        if words.any() or (band[whole:] & 0x7F == 0x7F).any():
            return start + int(np.argmax(band & 0x7F == 0x7F))
    return None


def refuse_nan_codes(tensor: Tensor) -> None:
    """Raises CheckpointError naming the first NaN among the codes of an FP8 matrix."""
    codes = tensor.view()
    at = first_nan_code(codes)
    if at is not None:
        row, col = divmod(at, tensor.shape[1])
        raise CheckpointError(
            f"{tensor.file.path}: tensor {tensor.name}: row {row}, column {col}: found FP8 code {codes[row, col]:#04x}, "
            f"which is NaN; expected a number; {_DAMAGED}"
        )


def refuse_not_finite(tensor: Tensor, values: npt.NDArray[np.float32]) -> None:
    """Raises CheckpointError naming the first NaN or infinity among `values`, which are the tensor's."""
    finite = np.isfinite(values)
    if not finite.all():
        at = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise CheckpointError(
            f"{tensor.file.path}: tensor {tensor.name}: element {list(at)}: found {values[at]}, "
            f"expected a finite number; {_DAMAGED}"
        )
