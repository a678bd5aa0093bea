"""Runs a generated op: binds a call's sizes, picks or compiles the variant for it, and launches it.

Importing a generated package and launching its packaged variants needs none of sympy, lark and pydantic; only variants
that are not packaged, and CPU tensors, bring in the compiler.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kgen.ops import checks
from kgen.ops.execute import Launcher, function, listed
from kgen.ops.key import Key, bucket, memory_key
from kgen.ops.registry import register
from kgen.ops.variants import Ready, known_backend, ready_on_gpu

DEFAULT_BACKEND = "triton"  # until both are measured on a machine
ENVIRONMENT = "KGEN_BACKEND"


class Bound(NamedTuple):
    """The arguments of a call: inputs, values of all sizes, choices of the type variables, parameters as given."""

    inputs: tuple[Tensor, ...]
    sizes: tuple[int, ...]
    types: tuple[str, ...]
    given: tuple[Any, ...]
    backend: str | None


class Op:
    """One generated operator.

    `folder` holds its manifest and texts. The generated function `sizes` takes the inputs and the sizes that no shape
    binds, checks them, and returns (all sizes, type choices); `params` takes all sizes and the parameters given, and
    returns all parameters. Both return values in the order of the manifest. With `ready`, which stands in for
    `kgen.ops.variants.ready_on_gpu`, the op is private: it is not registered with torch.
    """

    def __init__(
        self,
        folder: Path,
        sizes: Callable[..., Any],
        params: Callable[..., Any] | None = None,
        *,
        ready: Callable[..., Ready] | None = None,
    ) -> None:
        self.folder, self.sizes, self.params, self._ready = folder, sizes, params, ready or ready_on_gpu
        self.manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self.name: str = self.manifest["name"]
        self.inputs = [t for t in self.manifest["tensors"] if not t["out"]]
        self.outputs = [t for t in self.manifest["tensors"] if t["out"]]
        self.names = [t["name"] for t in (*self.inputs, *self.outputs)]
        self.scalars: list[str] = [*self.manifest["sizes"], *self.manifest["params"]]
        self.backend = DEFAULT_BACKEND
        self.use(os.environ.get(ENVIRONMENT) or DEFAULT_BACKEND, ENVIRONMENT)
        self._prepare_call()
        self._launchers: dict[tuple[Any, ...], Launcher] = {}
        self._compiling = threading.Lock()
        if ready is None:
            register(self.name, self.manifest, self.run, self.eager, self.fake, folder)

    def use(self, backend: str, source: str = "backend") -> None:
        """Make "triton" or "cuda" the backend of the calls that choose none."""
        self.backend = known_backend(backend, source)

    def _prepare_call(self) -> None:
        """Compile what every call needs: places of arguments, shapes of outputs, the static parts of the key."""
        m = self.manifest
        self._first_param = len(self.inputs) + len(m["free_sizes"])
        self._after_params = self._first_param + len(m["params"])
        self._fast = [tuple(t["fast"]) for t in (*self.inputs, *self.outputs)]
        made = [t for t in self.outputs if t["inplace"] is None]
        self._shapes = function(m["sizes"], listed([listed(t["dims"]) for t in made]))
        self._made = [_Maker(t, m["types"]) for t in made]
        places = {t["name"]: i for i, t in enumerate(self.inputs)}
        self._overwritten = [(t["inplace"], places[t["inplace"]]) for t in self.outputs if t["inplace"] is not None]
        fresh = iter(range(len(self.inputs), len(self.names)))
        self._order = [next(fresh) if t["inplace"] is None else places[t["inplace"]] for t in self.outputs]
        full = [f"bucket({text})" for text in m["full_axes"].values()]
        self._static = function(
            self.scalars,
            listed([listed(m["static_sizes"]), listed(m["static_params"]), listed(full)]),
            {"bucket": bucket},
        )

    # -- a call

    def run(self, *args: Any) -> Any:
        """Run on CUDA tensors. Returns the outputs that overwrite no input: None, a tensor or a tuple."""
        bound = self._bound(args)
        index = bound.inputs[0].get_device()
        if index >= 0 and index != torch.cuda.current_device():
            with torch.cuda.device(index):
                return self._run(bound, index)
        return self._run(bound, index)

    def _run(self, bound: Bound, device: int) -> Any:
        scalars = self._scalars(bound)
        made = self._outputs(bound)
        tensors = self._all(bound.inputs, made)
        self._launcher(bound, tensors, scalars, device)(tensors, scalars)
        return _returned(made)

    def eager(self, *args: Any) -> Any:
        """Run on CPU tensors: the spec's math, evaluated densely in float64."""
        from kgen.ops.on_demand import evaluate_on_cpu  # the compiler, wanted only here

        bound = self._bound(args)
        scalars = self._scalars(bound)
        made = self._outputs(bound)
        tensors = dict(zip(self.names, self._all(bound.inputs, made), strict=True))
        inputs = {t["name"]: tensors[t["name"]] for t in self.inputs}
        values = dict(zip(self.scalars, scalars, strict=True))
        params = {name: values[name] for name in self.manifest["params"]}
        sizes = {name: values[name] for name in self.manifest["sizes"]}
        types = dict(zip(self.manifest["types"], bound.types, strict=True))
        for name, value in evaluate_on_cpu(self.folder, types, sizes, params, inputs).items():
            tensors[name].copy_(value)
        return _returned(made)

    def fake(self, *args: Any) -> Any:
        """Return outputs of the right shape and type, for tracing. Looks at shapes and types alone."""
        return _returned(self._outputs(self._bound(args)))

    def _bound(self, args: tuple[Any, ...]) -> Bound:
        first, after = self._first_param, self._after_params
        sizes, types = self.sizes(*args[:first])
        backend = args[after] if len(args) > after else None
        return Bound(args[: len(self.inputs)], sizes, types, args[first:after], backend)

    def _scalars(self, bound: Bound) -> tuple[Any, ...]:
        """Return sizes and parameters, and check what no tracing needs to know."""
        sizes = bound.sizes
        if sizes and max(sizes) > checks.SIZE_LIMIT:
            inputs = dict(zip(self.names, bound.inputs, strict=False))
            checks.refuse_wide(inputs, dict(zip(self.manifest["sizes"], sizes, strict=True)))
        for name, place in self._overwritten:
            checks.overwritten(name, bound.inputs[place], dict(zip(self.names, bound.inputs, strict=False)))
        if self.params is None:
            return sizes
        try:
            return (*sizes, *self.params(*sizes, *bound.given))
        except ArithmeticError as error:
            known = ", ".join(f"{k} = {v}" for k, v in zip(self.manifest["sizes"], sizes, strict=True))
            raise checks.ArgumentError(f"a default cannot be computed ({error}); give the parameter; {known}") from None

    def _outputs(self, bound: Bound) -> list[Tensor]:
        device = bound.inputs[0].device
        shapes = self._shapes(*bound.sizes)
        return [make(shape, bound.types, device) for make, shape in zip(self._made, shapes, strict=True)]

    def _all(self, inputs: Sequence[Tensor], made: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors in the order of `names`; an output that overwrites an input is that input."""
        if not self._overwritten:
            return [*inputs, *made]
        known = (*inputs, *made)
        return [*inputs, *(known[i] for i in self._order)]

    # -- variants

    def _launcher(self, bound: Bound, tensors: list[Tensor], scalars: tuple[Any, ...], device: int) -> Launcher:
        backend = bound.backend or self.backend
        static = self._static(*scalars)
        memory = memory_key(self._named(tensors))
        wanted = (backend, device, bound.types, static, memory)
        found = self._launchers.get(wanted)
        if found is None:
            key = self._key(bound.types, static, memory)
            with self._compiling:
                found = self._launchers.get(wanted) or self._made_ready(key, backend, device)
                self._launchers[wanted] = found
        return found

    def _named(self, tensors: list[Tensor]) -> list[tuple[str, Tensor, tuple[int, ...]]]:
        return list(zip(self.names, tensors, self._fast, strict=True))

    def _made_ready(self, key: Key, backend: str, device: int) -> Launcher:
        plan, runner, programs = self._ready(self.folder, self.manifest, key, backend, device)
        return Launcher(plan, self.names, self.scalars, runner, programs)

    def _key(self, types: tuple[str, ...], static: tuple[Any, ...], memory: tuple[Any, ...]) -> Key:
        """Return the key in the manifest's names and order."""
        m = self.manifest
        names = (m["static_sizes"], m["static_params"], m["full_axes"])
        sizes, params, buckets = (tuple(zip(n, v, strict=True)) for n, v in zip(names, static, strict=True))
        units, aligned, offset = memory
        places = {t["name"]: i for i, t in enumerate(m["tensors"])}
        units = tuple(sorted(units, key=lambda pair: places[pair[0]]))
        aligned = tuple(sorted(aligned, key=places.__getitem__))
        return Key(tuple(zip(m["types"], types, strict=True)), sizes, params, units, aligned, offset, buckets)

    def key(self, *args: Any) -> Key:
        """Return the specialisation key of a call."""
        bound = self._bound(args)
        tensors = self._all(bound.inputs, self._outputs(bound))
        memory = memory_key(self._named(tensors))
        return self._key(bound.types, self._static(*self._scalars(bound)), memory)


class _Maker:
    """Makes one output: contiguous, filled if the spec says so."""

    def __init__(self, tensor: dict[str, Any], types: list[str]) -> None:
        self.dtypes = {choice: getattr(torch, name) for choice, name in tensor["torch"].items()}
        self.variable = types.index(tensor["dtype"]) if tensor["dtype"] in types else None
        self.fill = tensor["fill"]

    def __call__(self, shape: tuple[int, ...], types: tuple[str, ...], device: torch.device) -> Tensor:
        dtype = self.dtypes["" if self.variable is None else types[self.variable]]
        if self.fill is None:
            return torch.empty(shape, dtype=dtype, device=device)
        return torch.full(shape, self.fill, dtype=dtype, device=device)


def _returned(made: list[Tensor]) -> Any:
    return made[0] if len(made) == 1 else tuple(made) if made else None
