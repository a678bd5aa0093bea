"""Where operations of a kernel under construction go: one block per enclosing loop, and what is known in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgen.ir import Op
from kgen.terms import Expr, Get, Pos, Start, Var, children


@dataclass
class Block:
    """The body of a loop over `axis` (None: the kernel's own), with the values computed in it so far."""

    axis: str | None
    ops: list[Op] = field(default_factory=list)
    values: dict[object, Expr] = field(default_factory=dict)


class Scopes:
    """The stack of open blocks. A value lives in the innermost block whose loop it depends on."""

    def __init__(self) -> None:
        self.stack = [Block(None)]
        self.depths: dict[Var, int] = {}

    @property
    def top(self) -> int:
        return len(self.stack) - 1

    def push(self, axis: str) -> None:
        """Open the body of a loop over `axis`."""
        self.stack.append(Block(axis))

    def pop(self) -> list[Op]:
        """Close the innermost block and return its operations; its values are forgotten."""
        block = self.stack.pop()
        for var, depth in list(self.depths.items()):
            if depth > self.top:
                del self.depths[var]
        return block.ops

    def depth_of_axis(self, axis: str) -> int:
        """Return the depth of the loop over `axis`, 0 if there is none."""
        return next((i for i, b in enumerate(self.stack) if b.axis == axis), 0)

    def depth(self, e: Expr) -> int:
        """Return the depth of the innermost loop the (lowered) expression depends on."""
        match e:
            case Pos(axis=axis) | Start(axis=axis):
                return self.depth_of_axis(axis)
            case Get(var=var):
                return self.depths.get(var, 0)
            case _:
                return max((self.depth(c) for c in children(e)), default=0)

    def emit(self, depth: int, op: Op) -> None:
        self.stack[depth].ops.append(op)

    def define(self, var: Var, depth: int) -> None:
        self.depths[var] = depth

    def known(self, key: object) -> Expr | None:
        """Return the value remembered under `key` in any open block."""
        return next((b.values[key] for b in reversed(self.stack) if key in b.values), None)

    def remember(self, key: object, value: Expr, depth: int) -> None:
        self.stack[depth].values[key] = value
