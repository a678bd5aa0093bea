"""Runs emitted Triton modules on the CPU, through Triton's interpreter, in a process that may also compile.

Triton decides when a function is decorated whether it will be compiled or interpreted, and its own library functions
(`tl.sum`, `tl.cdiv`, ...) are decorated when Triton is imported. So an emitted module is loaded a second time under the
interpreter, and while a kernel runs, the library's compiled functions are replaced by interpreted ones; afterwards all
is as before. TRITON_INTERPRET may be set or not. One kernel runs at a time, because the language is global.

The interpreter has faults; `kgen.verify.interpreter.ensure_correct()` corrects them for all later runs of the process.

Speed (one core): about 40 us for each tile operation up to 64x64, so 4 ms for a step of attention; 1 ms per launch.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import triton.experimental.gluon  # noqa: F401  Triton imports it at the first launch and then finds interpreted functions
import triton.language as tl
from triton import knobs
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from kgen.errors import KgenError

MODULE_PREFIX = "kgen_interpreted_"
_RUNNING = threading.RLock()
_LIBRARY = (tl, tl.standard, tl.random, tl.core.tensor)


def run_interpreted(
    module_path: Path, function: str, grid: tuple[int, ...], args: Mapping[str, Any], constexprs: Mapping[str, Any]
) -> None:
    """Run every program of a grid in order. `args` are CPU tensors and scalars by name; tensors are written in place.

    Floating scalars are rounded to float32 as a launch on a GPU does. Raises Triton's InterpreterError from the cause.
    """
    kernel = load_interpreted(module_path).get(function)
    if not isinstance(kernel, InterpretedFunction):
        raise KgenError(f"{module_path} has no Triton kernel '{function}'")
    if 0 in grid:
        return
    values = {name: ctypes.c_float(value).value if type(value) is float else value for name, value in args.items()}
    with _RUNNING, _interpreted_language(), _quiet():
        kernel[grid](**values, **constexprs)


def load_interpreted(module_path: Path) -> dict[str, Any]:
    """Return the globals of an interpreted copy of a module. The copy is made anew when the file's text has changed."""
    path = module_path.resolve()
    return _load(path, hashlib.sha256(path.read_bytes()).hexdigest()).__dict__


@functools.lru_cache(maxsize=256)
def _load(path: Path, text_digest: str) -> ModuleType:
    """Import a module under a name of its own. `text_digest` is there to tell versions of a file apart."""
    spec = importlib.util.spec_from_file_location(f"{MODULE_PREFIX}{text_digest[:16]}", path)
    if spec is None or spec.loader is None:
        raise KgenError(f"{path} cannot be imported as a Python module")
    module = importlib.util.module_from_spec(spec)
    with _RUNNING, knobs.runtime.scope():
        knobs.runtime.interpret = True
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _interpreted_language() -> Iterator[None]:
    """Give the language its interpreted meaning, once for all calls of a launch, and take it back afterwards."""
    with _replaced(InterpretedFunction, {"__call__": _call_rewritten}), contextlib.ExitStack() as stack:
        for namespace in _LIBRARY:
            stack.enter_context(_replaced(namespace, _interpreted_members(namespace)))
        languages = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
        scope = interpreter._patch_lang(languages)
        try:
            yield
        finally:
            scope.restore()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let overflow, division by zero and NaN pass without a word, as a GPU does."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)
        yield


def _call_rewritten(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a device function. Triton's own version patches the language again at every call and leaves it patched."""
    return function.rewrite()(*args, **kwargs)


def _interpreted_members(namespace: Any) -> dict[str, Any]:
    compiled = {name: member for name, member in vars(namespace).items() if isinstance(member, JITFunction)}
    if namespace is tl.core.tensor:
        return {name: _as_method(_interpreted(member.fn)) for name, member in compiled.items()}
    return {name: _interpreted(member.fn) for name, member in compiled.items()}


@functools.cache
def _interpreted(function: Callable[..., Any]) -> InterpretedFunction:
    return InterpretedFunction(function)


def _as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tensor, *args, **kwargs: function(tensor, *args, **kwargs)


@contextlib.contextmanager
def _replaced(owner: Any, members: Mapping[str, Any]) -> Iterator[None]:
    kept = {name: vars(owner)[name] for name in members}
    for name, member in members.items():
        setattr(owner, name, member)
    try:
        yield
    finally:
        for name, member in kept.items():
            setattr(owner, name, member)
