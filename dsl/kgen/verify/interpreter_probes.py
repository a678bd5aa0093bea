# mypy: disable-error-code="no-untyped-def"
"""Small kernels that show whether Triton's interpreter computes as a GPU does. Loaded by `interpreter.py`."""

import triton
import triton.language as tl


@triton.jit
def narrow_arithmetic(a, b, out, compared, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(out + i, -(x * y) + x)
    tl.store(compared + i, x > y)


@triton.jit
def cast(source, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(source + i).to(out.dtype.element_ty))


@triton.jit
def constant(out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.full([N], 1.00390625, tl.bfloat16))


@triton.jit
def dot(a, b, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    product = tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j), input_precision="ieee")
    tl.store(out + i * N + j, product)


@triton.jit
def reductions(a, sums, tops, scans, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(a + i * N + j)
    tl.store(sums + tl.arange(0, N), tl.sum(x, axis=1).to(tl.float32))
    tl.store(tops + tl.arange(0, N), tl.max(x, axis=1).to(tl.float32))
    tl.store(scans + i * N + j, tl.cumsum(x, axis=1).to(tl.float32))


@triton.jit
def merge_softmax(m1, l1, m2, l2):
    m = tl.maximum(m1, m2)
    return m, l1 * tl.exp2(m1 - m) + l2 * tl.exp2(m2 - m)


@triton.jit
def softmax_state(a, tops, sums, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(a + i * N + j)
    m, l = tl.reduce((x, tl.full([N, N], 1.0, tl.float32)), 1, merge_softmax)  # noqa: E741
    tl.store(tops + tl.arange(0, N), m)
    tl.store(sums + tl.arange(0, N), l)


@triton.jit
def compose(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def recurrence(a, b, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    at = i * N + j
    _, state = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 1, compose)
    tl.store(out + at, state)


@triton.jit
def loop(out, bound, step):
    count = tl.zeros([1], tl.int64)
    for n in tl.range(0, bound, step):
        count += n.to(tl.int64)
    for n in range(bound):
        count += n.to(tl.int64)
    tl.store(out + tl.arange(0, 1), count)


@triton.jit
def bounded_loop(out, bound):
    count = 0
    for _ in range(bound):
        count += 1
    tl.store(out, count)


@triton.jit
def minmax(a, b, tops, bottoms, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(a + i), tl.load(b + i)
    tl.store(tops + i, tl.maximum(x, y))
    tl.store(bottoms + i, tl.minimum(x, y))


@triton.jit
def fma(a, b, c, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.fma(tl.load(a + i), tl.load(b + i), tl.load(c + i)))


@triton.jit
def bool_argument(out, flag):
    tl.store(out, tl.where(flag, 1, 2))


@triton.jit
def scalar_condition(out, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, 7, mask=(i < N // 2) & (tl.program_id(0) * flag == 0))


@triton.jit
def power(a, b, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.extra.cuda.libdevice.pow(tl.load(a + i), tl.load(b + i)))


@triton.jit
def masked_copy(a, out, n, offset, N: tl.constexpr):
    i = tl.arange(0, N)
    inside = i < n
    tl.store(out + i + offset, tl.load(a + i + offset, mask=inside, other=0), mask=inside)
    tl.store(out + i, tl.load(a + i, mask=inside, other=0), mask=inside)


@triton.jit
def wide_product(out, a, b):
    tl.store(out, tl.full([], a, tl.int32).to(tl.int64) * b)
    tl.store(out + 1, (tl.full([], a, tl.int32) * tl.full([], b, tl.int32)).to(tl.int64))
    tl.store(out + 2, (-7 + tl.full([], 0, tl.int32)) // 2)
    tl.store(out + 3, (-7 + tl.full([], 0, tl.int32)) % 2)


@triton.jit
def row_max(a, out, N: tl.constexpr):
    tl.store(out, tl.max(tl.load(a + tl.arange(0, N)), axis=0))
