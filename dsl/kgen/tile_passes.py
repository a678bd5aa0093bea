"""Passes: which folds and results share a loop, and which loops must come before which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kgen.folded import Fold, Folded, Result
from kgen.terms import Expr, free_axes, variables
from kgen.tile_frame import Frame


@dataclass(frozen=True)
class Group:
    """A loop nest over `streams`, inside loops over `outer`; `number` counts the passes over the same axes."""

    streams: tuple[str, ...]
    outer: tuple[str, ...]
    number: int


@dataclass
class Members:
    """What a group computes, and the groups whose results that needs."""

    folds: list[Fold] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    needs: set[Group] = field(default_factory=set)


class Passes:
    """Groups of the folds over streamed axes and of the results that have such axes; `later` are the other results."""

    def __init__(self, folded: Folded, frame: Frame, results: Iterable[Result]) -> None:
        self.folded, self.frame = folded, frame
        self.groups: dict[Group, Members] = {}
        self.of: dict[str, Group] = {}
        self.later: list[Result] = []
        self._needed: dict[str, frozenset[Group]] = {}  # by fold
        for f in folded.folds:
            self._enlist(f)
        for r in results:
            self._enlist_result(r)

    def streams(self, axes: Iterable[str]) -> tuple[str, ...]:
        """Return those of `axes` that are walked, outermost first."""
        wanted = set(axes)
        order = self.frame.config.loops or tuple(self.frame.math.axes)
        return tuple(a for a in order if a in wanted and self.frame.role(a) == "stream")

    def _enlist(self, f: Fold) -> None:
        needed = self.needed_by([f.arg, *([f.guard] if f.guard else []), *(c.expr for c in f.carried)])
        streams = self.streams(f.axes)
        if streams:
            outer = self.streams(a for v in (*f.states, *(c.var for c in f.carried)) for a in v.axes)
            group = self._group(streams, outer, needed)
            self.of[f.name] = group
            self.groups[group].folds.append(f)
            needed = frozenset({group})
        self._needed[f.name] = needed

    def _enlist_result(self, r: Result) -> None:
        streams = self.streams(free_axes(r.expr).union(*(free_axes(i) for i in r.index)))
        if streams:
            group = self._group(streams, (), self.needed_by([r.expr, *r.index]))
            self.groups[group].results.append(r)
        else:
            self.later.append(r)

    def _group(self, streams: tuple[str, ...], outer: tuple[str, ...], needed: frozenset[Group]) -> Group:
        """Return the first pass over the axes that nothing in `needed` waits for."""
        before, number = self.before(needed), 1
        while Group(streams, outer, number) in before:
            number += 1
        group = Group(streams, outer, number)
        self.groups.setdefault(group, Members()).needs.update(needed)
        return group

    def needed_by(self, exprs: Iterable[Expr]) -> frozenset[Group]:
        """Return the groups whose results the expressions read, also through folds without a loop."""
        found = {self._needed[self.folded.fold_of(v).name] for e in exprs for v in variables(e)}
        return frozenset().union(*found)

    def before(self, groups: Iterable[Group]) -> set[Group]:
        """Return the groups and all that come before them."""
        found: set[Group] = set()
        todo = list(groups)
        while todo:
            group = todo.pop()
            if group not in found:
                found.add(group)
                todo.extend(self.groups[group].needs)
        return found
