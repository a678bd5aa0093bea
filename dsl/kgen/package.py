"""Package: what `generated/<name>/` holds: the emitted texts, the op that launches them, its manifest, and the spec."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen import __version__
from kgen.accumulators import own_records
from kgen.emit.python import python_expr
from kgen.errors import KgenError
from kgen.generate import Emitted, spec_hash
from kgen.math import Math, Tensor
from kgen.ops.key import Key
from kgen.package_lines import prose, quoted
from kgen.package_op import free_sizes, op_text, schema, whole
from kgen.spec import Spec
from kgen.types import DTYPES

_JSON_WIDTH = 110
FILES = {"triton": ("triton_kernel", ".py"), "cuda": ("kernel", ".cu")}


@dataclass(frozen=True)
class PackagedVariant:
    """One variant with its texts (None: not built for that backend). `own`: CUDA texts for one architecture alone."""

    key: Key
    triton: Emitted | None
    cuda: Emitted | None
    own: tuple[Emitted, ...] = ()

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
            (staged / name).parent.mkdir(exist_ok=True)
            (staged / name).write_text(text, encoding="utf-8")
        staged.chmod(0o755)
        _swap(staged, target)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return sorted(p for p in target.rglob("*") if p.is_file())


def _swap(staged: Path, target: Path) -> None:
    if not target.exists():
        os.replace(staged, target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    os.replace(target, old / "package")
    os.replace(staged, target)
    shutil.rmtree(old, ignore_errors=True)


def package_files(spec: Spec, variants: Sequence[PackagedVariant], command: str) -> dict[str, str]:
    """Return the package's files as texts by name. Raises KgenError for a spec that has no op."""
    math = whole(spec, next(iter(variants[0].emitted().values())).lowered.math)
    files: dict[str, str] = {}
    entries: list[dict[str, Any]] = []
    for number, v in enumerate(variants):
        entry: dict[str, Any] = {"key": v.key.to_json()}
        for place, e in (*v.emitted().items(), *((f"cuda {e.target.arch}", e) for e in v.own)):
            stem, ending = FILES[e.target.backend]
            arch = "" if place == e.target.backend else f"_{e.target.arch}"
            name = f"{stem}{_suffix(v.key) if number else ''}{arch}{ending}"
            if name in files:
                raise KgenError(f"{spec.name}: two variants would both be written to {name}")
            files[name] = e.text
            entry[place] = {"file": name, "arch": e.target.arch, "launch": e.launch.to_json()}
        entries.append(entry)
    files["manifest.json"] = manifest_text(_manifest(spec, math, variants, entries))
    files["op.py"] = op_text(spec, math, command)
    files["spec.yaml"] = spec.text if spec.text.endswith("\n") else spec.text + "\n"
    files["__init__.py"] = _init(spec)
    files |= {f"accumulators/{name}.yaml": record.text for name, record in own_records(spec.records).items()}
    return files


def _init(spec: Spec) -> str:
    doc = "\n".join(quoted(line) for line in prose(spec.model.doc or spec.name))
    return f'"""{doc}\n"""\n\nfrom .op import OP, {spec.name}\n\n__all__ = ["OP", "{spec.name}"]\n'


def _suffix(key: Key) -> str:
    """Return a file name's ending that tells a variant apart, e.g. `_f16_d64_e64_causal`."""
    words = [v for _, v in key.dtypes] + [f"{k}{v}" for group in (key.sizes, key.buckets) for k, v in group]
    words += [("" if v else "not_") + k if isinstance(v, bool) else f"{k}{v}" for k, v in key.params]
    return "_" + "_".join("".join(c if c.isalnum() else "_" for c in w.lower()) for w in words)


def _manifest(
    spec: Spec, math: Math, variants: Sequence[PackagedVariant], entries: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "name": spec.name,
        "kgen": __version__,
        "spec_hash": spec_hash(spec),
        "schema": schema(spec, math),
        "tensors": [_tensor(spec, t) for t in math.tensors.values() if t.name not in math.workspaces],
        "types": list(spec.model.dtypes),
        "sizes": list(math.sizes),
        "free_sizes": [s.name for s in free_sizes(math)],
        "params": list(math.params),
        "static_sizes": [s.name for s in math.sizes.values() if s.choices is not None],
        "static_params": [p.name for p in math.params.values() if p.static],
        "full_axes": {a: python_expr(math.axes[a].extent) for a in _full_axes(variants)},
        "variants": entries,
    }


def _tensor(spec: Spec, t: Tensor) -> dict[str, Any]:
    written = str(spec.model.tensors[t.name].dtype)
    choices = spec.model.dtypes.get(written)
    return {
        "name": t.name,
        "dims": [python_expr(d) for d in t.dims],
        "dtype": written,
        "torch": {str(c): DTYPES[str(c)].torch for c in choices} if choices else {"": t.dtype.torch},
        "out": t.out,
        "inplace": t.inplace,
        "fill": t.fill,
        "fast": list(t.fast),
    }


def _full_axes(variants: Sequence[PackagedVariant]) -> list[str]:
    """Return the axes of run-time extent that some variant's program holds whole: its key has a bucket for each."""
    return list(dict.fromkeys(axis for v in variants for axis, _ in v.key.buckets))


def manifest_text(manifest: dict[str, Any]) -> str:
    """Return the manifest as JSON: its upper levels one entry a line, what is deeper in one line."""
    return "".join(_json(manifest, 0)) + "\n"


def _json(value: Any, depth: int) -> Iterator[str]:
    flat = json.dumps(value)
    if len(flat) + depth <= _JSON_WIDTH or not isinstance(value, dict | list | tuple):
        yield flat
        return
    if isinstance(value, dict):
        opened, closed = "{}"
        pairs = [(f"{json.dumps(k)}: ", v) for k, v in value.items()]
    else:
        opened, closed = "[]"
        pairs = [("", v) for v in value]
    yield opened
    for i, (name, v) in enumerate(pairs):
        yield ("," if i else "") + "\n" + " " * (depth + 1) + name
        yield from _json(v, depth + 1)
    yield "\n" + " " * depth + closed
