"""The reference of a spec: a PyTorch function of the same signature, and the only Python that a spec can name."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from kgen import resources
from kgen.errors import fail, nearest
from kgen.spec import Spec


def load_reference(spec: Spec) -> Callable[..., Any] | None:
    """Return the function named by `reference`: of `references.py` beside the spec, else of the shipped one.

    None if the spec names none; SpecError if neither file has it. Only functions defined in these files count.
    """
    name = spec.model.reference
    if name is None:
        return None
    folders = [*([spec.folder] if spec.folder is not None else []), resources.path("specs")]
    known: list[str] = []
    for folder in folders:
        if (folder / "references.py").is_file():
            functions = _functions(_module(folder / "references.py"))
            if name in functions:
                return functions[name]
            known += functions
    raise fail(spec.span("reference"), f"references.py has no function '{name}'", nearest(name, known))


def _module(path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location("kgen_references", path)
    if found is None or found.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    own = {n: f for n, f in vars(module).items() if getattr(f, "__module__", None) == module.__name__}
    return {n: f for n, f in own.items() if callable(f) and not n.startswith("_")}
