"""The road of skeletons: each that cannot serve a kernel gives way to the next, and says why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kgen.configure import Config
from kgen.configure_target import ROAD
from kgen.errors import KgenError
from kgen.ir import Dot, Kernel
from kgen.schedule import Plan, plan
from kgen.schedule_homes import operations
from kgen.schedule_mma import NotServed

WARP = 32
WGMMA_ARCH = "sm_90a"


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
    """Return the plan by the first skeleton of the road that can serve, and why those before it cannot."""
    if not any(isinstance(op, Dot) for op in operations(kernel.body)):
        return plan(kernel, arch=arch, threads=config.threads), ""
    reasons: list[str] = []
    for skeleton in ROAD[ROAD.index(config.skeleton) :]:
        try:
            made = _by(skeleton, kernel, arch, config)
            return made, f"kernel '{kernel.name}' is {skeleton}: {'; '.join(reasons)}" if reasons else ""
        except NotServed as refused:
            reasons += [] if str(refused) in reasons else [str(refused)]
        except KgenError as error:
            if not reasons:
                raise
            raise KgenError(f"{error} ({skeleton}, because {'; '.join(reasons)})") from None
    raise AssertionError("the last skeleton of the road serves every kernel")


def _by(skeleton: str, kernel: Kernel, arch: str, config: Config) -> Plan:
    match skeleton:
        case "wgmma":
            if arch != WGMMA_ARCH:
                raise NotServed(f"wgmma is of {WGMMA_ARCH}, not of {arch}")
            consumers = config.target.consumers
            return plan(kernel, arch=arch, threads=None, skeleton="wgmma", stages=config.stages, consumers=consumers)
        case "mma":
            return plan(kernel, arch=arch, threads=WARP * config.warps, skeleton="mma", stages=config.stages)
        case _:
            return plan(kernel, arch=arch, threads=config.threads)
