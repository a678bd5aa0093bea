"""Target fields of a schedule: the skeleton and what belongs to it."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.configure_levels import Levels
from kgen.errors import fail

# The fields that each skeleton reads. Triton has one skeleton; mma and wgmma are not built yet and give way to simt.
FIELDS = {
    "triton": ("warps", "stages"),
    "simt": ("threads",),
    "mma": ("warps", "stages"),
    "wgmma": ("consumers", "stages", "overlap"),
}
BUILT = ("triton", "simt")
_ALL = sorted({f for fields in FIELDS.values() for f in fields} | {"skeleton"})
DEFAULT_WARPS, DEFAULT_STAGES = 4, 2


@dataclass(frozen=True)
class Target:
    """Skeleton used, skeleton asked for, and their fields. `threads` None: the compiler chooses."""

    skeleton: str
    requested: str
    warps: int
    stages: int
    threads: int | None
    notes: tuple[str, ...]


def target_fields(levels: Levels, backend: str) -> Target:
    """Return the target fields; raise SpecError for a field that nothing on this road reads."""
    requested = "triton" if backend == "triton" else _skeleton(levels)
    used = requested if requested in BUILT else "simt"
    lapsed = _check(levels, used, requested)
    notes = []
    if used != requested:
        text = f"; its fields lapse: {', '.join(lapsed)}" if lapsed else ""
        notes.append(f"skeleton {requested} is not built yet: {used} is used instead{text}")
    value = {f: found[0] for f in FIELDS[used] if (found := levels.value(f)) is not None}
    return Target(
        used,
        requested,
        value.get("warps", DEFAULT_WARPS),
        value.get("stages", DEFAULT_STAGES),
        value.get("threads"),
        tuple(notes),
    )


def _skeleton(levels: Levels) -> str:
    given = levels.value("skeleton")
    return given[0] if given else "simt"


def _check(levels: Levels, used: str, requested: str) -> list[str]:
    """Return the fields that lapse with the requested skeleton."""
    lapsed = []
    for name, level in levels.given():
        if name not in _ALL:
            continue
        place = levels.spec.span(*level.path, name, key=True)
        if not level.backend:
            raise fail(place, f"'{name}' belongs to a backend", "write it under schedule.triton or schedule.cuda")
        if name == "skeleton":
            if used == "triton":
                raise fail(place, "'skeleton' is for CUDA: Triton has one", "write it under schedule.cuda")
        elif name not in FIELDS[used]:
            if name not in FIELDS[requested]:
                owners = ", ".join(s for s, fields in FIELDS.items() if name in fields)
                raise fail(
                    place,
                    f"'{name}' is not a field of {used}",
                    f"it belongs to {owners}; {used} has {', '.join(FIELDS[used])}",
                )
            lapsed.append(name)
    return list(dict.fromkeys(lapsed))
