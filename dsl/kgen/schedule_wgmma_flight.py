"""How long products of warpgroups stay in flight: neighbours are waited for at once, and a loop of nothing but
products keeps those of its last iteration in flight, so that their instructions never stop."""

from __future__ import annotations

from dataclasses import replace

from kgen.schedule_steps import Step, Walk, WgmmaMultiply, WgmmaWait

MIN_STAGES = 3  # of a ring whose slots are read for an iteration longer: one read, one in flight, one filled


def in_flight(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return steps with every product's wait as late as its result and its operands' memory allow."""
    out: list[Step] = []
    for n, step in enumerate(steps):
        if isinstance(step, Walk):
            out += _walk(step)
        elif isinstance(step, WgmmaMultiply):
            following = steps[n + 1] if n + 1 < len(steps) else None
            out.append(step)
            if not isinstance(following, WgmmaMultiply):
                out.append(WgmmaWait(0, _results(_run_before(steps, n + 1))))
        else:
            out.append(step)
    return tuple(out)


def _run_before(steps: tuple[Step, ...], end: int) -> list[WgmmaMultiply]:
    """Return the products that stand next to each other before `end`."""
    found: list[WgmmaMultiply] = []
    for step in reversed(steps[:end]):
        if not isinstance(step, WgmmaMultiply):
            break
        found.insert(0, step)
    return found


def _results(products: list[WgmmaMultiply]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(p.op.dst.name for p in products))


def _walk(walk: Walk) -> list[Step]:
    if not _only_products(walk) or walk.ring is None:
        return [replace(walk, bodies=tuple(in_flight(b) for b in walk.bodies))]
    products = [s for body in walk.bodies for s in body if isinstance(s, WgmmaMultiply)]
    bodies = tuple((*b, WgmmaWait(len(b), ())) for b in walk.bodies)
    kept = replace(walk, bodies=bodies, ring=replace(walk.ring, kept=1))
    return [kept, WgmmaWait(0, _results(products))]


def _only_products(walk: Walk) -> bool:
    """Return whether each iteration adds products of shared tiles to sums and does nothing else."""
    products = [s for body in walk.bodies for s in body]
    deep = walk.ring is not None and walk.ring.stages >= MIN_STAGES
    return (
        deep
        and bool(products)
        and all(isinstance(s, WgmmaMultiply) and s.op.accumulate and s.a is not None for s in products)
    )
