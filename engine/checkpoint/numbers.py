"""Conversions between float32 and the narrow formats of a checkpoint, exact and in numpy, which has neither BF16 nor FP8."""

from functools import cache

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
E4M3_MAX = 448.0


def bf16_from_float(values: Float32) -> npt.NDArray[np.uint16]:
    """Round to nearest even; the bits of BF16, same shape. NaN stays a quiet NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        rounded[nan] = (bits[nan] >> np.uint32(16)).astype(np.uint16) | np.uint16(0x40)
    return rounded


def bf16_to_float(bits: npt.NDArray[np.uint16]) -> Float32:
    """Widen the bits of BF16, exactly; same shape."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


@cache
def e4m3_table() -> Float32:
    """The value of each of the 256 codes of FP8 E4M3 (the finite-only variant: NaN at 0x7f and 0xff, no infinity). Read-only."""
    codes = np.arange(256, dtype=np.int64)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    magnitude = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    magnitude[(codes & 0x7F) == 0x7F] = np.nan
    table = np.where(codes & 0x80, -magnitude, magnitude).astype(np.float32)
    table.flags.writeable = False
    return table


def e4m3_from_float(values: Float32) -> npt.NDArray[np.uint8]:
    """Round to nearest even, saturating at +-448; the codes of FP8 E4M3, same shape. NaN becomes NaN."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    sign = ((bits >> np.uint32(24)) & np.uint32(0x80)).astype(np.uint8)
    magnitude = bits & np.uint32(0x7FFFFFFF)
    rounded = (magnitude + np.uint32(0x7FFFF) + ((magnitude >> np.uint32(20)) & np.uint32(1))) >> np.uint32(20)
    normal = np.minimum(rounded.astype(np.int32) - (120 << 3), 0x7E)  # exponent bias 127 becomes 7
    small = np.minimum(np.abs(values), np.float32(2.0**-6))
    subnormal = np.rint(np.nan_to_num(small) * np.float32(2.0**9)).astype(np.int32)  # steps of 2^-9
    codes = np.where(magnitude < np.uint32(0x3C800000), subnormal, normal)  # 0x3c800000 is 2^-6
    codes[np.isnan(values)] = 0x7F
    return codes.astype(np.uint8) | sign


def ue8m0_to_float(codes: npt.NDArray[np.uint8]) -> Float32:
    """Block scales that are powers of two: code b is 2^(b - 127), code 255 is NaN."""
    finite = np.ldexp(np.float32(1.0), np.minimum(codes, 254).astype(np.int32) - 127)
    return np.where(codes == 255, np.float32(np.nan), finite).astype(np.float32)


def to_float(array: npt.NDArray[np.generic], dtype: str) -> Float32:
    """Widen a tensor's storage to float32 (no copy where it is that already). `dtype`: bf16, f16, f32 or f8_e4m3 (unscaled)."""
    if dtype == "f32":
        return array.astype(np.float32, copy=False)
    if dtype == "bf16":
        return bf16_to_float(array.view(np.uint16))
    if dtype == "f16":
        return array.view(np.float16).astype(np.float32)
    if dtype == "f8_e4m3":
        widened: Float32 = e4m3_table()[array]
        return widened
    raise ValueError(f"no conversion from {dtype!r} to float32")


def expand_scales(scales: Float32, rows: int, cols: int, block: int = 128) -> Float32:
    """Block scales [ceil(rows/block), ceil(cols/block)] repeated to [rows, cols]."""
    return np.repeat(np.repeat(scales, block, axis=0)[:rows], block, axis=1)[:, :cols]
