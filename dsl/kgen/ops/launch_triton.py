"""Runs the kernels of an emitted Triton module: compiled on a GPU, interpreted on the CPU."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from triton import knobs
from triton.runtime.jit import JITFunction

from kgen.build.interpret import run_interpreted
from kgen.errors import KgenError

__all__ = ["TritonKernel", "run_interpreted"]

# Triton writes a module's path into PTX between quotes and does not escape it; without line tables it writes none.
_UNQUOTABLE = ('"', "\\", "\n")


class TritonKernel:
    """One kernel of an emitted module with its launch options, loaded at the first launch."""

    def __init__(self, module_path: Path, function: str, *, num_warps: int, num_stages: int) -> None:
        self.module_path = Path(module_path)
        self.function = function
        self.options = {"num_warps": num_warps, "num_stages": num_stages}

    @functools.cached_property
    def jit(self) -> Any:
        """The compiled form. Raises KgenError if the module lacks it or Triton was imported to interpret only."""
        kernel = getattr(load_compiled(self.module_path), self.function, None)
        if kernel is None:
            raise KgenError(f"{self.module_path} has no Triton kernel '{self.function}'")
        if not isinstance(kernel, JITFunction):
            raise KgenError(
                f"'{self.function}' of {self.module_path} cannot be compiled in this process: TRITON_INTERPRET is set"
            )
        return kernel

    def launch(self, grid: tuple[int, ...], args: Mapping[str, Any], constexprs: Mapping[str, Any]) -> None:
        """Launch on the current device and stream of torch. A grid with a 0 does nothing."""
        if 0 not in grid:
            self.jit[grid](**args, **constexprs, **self.options)

    def interpret(self, grid: tuple[int, ...], args: Mapping[str, Any], constexprs: Mapping[str, Any]) -> None:
        """Run on CPU tensors by Triton's interpreter."""
        run_interpreted(self.module_path, self.function, grid, args, constexprs)


def load_compiled(module_path: Path) -> ModuleType:
    """Return an emitted module, imported under a name of its own; anew when the file's text has changed."""
    path = module_path.resolve()
    if any(mark in str(path) for mark in _UNQUOTABLE):
        knobs.compilation.disable_line_info = True
    return _load(path, hashlib.sha256(path.read_bytes()).hexdigest())


@functools.lru_cache(maxsize=256)
def _load(path: Path, text_digest: str) -> ModuleType:
    name = f"kgen_compiled_{text_digest[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise KgenError(f"{path} cannot be imported as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
