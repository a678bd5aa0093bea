"""Small specs, one for each thing that a signature can have. Every kernel has a name of its own: names are global."""

ADD_INTO = """
kernel: ops_add_into
dtypes: {T: [f32, bf16]}
axes: {m: {extent: M}, i: {extent: N, tile: 16}}
tensors:
  r: {dims: [m, i], dtype: T}
  x: {dims: [m, i], dtype: T}
  d: {dims: [m, i], dtype: f32, out: true}
  y: {dims: [m, i], dtype: T, out: true, inplace: r}
compute: |
  d[m, i] = r[m, i] - x[m, i]
  y[m, i] = r[m, i] + x[m, i]
"""

ONLY_INPLACE = """
kernel: ops_scale_inplace
dtypes: {T: [f32]}
axes: {i: {extent: N, tile: 16}}
tensors:
  r: {dims: [i], dtype: T}
  y: {dims: [i], dtype: T, out: true, inplace: r}
params: {a: {dtype: f32}}
compute: y[i] = r[i] * a
"""

SHIFT = """
kernel: ops_shift
dtypes: {T: [f32, f16]}
axes: {i: {extent: N, tile: 16}}
tensors:
  x: {dims: [i], dtype: T}
  y: {dims: [N + 2], dtype: T, out: true, fill: 7}
compute: y[i + 1] = x[i]
"""

REPEAT = """
kernel: ops_repeat
doc: Copies a vector S times, scaled.
dtypes: {T: [f32]}
axes: {s: {extent: S}, i: {extent: N, tile: 16}}
tensors:
  x: {dims: [i], dtype: T}
  y: {dims: [s, i], dtype: T, out: true}
params:
  a: {dtype: f32, default: 1 / sqrt(N)}
  k: {dtype: i32, default: 3}
  twice: {dtype: bool, static: true, default: false}
compute: "y[s, i] = x[i] * a * where(twice, 2.0, 1.0) + k"
"""

TOTAL = """
kernel: ops_total
doc: The sum of a vector times a scalar tensor.
dtypes: {T: [f32]}
axes: {i: {extent: N, tile: 16, stream: true}}
tensors:
  x: {dims: [i], dtype: T}
  a: {dims: [], dtype: f32}
  s: {dims: [], dtype: f32, out: true}
compute: s[] = sum[i](x[i]) * a[]
"""

SPLIT = """
kernel: ops_split_sum
dtypes: {T: [f32]}
axes: {m: {extent: M}, n: {extent: N, tile: 16, stream: true, split: {count: auto}}}
tensors:
  x: {dims: [m, n], dtype: T}
  s: {dims: [m], dtype: f32, out: true}
compute: s[m] = sum[n](x[m, n])
"""

CONVOLUTION = """
kernel: ops_valid
dtypes: {T: [f32]}
axes:
  t: {extent: T_, tile: 16}
  w: {extent: W, in: [3, 5]}
tensors:
  x: {dims: [T_ + W - 1], dtype: T}
  f: {dims: [w], dtype: T}
  y: {dims: [t], dtype: T, out: true}
compute: y[t] = sum[w](x[t + w] * f[w])
"""

SOFTMAX = """
kernel: ops_softmax
dtypes: {T: [f32, bf16]}
axes: {m: {extent: M}, n: {extent: N, tile: full}}
tensors:
  x: {dims: [m, n], dtype: T}
  y: {dims: [m, n], dtype: T, out: true}
compute: y[m, n] = softmax[n](x[m, n])
"""

MATMUL = """
kernel: ops_matmul
dtypes: {T: [f32, f16]}
axes: {m: {extent: M, tile: 16}, n: {extent: N, tile: 16}, k: {extent: K, tile: 16, stream: true}}
tensors:
  x: {dims: [m, k], dtype: T}
  w: {dims: [k, n], dtype: T}
  y: {dims: [m, n], dtype: T, out: true}
layouts: {w: [n, k]}
compute: y[m, n] = sum[k](x[m, k] * w[k, n])
"""

HEADS = """
kernel: ops_heads
dtypes: {T: [f32]}
axes: {h: {extent: H}, i: {extent: N, tile: 16}}
sizes: {G: H // HK}
require: [H % HK == 0]
tensors:
  q: {dims: [h, i], dtype: T}
  k: {dims: [HK, i], dtype: T}
  y: {dims: [h, i], dtype: T, out: true}
compute: "y[h, i] = q[h, i] * k[h // G, i]"
"""

OUTPUT_FIRST = """
kernel: ops_difference
dtypes: {T: [f32]}
axes: {i: {extent: N, tile: 16}}
tensors:
  y: {dims: [i], dtype: T, out: true}
  b: {dims: [i], dtype: T}
  s: {dims: [i], dtype: T, out: true}
  a: {dims: [i], dtype: T}
compute: |
  y[i] = b[i] - a[i]
  s[i] = a[i] + b[i]
"""

ALL = (ADD_INTO, ONLY_INPLACE, SHIFT, REPEAT, TOTAL, SPLIT, CONVOLUTION, SOFTMAX, MATMUL, HEADS, OUTPUT_FIRST)
