"""Predicates over (m, n) as text of a spec, as a dense mask, and by the documented rule for hulls and interiors."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Affine:
    """a * n + b * m + c <= 0 (a is not 0)."""

    a: int
    b: int
    c: int

    @property
    def text(self) -> str:
        return f"{self.a} * n + {self.b} * m + {self.c} <= 0"

    def dense(self, rows: int, columns: int) -> Mask:
        m, n = np.ogrid[:rows, :columns]
        return np.asarray(self.a * n + self.b * m + self.c <= 0)

    def rule(self, rows: range, columns: int) -> tuple[Mask, Mask]:
        """Return the positions n inside the hull of one interval for each row, and those that hold for every row."""
        part = self.dense(rows.stop, columns)[rows.start :]
        return part.any(0), part.all(0)


@dataclass(frozen=True)
class Joined:
    """`left and right`, or `left or right`."""

    word: str
    left: Predicate
    right: Predicate

    @property
    def text(self) -> str:
        return f"({self.left.text}) {self.word} ({self.right.text})"

    def dense(self, rows: int, columns: int) -> Mask:
        left, right = self.left.dense(rows, columns), self.right.dense(rows, columns)
        return left & right if self.word == "and" else left | right

    def rule(self, rows: range, columns: int) -> tuple[Mask, Mask]:
        """Hulls and interiors are joined alike."""
        (h1, i1), (h2, i2) = self.left.rule(rows, columns), self.right.rule(rows, columns)
        return (h1 & h2, i1 & i2) if self.word == "and" else (h1 | h2, i1 | i2)


@dataclass(frozen=True)
class Negated:
    """not inner"""

    inner: Predicate

    @property
    def text(self) -> str:
        return f"not ({self.inner.text})"

    def dense(self, rows: int, columns: int) -> Mask:
        return ~self.inner.dense(rows, columns)

    def rule(self, rows: range, columns: int) -> tuple[Mask, Mask]:
        """What can fail is what does not always hold, and the other way round."""
        hull, interior = self.inner.rule(rows, columns)
        return ~interior, ~hull


Predicate = Affine | Joined | Negated


def random_predicate(generator: random.Random, depth: int = 2) -> Predicate:
    if depth == 0 or generator.random() < 0.25:
        a = generator.choice((-2, -1, 1, 1, 2))
        return Affine(a, generator.choice((-3, -2, -1, 0, 1, 2)), generator.randint(-40, 40))
    if generator.random() < 0.25:
        return Negated(random_predicate(generator, depth - 1))
    word = generator.choice(("and", "or"))
    return Joined(word, random_predicate(generator, depth - 1), random_predicate(generator, depth - 1))
