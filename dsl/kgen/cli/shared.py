"""What several commands need: the spec with its overrides, one of its variants, the origin for heads of files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from kgen.errors import KgenError, nearest
from kgen.spec import Spec, load
from kgen.workflow.instance import Instance, instances
from kgen.workflow.texts import Origin


def spec_of(path: Path, overrides: Sequence[str]) -> Spec:
    """Return the spec in a file with overrides; raise KgenError if there is no such file."""
    if not path.exists():
        near = nearest(path.name, (p.name for p in path.parent.glob("*.yaml")))
        raise KgenError(f"there is no spec '{path}'" + (f", {near}" if near else ""))
    return load(path, overrides)


def instance_of(spec: Spec, number: int) -> Instance:
    """Return variant `number` (from 1); raise KgenError if there is none."""
    found = instances(spec)
    if not 1 <= number <= len(found):
        listed = "\n".join(f"      {i}: {x.words or 'the only one'}" for i, x in enumerate(found, 1))
        raise KgenError(f"--variant: {spec.name} has no variant {number}; it has\n{listed}")
    return found[number - 1]


def origin_of(path: Path, overrides: Sequence[str]) -> Origin:
    """Return where a text comes from, the same on every machine: paths as given, or relative to this folder."""
    name = shown_path(path)
    words = ["kgen", "build", name, *(w for o in overrides for w in ("--set", o))]
    return Origin(name, shlex.join(words))


def shown_path(path: Path) -> str:
    """Return a path without what belongs to this machine."""
    if path.is_absolute():
        here = Path.cwd()
        path = path.relative_to(here) if path.is_relative_to(here) else Path(path.name)
    return path.as_posix()
