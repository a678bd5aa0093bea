"""For every accumulator record a spec that uses all its results over an axis that is split into parts."""

from __future__ import annotations

from kgen.spec import Spec, load

STREAM = "n: {extent: N, tile: 16, stream: true, split: {count: COUNT}}"
AXES = f"axes: {{m: {{extent: M, tile: 16}}, {STREAM}, e: {{extent: E, in: [16]}}}}\n"
TENSORS = (
    "tensors: {x: {dims: [m, n], dtype: f32}, v: {dims: [n, e], dtype: f32}, sink: {dims: [m], dtype: f32}, OUT}\n"
)
SOFTMAX = {
    "o": ("[m, e]", "f32", "sum[n](softmax[n](x[m, n]) * v[n, e])"),
    "l": ("[m]", "f32", "logsumexp[n](x[m, n])"),
    "t": ("[m]", "f32", "max[n](x[m, n])"),
}
USES = {
    "online_softmax": (SOFTMAX, "{softmax: online_softmax, logsumexp: online_softmax, max: online_softmax}"),
    "online_softmax_sink": (
        {"o": SOFTMAX["o"], "l": SOFTMAX["l"]},
        "{softmax: USE, logsumexp: USE}".replace("USE", '{use: online_softmax_sink, sink: "sink[m]"}'),
    ),
    "welford": (
        {"a": ("[m]", "f32", "mean[n](x[m, n])"), "b": ("[m]", "f32", "var[n](x[m, n])")},
        "{mean: welford, var: welford}",
    ),
    "argmax": ({"i": ("[m]", "i64", "argmax[n](x[m, n])"), "t": ("[m]", "f32", "max[n](x[m, n])")}, "{max: argmax}"),
    "any": ({"b": ("[m]", "bool", "any[n](x[m, n] > 1)")}, "{any: any}"),
    "all": ({"b": ("[m]", "bool", "all[n](x[m, n] > 1)")}, "{all: all}"),
} | {
    name: ({"y": ("[m]", "f32", f"{name}[n](x[m, n])")}, f"{{{name}: {name}}}")
    for name in ("sum", "mean", "max", "min")
}


def spec_of(name: str, parts: int | str) -> Spec:
    """Return the spec of a record with the axis n split into `parts`."""
    outputs, chosen = USES[name]
    tensors = ", ".join(f"{t}: {{dims: {dims}, dtype: {dtype}, out: true}}" for t, (dims, dtype, _) in outputs.items())
    lines = [f"  {t}{dims} = {e}" for t, (dims, _, e) in outputs.items()]
    uses_v = any("v[n, e]" in line for line in lines)
    inputs = TENSORS if "sink" in name else TENSORS.replace("sink: {dims: [m], dtype: f32}, ", "")
    inputs = inputs if uses_v else inputs.replace("v: {dims: [n, e], dtype: f32}, ", "")
    axes = AXES if uses_v else AXES.replace(", e: {extent: E, in: [16]}", "")
    compute = "compute: |\n" + "\n".join(lines) + "\n"
    head = f"kernel: {name}_parts\n{axes.replace('COUNT', str(parts))}{inputs.replace('OUT', tensors)}"
    return load(f"{head}{compute}accumulate: {chosen}\n")
