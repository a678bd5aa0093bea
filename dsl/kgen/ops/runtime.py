"""Runs a generated op: binds a call's sizes, picks or compiles the variant for it, launches, and registers with torch.

Importing a generated package and launching its packaged variants needs none of sympy, lark and pydantic; only variants
that are not packaged, and CPU tensors, bring in the compiler.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kgen.errors import KgenError
from kgen.ops.execute import Backend, evaluate, execute
from kgen.ops.key import Key, bucket, memory_key
from kgen.ops.plan import LaunchPlan

BACKENDS = ("triton", "cuda")


@dataclass(frozen=True)
class Bound:
    """What a call's arguments fix: sizes, parameters and the choice of each type variable."""

    sizes: dict[str, int]
    params: dict[str, Any]
    dtypes: dict[str, str]


Bind = Callable[..., Bound]
_REGISTERED: dict[str, tuple[str, Op]] = {}
_LIBRARY = torch.library.Library("kgen", "FRAGMENT")


class Op:
    """One generated operator. `folder` holds its manifest and texts; `bind` is the generated argument check."""

    def __init__(self, folder: Path, bind: Bind) -> None:
        self.folder, self.bind = folder, bind
        self.manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
        self.name: str = self.manifest["name"]
        self.inputs: list[dict[str, Any]] = [t for t in self.manifest["tensors"] if not t["out"]]
        self.outputs: list[dict[str, Any]] = [t for t in self.manifest["tensors"] if t["out"]]
        self.backend = os.environ.get("KGEN_BACKEND", "triton")
        self._variants: dict[tuple[Key, str, int], tuple[LaunchPlan, Backend]] = {}
        self._compiling = threading.Lock()

    # -- a call

    def run(self, *args: Any, backend: str | None = None) -> Any:
        """Run on CUDA tensors. Returns the outputs (a tensor, or a tuple in the spec's order)."""
        bound = self.bind(*args)
        tensors = self._tensors(args, bound)
        env = {**bound.sizes, **bound.params}
        plan, runner = self._variant(self.key(tensors, bound), backend or self.backend, args[0].device.index or 0)
        execute(plan, tensors, env, runner)
        return self._returned(tensors)

    def eager(self, *args: Any) -> Any:
        """Run on CPU tensors: the spec's math, evaluated densely in float64."""
        bound = self.bind(*args)
        from kgen.ops.on_demand import evaluate_on_cpu  # the compiler, wanted only here

        tensors = self._tensors(args, bound)
        given = {t["name"]: tensors[t["name"]] for t in self.inputs}
        for name, value in evaluate_on_cpu(self.folder, bound, given).items():
            tensors[name].copy_(value)
        return self._returned(tensors)

    def fake(self, *args: Any) -> Any:
        """Return outputs of the right shape and type, for tracing."""
        return self._returned(self._tensors(args, self.bind(*args)))

    def _tensors(self, args: tuple[Any, ...], bound: Bound) -> dict[str, Tensor]:
        tensors = {t["name"]: a for t, a in zip(self.inputs, args, strict=False)}
        device = args[0].device
        for t in self.outputs:
            if t["inplace"] is not None:
                tensors[t["name"]] = tensors[t["inplace"]]
                continue
            shape = [evaluate(d, bound.sizes) for d in t["dims"]]
            dtype = getattr(torch, t["torch"].get(bound.dtypes.get(t["dtype"], ""), t["torch"].get("")))
            make = torch.zeros if t["fill"] is not None else torch.empty
            tensors[t["name"]] = make(shape, dtype=dtype, device=device)
        return tensors

    def _returned(self, tensors: dict[str, Tensor]) -> Any:
        made = [tensors[t["name"]] for t in self.outputs if t["inplace"] is None]
        return made[0] if len(made) == 1 else tuple(made)

    # -- variants

    def key(self, tensors: dict[str, Tensor], bound: Bound) -> Key:
        """Return the specialisation key of a call."""
        listed = [(t["name"], tensors[t["name"]], tuple(t["fast"])) for t in self.manifest["tensors"]]
        units, aligned, offset = memory_key(listed)
        static = tuple((s, bound.sizes[s]) for s in self.manifest["static_sizes"])
        params = tuple((p, bound.params[p]) for p in self.manifest["static_params"])
        full = self.manifest["full_axes"].items()
        buckets = tuple((a, bucket(evaluate(text, bound.sizes))) for a, text in full)
        return Key(tuple(bound.dtypes.items()), static, params, units, aligned, offset, buckets)

    def _variant(self, key: Key, backend: str, device: int) -> tuple[LaunchPlan, Backend]:
        found = self._variants.get((key, backend, device))
        if found is None:
            with self._compiling:
                found = self._variants.get((key, backend, device)) or self._prepare(key, backend, device)
                self._variants[key, backend, device] = found
        return found

    def _prepare(self, key: Key, backend: str, device: int) -> tuple[LaunchPlan, Backend]:
        if backend not in BACKENDS:
            raise KgenError(f"unknown backend '{backend}' (backends are {', '.join(BACKENDS)})")
        from kgen.ops import prepare  # compilers and launchers, wanted only at the first call of a variant

        arch = "sm_%d%d" % torch.cuda.get_device_capability(device)
        for v in self.manifest["variants"]:
            if Key.from_json(v["key"]) == key and backend in v:
                plan = LaunchPlan.from_json(v[backend]["launch"])
                return plan, prepare.packaged(self.folder / v[backend]["file"], plan, backend, arch)
        from kgen.ops import on_demand

        return on_demand.compile_variant(self.folder, key, backend, arch)

    # -- torch

    def register(self) -> Op:
        """Register `torch.ops.kgen.<name>` once; KgenError if another spec has taken the name in this process."""
        taken = _REGISTERED.get(self.name)
        if taken is not None:
            if taken[0] != self.manifest["spec_hash"]:
                raise KgenError(
                    f"an op named '{self.name}' made from another spec is loaded already (from {taken[1].folder}); "
                    "rename one of the kernels or use two processes"
                )
            return taken[1]
        _LIBRARY.define(self.manifest["schema"])
        _LIBRARY.impl(self.name, self.run, "CUDA")
        _LIBRARY.impl(self.name, self.eager, "CPU")
        torch.library.register_fake(f"kgen::{self.name}", self.fake, lib=_LIBRARY)
        _REGISTERED[self.name] = (self.manifest["spec_hash"], self)
        return self

    def __call__(self, *args: Any) -> Any:
        return getattr(torch.ops.kgen, self.name)(*args)
