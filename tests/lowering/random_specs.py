"""Random specs: nested reductions, guards and products over three axes of any role."""

from __future__ import annotations

import random

TENSORS = {"a": "mk", "b": "kn", "c": "mn", "d": "k", "e": "m", "g": "nk"}
WALKED = ("tile: 16, stream: true", "tile: 32, stream: true", "tile: 8, stream: true", "tile: full", "in: [16, 24]")
FUNCTIONS = ("abs({})", "tanh({})", "max({}, 0.25)", "where({} > 0, 1.5, 0.5)")
REDUCTIONS = ("sum", "sum", "sum", "max", "min", "mean", "logsumexp")


def random_spec(seed: int) -> str:
    """Return the text of a spec; some are refused, as reductions over an axis of the grid are."""
    return _Random(random.Random(seed)).spec()


class _Random:
    def __init__(self, generator: random.Random) -> None:
        self.pick, self.chance = generator.choice, lambda p: generator.random() < p

    def spec(self) -> str:
        outputs = self.pick(("m", "mn", "m"))
        axes = {"m": "tile: 16", "n": "tile: 16" if "n" in outputs else self.pick(WALKED), "k": self.pick(WALKED)}
        lines = [f"  y[{', '.join(outputs)}] = {self.expr(outputs, 3)}"]
        if self.chance(0.5):
            lines.append(f"  z[m] = {self.expr('m', 3)}")
        body = "\n".join(lines)
        used = [t for t in TENSORS if any(f"{before}{t}[" in body for before in " (")]
        tensors = [f"{t}: {{dims: [{', '.join(TENSORS[t])}], dtype: {self.pick(('f32', 'f16'))}}}" for t in used]
        if "keep[" in body:
            tensors.append("keep: {dims: [k], dtype: bool, values: bool(0.6)}")
        tensors.append(f"y: {{dims: [{', '.join(outputs)}], dtype: f32, out: true}}")
        if len(lines) > 1:
            tensors.append("z: {dims: [m], dtype: f32, out: true}")
        extents = ", ".join(f"{a}: {{extent: {a.upper()}, {v}}}" for a, v in axes.items() if f"{a}" in self.named(body))
        empty = f"conventions: {{empty: {self.pick(('zero', 'nan'))}}}"
        return f"kernel: random\naxes: {{{extents}}}\ntensors: {{{', '.join(tensors)}}}\ncompute: |\n{body}\n{empty}\n"

    def named(self, body: str) -> set[str]:
        """Return the axes that the statements use."""
        words = "".join(c if c.isalnum() else " " for c in body).split()
        return {a for a in "mnk" if a in words}

    def expr(self, free: str, depth: int) -> str:
        if depth == 0 or self.chance(0.2):
            return self.leaf(free)
        if self.chance(0.4):
            return f"({self.expr(free, depth - 1)} {self.pick('+-**')} {self.expr(free, depth - 1)})"
        if self.chance(0.2):
            return self.pick(FUNCTIONS).format(self.expr(free, depth - 1))
        return self.reduction(free, depth)

    def leaf(self, free: str) -> str:
        fitting = [t for t, axes in TENSORS.items() if set(axes) <= set(free)]
        if not fitting or self.chance(0.15):
            return self.pick(("0.5", "1.25"))
        name = self.pick(fitting)
        return f"{name}[{', '.join(TENSORS[name])}]"

    def reduction(self, free: str, depth: int) -> str:
        others = [a for a in "mkn" if a not in free]
        if not others:
            return self.leaf(free)
        axis = self.pick(others)
        inner = "".join(a for a in "mkn" if a in free or a == axis)
        guard = f" if {self.guard(axis, inner)}" if self.chance(0.4) else ""
        name, body = self.pick(REDUCTIONS), self.expr(inner, depth - 1)
        if name == "sum" and not guard and self.chance(0.5):
            body = f"softmax[{axis}]({self.expr(inner, depth - 1)}) * {body}"
        return f"{name}[{axis}{guard}]({body})"

    def guard(self, axis: str, free: str) -> str:
        others = [a for a in free if a != axis]
        found = [f"{axis} % 3 != 1", f"{axis} < 9", "keep[k]" if axis == "k" else f"{axis} >= 2"]
        found += [g for a in others for g in (f"{axis} <= {a}", f"{axis} + {a} > 5")]
        if len(others) == 2:
            found.append(f"({axis} + {others[0]} - {others[1]}) % 2 == 0")
        both = f" and {self.pick(found)}" if self.chance(0.3) else ""
        return self.pick(found) + both
