"""The road of skeletons: each that cannot serve a kernel gives way to the next, and says why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kgen.configure import Config
from kgen.errors import KgenError
from kgen.ir import Dot, Kernel
from kgen.schedule import Plan, plan
from kgen.schedule_homes import operations
from kgen.schedule_mma import NotServed

WARP = 32


def plan_all(kernels: Iterable[Kernel], arch: str, config: Config) -> tuple[Mapping[str, Plan], Config]:
    """Return the plans by kernel, and the configuration with a note for each kernel that its skeleton cannot serve.

    Kernels without a Dot are `simt` whatever the schedule says: the other skeletons are about Dots.
    """
    plans: dict[str, Plan] = {}
    notes: list[str] = []
    for kernel in kernels:
        made, note = _plan(kernel, arch, config)
        plans[kernel.name] = made
        notes += [note] if note else []
    target = replace(config.target, notes=(*config.notes, *notes))
    return plans, replace(config, target=target)


def _plan(kernel: Kernel, arch: str, config: Config) -> tuple[Plan, str]:
    has_dots = any(isinstance(op, Dot) for op in operations(kernel.body))
    if config.skeleton != "mma" or not has_dots:
        return plan(kernel, arch=arch, threads=config.threads), ""
    try:
        threads = WARP * config.warps
        return plan(kernel, arch=arch, threads=threads, skeleton="mma", stages=config.stages), ""
    except NotServed as refused:
        note = f"kernel '{kernel.name}' is simt: {refused}"
    try:
        return plan(kernel, arch=arch, threads=config.threads), note
    except KgenError as error:
        raise KgenError(f"{error} (simt, because {note.split(': ', 1)[1]})") from None
