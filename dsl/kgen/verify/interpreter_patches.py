"""Corrections of Triton's interpreter. Each function installs one; `interpreter.py` decides which are needed."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, ReduceOps, ScanOps, TensorHandle

from kgen.build.interpret import MODULE_PREFIX
from kgen.verify.narrow_floats import E4M3, E5M2, bf16_to_f32, f32_to_bf16

_FLOAT8 = {"fp8e4nv": E4M3, "fp8e5": E5M2}
_BRANCHES = (ast.If, ast.IfExp, ast.BoolOp, ast.While)
_EXTERNAL: dict[str, Callable[..., Any]] = {
    "pow": np.power, "atan2": np.arctan2, "fmod": np.fmod, "hypot": np.hypot, "tanh": np.tanh, "sinh": np.sinh,
    "cosh": np.cosh, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "exp10": lambda x: 10.0**x,
    "expm1": np.expm1, "log1p": np.log1p, "log10": np.log10, "cbrt": np.cbrt, "rint": np.rint, "trunc": np.trunc,
}  # fmt: skip


def correct_narrow_arithmetic() -> None:
    """bfloat16 add, multiply, compare, negate: in float32, rounded once."""
    binary, unary = InterpreterBuilder.binary_op, InterpreterBuilder.unary_op

    def binary_op(self: Any, lhs: Any, rhs: Any, op: Any) -> Any:
        if not (_is_bf16(lhs) and _is_bf16(rhs)):
            return binary(self, lhs, rhs, op)
        result = op(bf16_to_f32(lhs.data), bf16_to_f32(rhs.data))
        if result.dtype == np.bool_:
            return TensorHandle(result, tl.int1)
        return TensorHandle(f32_to_bf16(result), tl.bfloat16)

    def unary_op(self: Any, arg: Any, op: Any) -> Any:
        if not _is_bf16(arg):
            return unary(self, arg, op)
        return TensorHandle(f32_to_bf16(op(bf16_to_f32(arg.data))), tl.bfloat16)

    InterpreterBuilder.binary_op, InterpreterBuilder.unary_op = binary_op, unary_op


def correct_bf16_casts() -> None:
    """Casts from and to bfloat16: through float32, to nearest even."""
    _convert_casts(lambda dtype: dtype == tl.bfloat16)
    InterpreterBuilder.get_bf16 = lambda self, value: TensorHandle(
        f32_to_bf16(np.array([value], dtype=np.float32)), tl.bfloat16
    )


def correct_float8_casts() -> None:
    """Casts from and to the 8-bit floats e4m3 and e5m2: to nearest even, saturating."""
    _convert_casts(lambda dtype: dtype.name in _FLOAT8)


def correct_bf16_dot() -> None:
    """`tl.dot` of bfloat16 operands: exact products, summed in the accumulator's type."""
    _widen_dot(_is_bf16)


def correct_float8_dot() -> None:
    """`tl.dot` of 8-bit operands: exact products, summed in the accumulator's type."""
    _widen_dot(lambda handle: handle.dtype.scalar.name in _FLOAT8)


def correct_narrow_reductions() -> None:
    """Sums, minima, maxima and scans of bfloat16 by Triton's own functions: in float32, rounded at the end."""
    for operation in (ReduceOps, ScanOps):
        operation.apply_impl = _in_float32(operation.apply_impl)


def correct_slow_reductions() -> None:
    """`tl.reduce` and `tl.associative_scan` with a function of one's own: whole rows at a time, not element by element.

    A reduction combines neighbours pairwise, which keeps their order; the function is associative by contract.
    Functions that branch on values keep Triton's way, since a branch has no meaning for a row.
    """
    reduce_each, scan_each = ReduceOps.generic_reduce, ScanOps.generic_scan

    def generic_reduce(self: Any, inputs: Any) -> Any:
        return reduce_each(self, inputs) if _branches(self.combine_fn) else _pairwise_reduce(self, inputs)

    def generic_scan(self: Any, inputs: Any) -> Any:
        return scan_each(self, inputs) if _branches(self.combine_fn) else _serial_scan(self, inputs)

    ReduceOps.generic_reduce, ScanOps.generic_scan = generic_reduce, generic_scan


def correct_scalar_conditions() -> None:
    """A comparison of scalars stays a condition when it is spread over a tile, so that it can be part of a mask."""
    spread = InterpreterBuilder.create_splat

    def create_splat(self: Any, ret_ty: Any, arg: Any) -> Any:
        known = TensorHandle(arg.data, tl.int1) if arg.data.dtype == np.bool_ else arg
        return spread(self, ret_ty, known)

    InterpreterBuilder.create_splat = create_splat


def correct_scalar_index() -> None:
    """A scalar tensor as the bound of a loop, which NumPy 2.4 refuses to Triton 3.6."""
    patch_tensor = interpreter._patch_lang_tensor

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch_lang_tensor


def correct_loop_variables() -> None:
    """The variable of a loop over `tl.range` or `range` is a tensor of 32 bits (64 if a bound is), as when compiled."""
    patch_core, execute = interpreter._patch_lang_core, interpreter.FunctionRewriter._compile_and_exec

    def patch_lang_core(lang: Any, scope: Any) -> None:
        patch_core(lang, scope)
        scope.set_attr(lang, "range", _tensor_range)

    def compile_and_exec(self: Any, transformed: Any) -> Any:
        if self.fn.__module__.startswith(MODULE_PREFIX):
            self.fn.__globals__["range"] = _tensor_range
        return execute(self, transformed)

    interpreter._patch_lang_core = patch_lang_core
    interpreter.FunctionRewriter._compile_and_exec = compile_and_exec
    interpreter.InterpretedFunction.rewritten_fn.clear()


def correct_minmax_of_nan() -> None:
    """`tl.maximum` and `tl.minimum` by default return the operand that is no NaN."""
    InterpreterBuilder.create_maxnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmax)
    InterpreterBuilder.create_minnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmin)


def correct_fma() -> None:
    """`tl.fma` in float32 rounds once (by way of float64: a double rounding, which is rare, stays)."""
    fma = InterpreterBuilder.create_fma

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if z.data.dtype != np.float32:
            return fma(self, x, y, z)
        exact = x.data.astype(np.float64) * y.data.astype(np.float64)
        return TensorHandle((exact + z.data).astype(np.float32), z.dtype.scalar)

    InterpreterBuilder.create_fma = create_fma


def correct_bool_arguments() -> None:
    """A Python bool as a kernel argument."""
    convert = interpreter._implicit_cvt

    def implicit_cvt(arg: Any) -> Any:
        if isinstance(arg, bool):
            return tl.tensor(TensorHandle(np.array([arg], dtype=np.bool_), tl.int1), tl.int1)
        return convert(arg)

    interpreter._implicit_cvt = implicit_cvt


def correct_external_functions() -> None:
    """Functions of NVIDIA's math library that NumPy has too (`tl.extra.cuda.libdevice`)."""
    external, patch_lang = InterpreterBuilder.create_extern_elementwise, interpreter._patch_lang

    def create_extern_elementwise(
        self: Any, lib_name: str, lib_path: str, symbol: str, args: Any, result: Any, is_pure: bool
    ) -> Any:
        name = symbol.removeprefix("__nv_")
        function = _EXTERNAL.get(name) or _EXTERNAL.get(name.removesuffix("f"))
        if function is None:
            return external(self, lib_name, lib_path, symbol, args, result, is_pure)
        value = function(*(arg.data for arg in args))
        return TensorHandle(value.astype(args[0].data.dtype), args[0].dtype.scalar)

    def patch_with_libdevice(fn: Any) -> Any:
        scope = patch_lang(fn)
        interpreter._patch_builtin(tl.extra.cuda.libdevice, interpreter.interpreter_builder, scope)
        return scope

    InterpreterBuilder.create_extern_elementwise = create_extern_elementwise
    interpreter._patch_lang = patch_with_libdevice


def _is_bf16(handle: Any) -> bool:
    return handle.dtype.scalar == tl.bfloat16 and handle.data.dtype == np.uint16


def _convert_casts(concerns: Callable[[Any], bool]) -> None:
    """Let `_convert` do the casts from and to the element types that a correction concerns."""
    cast, convert = InterpreterBuilder.cast_impl, InterpreterBuilder.create_fp_to_fp

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        ours = concerns(src.dtype.scalar) or concerns(dst_type.scalar)
        return _convert(src, dst_type) if ours else cast(self, src, dst_type)

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        toward_zero = rounding_mode == interpreter._ir.ROUNDING_MODE.RTZ
        ours = concerns(src.dtype.scalar) or concerns(dst_type.scalar)
        return _convert(src, dst_type) if ours and not toward_zero else convert(self, src, dst_type, rounding_mode)

    InterpreterBuilder.cast_impl, InterpreterBuilder.create_fp_to_fp = cast_impl, create_fp_to_fp


def _widen_dot(concerns: Callable[[Any], bool]) -> None:
    """Widen the operands that a correction concerns to float32 before a dot."""
    dot = InterpreterBuilder.create_dot

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        wide = (_widen(x) if concerns(x) else x for x in (a, b))
        return dot(self, *wide, d, input_precision, max_num_imprecise_acc)

    InterpreterBuilder.create_dot = create_dot


def _widen(handle: Any) -> Any:
    """Return a handle of narrow floats in float32; others as they are."""
    if _is_bf16(handle):
        return TensorHandle(bf16_to_f32(handle.data), tl.float32)
    if (format8 := _FLOAT8.get(handle.dtype.scalar.name)) is not None:
        return TensorHandle(format8.decode(handle.data), tl.float32)
    return handle


def _convert(src: Any, dst_type: Any) -> Any:
    target = dst_type.scalar
    values = _widen(src).data
    if target == tl.bfloat16:
        return TensorHandle(f32_to_bf16(values.astype(np.float32)), target)
    if (format8 := _FLOAT8.get(target.name)) is not None:
        return TensorHandle(format8.encode(values.astype(np.float32)), target)
    return TensorHandle(values.astype(interpreter._get_np_dtype(target)), target)


def _in_float32(apply_impl: Callable[..., Any]) -> Callable[..., Any]:
    standard = tl.standard
    direct = ("_sum_combine", "_elementwise_max", "_elementwise_min", "_prod_combine")

    @functools.wraps(apply_impl)
    def apply(self: Any, inputs: Any) -> Any:
        known = any(self.combine_fn is getattr(standard, name, None) for name in direct)
        if not (known and _is_bf16(inputs[0].handle)):
            return apply_impl(self, inputs)
        wide = tuple(tl.tensor(_widen(t.handle), tl.block_type(tl.float32, list(t.shape))) for t in inputs)
        result = apply_impl(self, wide)
        narrow = [_narrow(t) for t in (result if isinstance(result, (list, tuple)) else [result])]
        return narrow if isinstance(result, (list, tuple)) else narrow[0]

    return apply


def _narrow(value: Any) -> Any:
    handle = _convert(value.handle, tl.bfloat16)
    return tl.tensor(handle, tl.block_type(tl.bfloat16, list(value.shape)) if value.shape else tl.bfloat16)


def _branches(combine: Any) -> bool:
    tree = ast.parse(textwrap.dedent(inspect.getsource(combine.fn)))
    return any(isinstance(node, _BRANCHES) for node in ast.walk(tree))


def _pairwise_reduce(self: Any, inputs: Any) -> Any:
    flat, axis = self.unravel(inputs, self.axis)
    shape = inputs[0].handle.data.shape
    parts = [np.moveaxis(part.handle.data, axis, 0) for part in flat]
    while len(parts[0]) > 1:
        parts = _combine(self, flat, [p[0::2] for p in parts], [p[1::2] for p in parts])
    results = [part[0] for part in parts]
    if self.keep_dims:
        kept = [1] * len(shape) if self.axis is None else [1 if i == axis else n for i, n in enumerate(shape)]
        results = [result.reshape(kept) for result in results]
    return [self.to_tensor(result, part.dtype) for result, part in zip(results, flat, strict=True)]


def _serial_scan(self: Any, inputs: Any) -> Any:
    parts = [np.moveaxis(part.handle.data, self.axis, 0) for part in inputs]
    rows = [[part[0:1] for part in parts]]
    for i in range(1, len(parts[0])):
        rows.append(_combine(self, inputs, rows[-1], [part[i : i + 1] for part in parts]))
    columns = [np.moveaxis(np.concatenate(column), 0, self.axis) for column in zip(*rows, strict=True)]
    return [self.to_tensor(np.ascontiguousarray(c), part.dtype) for c, part in zip(columns, inputs, strict=True)]


def _combine(self: Any, inputs: Any, left: list[Any], right: list[Any]) -> list[Any]:
    """Apply the combining function to two lists of equal arrays; the results have the inputs' types."""
    types = [part.dtype for part in inputs]
    sides = [self.to_tensor(np.ascontiguousarray(p), t) for s in (left, right) for p, t in zip(s, types, strict=True)]
    result = self.combine_fn.rewrite()(*sides)
    values = result if isinstance(result, tuple) else (result,)
    arrays = [v.handle.data if isinstance(v, tl.tensor) else np.asarray(v) for v in values]
    return [np.broadcast_to(a.astype(p.dtype), p.shape) for a, p in zip(arrays, left, strict=True)]


def _tensor_range(first: Any, last: Any = None, step: Any = None, **_: Any) -> Iterator[Any]:
    """Yield tensors. The keywords (`num_stages`, ...) concern the compiler alone."""
    start, stop = (0, first) if last is None else (first, last)
    stride = 1 if step is None else step
    wide = any(getattr(bound, "dtype", None) == tl.int64 for bound in (start, stop, stride))
    numpy_type, type_ = (np.int64, tl.int64) if wide else (np.int32, tl.int32)
    for value in range(start, stop, stride):
        yield tl.tensor(TensorHandle(np.array([value], dtype=numpy_type), type_), type_)
