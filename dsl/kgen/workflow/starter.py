"""New: a small spec to start from."""

from __future__ import annotations

from pathlib import Path

from kgen.errors import KgenError
from kgen.spec_names import reason_against

TEMPLATE = """\
# {name}: a kernel to start from. Change it, then run: kgen build {name}.yaml
kernel: {name}
doc: Each row of x, scaled to a root mean square of 1 and multiplied by w.

# T is a type variable: one kernel for each type it can be. 16-bit floats are loaded, computed in f32 and stored back.
dtypes: {{T: [bf16, f16, f32]}}

# Axes have a name and an extent. m gives one row to each program; n is walked inside a program, 1024 positions at a
# time, because y needs a reduction over it.
axes:
  m: {{extent: M}}
  n: {{extent: N, tile: 1024, stream: true}}

# dims are extents; an axis stands for its own. M and N are found from the shapes at a call.
tensors:
  x: {{dims: [m, n], dtype: T}}
  w: {{dims: [n], dtype: T}}
  y: {{dims: [m, n], dtype: T, out: true}}

params:
  eps: {{dtype: f32, default: 1e-6}}

# r is an intermediate: its axis, m, is found from what it reads. It is computed once and stays in registers.
# reduction[axis](expression) reduces; others are sum, max, min, mean, var, softmax, logsumexp, argmax, any and all.
compute: |
  r = rsqrt(mean[n](x[m, n] * x[m, n]) + eps)
  y[m, n] = x[m, n] * r * w[n]

# What `kgen build` makes and verifies. Other types are compiled when they are first called.
variants: [{{T: bf16}}, {{T: f32}}]
"""


def write_starter(name: str, folder: Path) -> Path:
    """Write `<name>.yaml` into a folder and return its path; raise KgenError for a bad name or a file that exists."""
    name = name.removesuffix(".yaml")
    reason = reason_against(name)
    if reason is not None:
        raise KgenError(f"NAME: {reason}")
    path = folder / f"{name}.yaml"
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        raise KgenError(f"'{path}' exists already and was left as it is; choose another name or move it away") from None
    try:
        with file:
            file.write(TEMPLATE.format(name=name))
    except OSError:
        path.unlink()  # half a spec is worse than none
        raise
    return path
