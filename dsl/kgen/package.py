"""Package: what `generated/<name>/` holds: the emitted texts, the op that launches them, its manifest, and the spec."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen import __version__
from kgen.algebra import fold
from kgen.emit.python import python_expr
from kgen.generate import Emitted, spec_hash
from kgen.math import Math
from kgen.ops.key import Key
from kgen.package_op import op_text, schema
from kgen.spec import Spec
from kgen.terms import Const, Expr, Size, walk
from kgen.types import DTYPES

FILES = {"triton": ("triton_kernel", ".py"), "cuda": ("kernel", ".cu")}


@dataclass(frozen=True)
class PackagedVariant:
    """One variant with its texts (None: not built for that backend)."""

    key: Key
    triton: Emitted | None
    cuda: Emitted | None

    def emitted(self) -> dict[str, Emitted]:
        both = {"triton": self.triton, "cuda": self.cuda}
        return {backend: e for backend, e in both.items() if e is not None}


def write_package(spec: Spec, variants: Sequence[PackagedVariant], out: Path, command: str) -> list[Path]:
    """Write `out/<name>/` whole or not at all, and return its files. A package that is there is replaced."""
    target = out / spec.name
    out.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=f".{spec.name}-", dir=out))
    try:
        for name, text in package_files(spec, variants, command).items():
            (staged / name).write_text(text)
        staged.chmod(0o755)
        _swap(staged, target)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return sorted(p for p in target.iterdir() if p.is_file())


def _swap(staged: Path, target: Path) -> None:
    if not target.exists():
        os.replace(staged, target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    os.replace(target, old / "package")
    os.replace(staged, target)
    shutil.rmtree(old, ignore_errors=True)


def package_files(spec: Spec, variants: Sequence[PackagedVariant], command: str) -> dict[str, str]:
    """Return the package's files as texts by name."""
    first = next(iter(variants[0].emitted().values()))
    math = first.lowered.math
    files: dict[str, str] = {}
    entries: list[dict[str, Any]] = []
    for number, v in enumerate(variants):
        entry: dict[str, Any] = {"key": v.key.to_json()}
        for backend, e in v.emitted().items():
            stem, ending = FILES[backend]
            name = f"{stem}{_suffix(v.key) if number else ''}{ending}"
            files[name] = e.text
            entry[backend] = {"file": name, "arch": e.target.arch, "launch": e.launch.to_json()}
        entries.append(entry)
    files["manifest.json"] = json.dumps(_manifest(spec, math, entries), indent=1) + "\n"
    files["op.py"] = op_text(spec, math, command)
    files["spec.yaml"] = spec.text if spec.text.endswith("\n") else spec.text + "\n"
    files["__init__.py"] = f'from .op import {spec.name}\n\n__all__ = ["{spec.name}"]\n'
    return files


def _suffix(key: Key) -> str:
    """Return a file name's ending that tells a variant apart, e.g. `_f16_d64_e64`."""
    words = [v for _, v in key.dtypes] + [f"{k}{v}".lower() for group in (key.sizes, key.params) for k, v in group]
    words += [f"{k}{v}".lower() for k, v in key.buckets]
    return "_" + "_".join("".join(c for c in w if c.isalnum()) for w in words)


def _manifest(spec: Spec, math: Math, entries: list[dict[str, Any]]) -> dict[str, Any]:
    static = [s.name for s in math.sizes.values() if s.choices is not None]
    params = [p for p, d in _all_params(spec).items() if d.static]
    return {
        "name": spec.name,
        "kgen": __version__,
        "spec_hash": spec_hash(spec),
        "schema": schema(spec, math),
        "tensors": [_tensor(spec, math, t) for t in math.tensors if t not in math.workspaces],
        "static_sizes": static,
        "static_params": params,
        "full_axes": _full_axes(math),
        "variants": entries,
    }


def _all_params(spec: Spec) -> dict[str, Any]:
    return dict(spec.model.params)


def _tensor(spec: Spec, math: Math, name: str) -> dict[str, Any]:
    t = math.tensors[name]
    written = spec.model.tensors[name].dtype
    choices = spec.model.dtypes.get(written)
    return {
        "name": name,
        "dims": [python_expr(d) for d in t.dims],
        "dtype": str(written),
        "torch": {str(c): _torch_name(str(c)) for c in choices} if choices else {"": t.dtype.torch},
        "out": t.out,
        "inplace": t.inplace,
        "fill": t.fill,
        "fast": list(t.fast),
    }


def _torch_name(dtype: str) -> str:
    return DTYPES[dtype].torch


def _full_axes(math: Math) -> dict[str, str]:
    """Axes of run-time extent that a program holds whole, with their extents."""
    static = {s.name for s in math.sizes.values() if s.choices is not None}
    found = {}
    for a in math.axes.values():
        names = {n.name for n in _sizes_in(a.extent)}
        if a.tile == "full" and not names <= static and not isinstance(fold(a.extent), Const):
            found[a.name] = python_expr(a.extent)
    return found


def _sizes_in(e: Expr) -> list[Size]:
    return [n for n in walk(e) if isinstance(n, Size)]
