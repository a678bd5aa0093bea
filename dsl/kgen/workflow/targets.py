"""The targets of a build: architectures by name, and which of them a backend can be compiled for."""

from __future__ import annotations

from kgen.configure_levels import BACKENDS
from kgen.errors import KgenError, nearest
from kgen.schedule import SHARED_LIMIT, shared_limit

DEFAULT = "sm_80,sm_90,gfx942"
EMITTED = "sm_90"  # the architecture whose text is written, if it is among the targets
AMD_SHARED = {"gfx90a": 64 * 1024, "gfx942": 64 * 1024, "gfx950": 160 * 1024}  # bytes of LDS a workgroup can have
KNOWN = (*(f"sm_{n}" for n in SHARED_LIMIT), "sm_90a", "sm_100a", "sm_103a", "sm_120a", "sm_121a", *AMD_SHARED)


def parse_targets(text: str) -> tuple[str, ...]:
    """Return the architectures of a list such as "sm_80,sm_90,gfx942"; raise KgenError for an unknown one."""
    names = tuple(dict.fromkeys(n.strip() for n in text.split(",") if n.strip()))
    if not names:
        raise KgenError(f"--target: expected architectures such as {DEFAULT}")
    for name in names:
        if name not in KNOWN:
            raise KgenError(_unknown("--target", "target", name, KNOWN))
    return names


def parse_backends(text: str) -> tuple[str, ...]:
    """Return the backends of "triton", "cuda" or "both"; raise KgenError for another word."""
    if text == "both":
        return BACKENDS
    if text not in BACKENDS:
        raise KgenError(_unknown("--backend", "backend", text, (*BACKENDS, "both")))
    return (text,)


def archs_of(backend: str, targets: tuple[str, ...]) -> tuple[str, ...]:
    """Return the targets that a backend has: CUDA text is for NVIDIA's alone."""
    return tuple(t for t in targets if backend == "triton" or t.startswith("sm_"))


def main_arch(targets: tuple[str, ...]) -> str:
    """Return the architecture whose texts are written."""
    return next((t for t in (EMITTED, *targets) if t in targets and t.startswith("sm_")), EMITTED)


def shared_bytes(arch: str) -> int:
    """Return the shared memory that a block can have."""
    return AMD_SHARED[arch] if arch in AMD_SHARED else shared_limit(arch)


def _unknown(option: str, kind: str, word: str, known: tuple[str, ...]) -> str:
    hint = nearest(word, known)
    expected = f"expected {', '.join(known)}"
    return f"{option}: unknown {kind} '{word}'" + (f", {hint}" if hint else "") + f"\n      {expected}"
