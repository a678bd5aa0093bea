"""Test inputs from the contracts of a spec's tensors (`values`), seeded, of several kinds.

typical   what the contract says, contiguous, between bands of poison (as all but strided are)
integers  small integers in float tensors: exact in every order of summation, with many ties
huge      floats of the size of 100 (10,000 if there is one float tensor), contracts at the ends of their range
infinite  typical, with -inf where every reduction that reads the tensor allows it: single elements, and a whole row
nan       likewise with single NaNs
strided   typical values in transposed, offset, expanded or gapped storage; gaps hold NaN or the largest integer
"""

from __future__ import annotations

import math as numbers
from collections.abc import Mapping

import torch
from torch import Tensor

from kgen import terms
from kgen.accumulators import load_records
from kgen.errors import KgenError
from kgen.math import Math
from kgen.math import Tensor as TensorDef
from kgen.verify.binding import Scalar, Sizes, bind, number
from kgen.verify.layouts import BAND, contiguous_strides, embed, strided

KINDS = ("typical", "integers", "huge", "infinite", "nan", "strided")
SPECIAL = {"infinite": float("-inf"), "nan": float("nan")}


def make(
    math: Math, sizes: Mapping[str, int], params: Mapping[str, Scalar], seed: int, *, kind: str = "typical"
) -> dict[str, Tensor]:
    """Return every input tensor of a call, by name; equal arguments give equal bits."""
    if kind not in KINDS:
        raise KgenError(f"no inputs of kind '{kind}'")
    call = bind(math, sizes, params)
    generator = torch.Generator().manual_seed(seed)
    marked = special_tensors(math, kind) if kind in SPECIAL else frozenset()
    overwritten = {t.inplace for t in math.tensors.values()}
    found: dict[str, Tensor] = {}
    for turn, tensor in enumerate(t for t in math.tensors.values() if not t.out):
        values = _Draw(math, tensor, call, kind, generator).tensor()
        if tensor.name in marked:
            _mark(values, SPECIAL[kind], generator)
        if kind == "strided":
            expandable = _is_free(tensor) and tensor.name not in overwritten
            found[tensor.name] = strided(values, turn + seed, expandable=expandable)
        else:
            found[tensor.name] = embed(values, contiguous_strides(values.shape), BAND, BAND)
    return found


def special_tensors(math: Math, kind: str) -> frozenset[str]:
    """Return the tensors that may hold -inf ("infinite") or NaN ("nan"): read directly by reductions that allow it."""
    word = {"infinite": "-inf", "nan": "nan"}[kind]
    allowed: set[str] = set()
    refused: set[str] = set()
    for reduce in _reductions(math):
        read = {n.tensor for n in terms.walk(_inlined(math, reduce.arg)) if isinstance(n, terms.Load)}
        plain = _summands(_inlined(math, reduce.arg))
        fits = word in load_records(math.records)[reduce.record].domain
        direct = {t.tensor for t in plain if isinstance(t, terms.Load) and t.dtype.is_float} if fits else set()
        allowed |= direct
        refused |= read - direct
    return frozenset(allowed - refused)


def _reductions(math: Math) -> list[terms.Reduce]:
    return [n for s in math.statements for n in terms.walk(s.expr) if isinstance(n, terms.Reduce)]


def _inlined(math: Math, e: terms.Expr) -> terms.Expr:
    return terms.rewrite(e, lambda n: _inlined(math, math.statement(n.name).expr) if isinstance(n, terms.Ref) else None)


def _summands(e: terms.Expr) -> list[terms.Expr]:
    if isinstance(e, terms.Apply) and e.fn == "add":
        return [t for arg in e.args for t in _summands(arg)]
    return _summands(e.arg) if isinstance(e, terms.Cast) else [e]


def _is_free(tensor: TensorDef) -> bool:
    """Is there no contract between a tensor's elements?"""
    return all(name in ("normal", "finite", "uniform") for name, _ in tensor.values.parts)


def _mark(values: Tensor, special: float, generator: torch.Generator) -> None:
    """Put `special` at one element in ten, and for -inf in the whole first row as well."""
    at = torch.rand(values.shape, generator=generator) < 0.1
    values[at] = special
    if special < 0 and values.ndim > 1 and values.shape[0] > 1:
        values[0] = special


class _Draw:
    """Draws one tensor."""

    def __init__(self, math: Math, tensor: TensorDef, call: Sizes, kind: str, generator: torch.Generator) -> None:
        self.math = math
        self.dtype = tensor.dtype
        self.parts = tensor.values.parts
        self.call = call
        self.kind = kind
        self.generator = generator
        self.shape = call.shapes[tensor.name]
        self.count = numbers.prod(self.shape)

    def tensor(self) -> Tensor:
        """Return the union of the parts: the first that is no literal, and each literal at some elements."""
        literals = [args[0] for name, args in self.parts if name == "literal"]
        main = [(name, args) for name, args in self.parts if name != "literal"]
        values = self._part(*main[0]) if main else torch.zeros(self.count, dtype=torch.float64)
        for turn, literal in enumerate(literals):
            share = 1.0 if not main and turn == 0 else 0.25
            at = torch.rand(self.count, generator=self.generator) < share
            if self.count > 1 and share < 1:
                at[turn % self.count] = True
            values = torch.where(at, float(self._number(literal)), values)
        return values.to(getattr(torch, self.dtype.torch)).reshape(self.shape)

    def _part(self, name: str, args: tuple[terms.Expr, ...]) -> Tensor:
        """Return `count` values of one alternative, in float64."""
        match name:
            case "normal" | "finite":
                return self._normal()
            case "uniform":
                return self._uniform(float(self._number(args[0])), float(self._number(args[1])))
            case "index":
                return self._integers(0, int(self._number(args[0])) - 1)
            case "lengths":
                return self._integers(0, int(self._number(args[0])))
            case "permutation":
                return self._permutation(int(self._number(args[0])))
            case "offsets":
                return self._offsets(int(self._number(args[0])))
            case "bool":
                return self._bools(float(self._number(args[0])))
            case _:
                raise KgenError(f"{self.math.name}: no generator for values '{name}'")

    def _number(self, e: terms.Expr) -> Scalar:
        return number(self.math, e, self.call.sizes, self.call.params)

    def _normal(self) -> Tensor:
        if self.kind == "integers" or not self.dtype.is_float:
            return self._randint(-3, 3)
        scale = 1.0
        if self.kind == "huge":
            floats = sum(t.dtype.is_float for t in self.math.tensors.values() if not t.out)
            scale = 1e4 if floats == 1 else 100.0
        return scale * torch.randn(self.count, generator=self.generator, dtype=torch.float64)

    def _uniform(self, low: float, high: float) -> Tensor:
        if not self.dtype.is_float:
            return self._integers(int(low), int(high))
        if self.kind == "huge":
            return torch.where(self._coin(0.5), low, high).to(torch.float64)
        if self.kind == "integers" and numbers.floor(high) >= numbers.ceil(low):
            return self._randint(numbers.ceil(low), numbers.floor(high))
        return low + (high - low) * torch.rand(self.count, generator=self.generator, dtype=torch.float64)

    def _integers(self, low: int, high: int) -> Tensor:
        """Return integers from `low` to `high`, only these two if the ends are asked for."""
        if self.kind == "huge":
            return torch.where(self._coin(0.5), low, max(low, high)).to(torch.float64)
        return self._randint(low, high)

    def _randint(self, low: int, high: int) -> Tensor:
        found = torch.randint(low, max(low, high) + 1, (self.count,), generator=self.generator)
        return found.to(torch.float64)

    def _permutation(self, n: int) -> Tensor:
        """Return distinct values below `n` while there are any."""
        order = torch.randperm(max(n, 1), generator=self.generator)
        return order[torch.arange(self.count) % max(n, 1)].to(torch.float64)

    def _offsets(self, total: int) -> Tensor:
        """Return ascending offsets from 0 to `total`, with an empty part if there are two parts or more."""
        cuts = torch.randint(0, total + 1, (max(self.count - 2, 0),), generator=self.generator).sort().values
        if len(cuts) > 1:
            cuts[1] = cuts[0]
        full = torch.cat([torch.tensor([0]), cuts, torch.tensor([total])])
        return full[: self.count].to(torch.float64)

    def _bools(self, share: float) -> Tensor:
        """Return true with probability `share`; at the ends, false throughout the first half."""
        found = self._coin(share)
        if self.kind == "huge":
            found[: self.count // 2] = False
        return found.to(torch.float64)

    def _coin(self, share: float) -> Tensor:
        return torch.rand(self.count, generator=self.generator) < share
