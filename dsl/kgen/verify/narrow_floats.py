"""Conversions between float32 and the narrow formats that NumPy lacks, as NVIDIA's instructions do them.

All round to nearest, ties to even. bfloat16 overflows to infinity and keeps NaN (0x7FFF); the 8-bit formats saturate at
their largest finite value, infinity included, and keep NaN (0x7F with the sign lost).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
U16 = NDArray[np.uint16]
U8 = NDArray[np.uint8]


def bf16_to_f32(bits: U16) -> F32:
    """Return the exact values of bfloat16 bit patterns."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(values: F32) -> U16:
    """Return the bit patterns of the nearest bfloat16 values."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.where(is_nan, np.uint16(0x7FFF), rounded.astype(np.uint16)).reshape(np.shape(values))


@dataclass(frozen=True)
class Float8:
    """An 8-bit format: codes 0..`largest` are the non-negative finite values in rising order."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: int
    infinity: int | None

    @functools.cached_property
    def values(self) -> F32:
        """The value of each of the 256 codes."""
        codes = np.arange(128)
        exponent, mantissa = codes >> self.mantissa_bits, codes & ((1 << self.mantissa_bits) - 1)
        fraction = mantissa / (1 << self.mantissa_bits) + (exponent > 0)
        positive = fraction * 2.0 ** (np.maximum(exponent, 1) - self.bias)
        positive[self.largest + 1 :] = np.nan
        if self.infinity is not None:
            positive[self.infinity] = np.inf
        return np.concatenate([positive, -positive]).astype(np.float32)

    def decode(self, codes: U8) -> F32:
        return np.asarray(self.values[codes.view(np.uint8)])

    def encode(self, values: F32) -> U8:
        """Return the nearest codes: a tie goes to the even code, what is out of range to the largest finite one."""
        finite = self.values[: self.largest + 1].astype(np.float64)
        middles = (finite[1:] + finite[:-1]) / 2
        size = np.abs(values).astype(np.float64)
        below = np.searchsorted(middles, size, side="left")
        above = np.searchsorted(middles, size, side="right")
        nearest = np.where(below % 2 == 0, below, above)
        code = np.where(np.isnan(values), 0x7F, nearest + np.where(np.signbit(values), 0x80, 0))
        return code.astype(np.uint8)


E4M3 = Float8(exponent_bits=4, mantissa_bits=3, bias=7, largest=0x7E, infinity=None)
E5M2 = Float8(exponent_bits=5, mantissa_bits=2, bias=15, largest=0x7B, infinity=0x7C)
