"""Element types and their names in each language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True)
class DType:
    """An element type and its names: `triton` in a Triton signature, `tl` in Triton text, `cuda` in CUDA text."""

    name: str
    kind: Kind
    bits: int
    triton: str
    tl: str
    cuda: str
    torch: str

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in ("int", "uint")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


BF16 = DType("bf16", "float", 16, "bf16", "tl.bfloat16", "bf16", "bfloat16")
F16 = DType("f16", "float", 16, "fp16", "tl.float16", "f16", "float16")
F32 = DType("f32", "float", 32, "fp32", "tl.float32", "float", "float32")
F64 = DType("f64", "float", 64, "fp64", "tl.float64", "double", "float64")
I8 = DType("i8", "int", 8, "i8", "tl.int8", "i8", "int8")
U8 = DType("u8", "uint", 8, "u8", "tl.uint8", "u8", "uint8")
I16 = DType("i16", "int", 16, "i16", "tl.int16", "i16", "int16")
I32 = DType("i32", "int", 32, "i32", "tl.int32", "int", "int32")
I64 = DType("i64", "int", 64, "i64", "tl.int64", "i64", "int64")
BOOL = DType("bool", "bool", 1, "i1", "tl.int1", "bool", "bool")

DTYPES: dict[str, DType] = {t.name: t for t in (BF16, F16, F32, F64, I8, U8, I16, I32, I64, BOOL)}


def compute_dtype(storage: DType) -> DType:
    """Return the type a loaded element computes in: 16-bit floats in f32, small integers in i32."""
    if storage.is_float:
        return F64 if storage is F64 else F32
    if storage.kind == "bool":
        return BOOL
    return I64 if storage is I64 else I32


def promote(a: DType, b: DType) -> DType:
    """Return the common compute type of two compute types: float beats int, wider beats narrower."""
    if a == b:
        return a
    if a.is_float or b.is_float:
        return F64 if F64 in (a, b) else F32
    if I64 in (a, b):
        return I64
    return I32
