"""Target fields of a schedule: the skeleton and what belongs to it."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.configure_levels import Levels
from kgen.errors import fail

# The fields that each skeleton reads. Triton has one skeleton. Of CUDA's, each gives way to the next on the road where
# it cannot serve.
FIELDS = {
    "triton": ("warps", "stages"),
    "simt": ("threads",),
    "mma": ("warps", "stages"),
    "wgmma": ("consumers", "stages", "overlap"),
}
ROAD = ("wgmma", "mma", "simt")
BUILT = ("triton", "wgmma", "mma", "simt")
LAPSING = ("overlap",)  # fields of built skeletons that nothing reads yet
_ALL = sorted({f for fields in FIELDS.values() for f in fields} | {"skeleton"})
DEFAULT_WARPS, DEFAULT_STAGES = 4, 2


@dataclass(frozen=True)
class Target:
    """Skeleton used, skeleton asked for, and their fields. `threads` or `consumers` None: the compiler chooses."""

    skeleton: str
    requested: str
    warps: int
    stages: int
    threads: int | None
    notes: tuple[str, ...]
    consumers: int | None = None


def target_fields(levels: Levels, backend: str) -> Target:
    """Return the target fields; raise SpecError for a field that nothing on this road reads."""
    requested = "triton" if backend == "triton" else _skeleton(levels)
    road = ROAD[ROAD.index(requested) :] if requested in ROAD else (requested,)
    used = next(s for s in road if s in BUILT)
    lapsed = _check(levels, used, road)
    notes = []
    if used != requested:
        text = f"; its fields lapse: {', '.join(lapsed)}" if lapsed else ""
        notes.append(f"skeleton {requested} is not built yet: {used} is used instead{text}")
    elif lapsed:
        notes.append(f"not built yet, without effect: {', '.join(lapsed)}")
    fields = {f for s in road if s in BUILT for f in FIELDS[s]}
    value = {f: found[0] for f in sorted(fields) if (found := levels.value(f)) is not None}
    return Target(
        used,
        requested,
        value.get("warps", DEFAULT_WARPS),
        value.get("stages", DEFAULT_STAGES),
        value.get("threads"),
        tuple(notes),
        value.get("consumers"),
    )


def _skeleton(levels: Levels) -> str:
    given = levels.value("skeleton")
    return given[0] if given else "simt"


def _check(levels: Levels, used: str, road: tuple[str, ...]) -> list[str]:
    """Return the fields that lapse: those of the road that nothing reads."""
    lapsed = []
    kept = {f for s in road if s in BUILT for f in FIELDS[s]} - set(LAPSING)
    for name, level in levels.given():
        if name not in _ALL:
            continue
        place = levels.spec.span(*level.path, name, key=True)
        if not level.backend:
            raise fail(place, f"'{name}' belongs to a backend", "write it under schedule.triton or schedule.cuda")
        if name == "skeleton":
            if used == "triton":
                raise fail(place, "'skeleton' is for CUDA: Triton has one", "write it under schedule.cuda")
        elif name not in kept:
            if not any(name in FIELDS[s] for s in road):
                owners = ", ".join(s for s, fields in FIELDS.items() if name in fields)
                raise fail(
                    place,
                    f"'{name}' is not a field of {used}",
                    f"it belongs to {owners}; {used} has {', '.join(FIELDS[used])}",
                )
            lapsed.append(name)
    return list(dict.fromkeys(lapsed))
