"""Conditions of schedule cases, over what is known when a variant is built: static sizes, static params and dtypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen import syntax as s
from kgen.errors import fail, nearest
from kgen.functions import table
from kgen.resolve_constants import Number, applied
from kgen.types import DTYPES, DType

_NUMERIC = ("lt", "le", "gt", "ge", "add", "sub", "mul", "div", "floordiv", "mod", "neg")
_ANY = ("eq", "ne", "and", "or", "not")
Known = Number | DType


@dataclass(frozen=True)
class Facts:
    """What a condition may speak of: values by name, and run-time names that are refused."""

    values: Mapping[str, Known]
    run_time: frozenset[str]


def holds(node: s.Node, facts: Facts) -> bool:
    """Return whether the condition holds; raise SpecError."""
    value = _value(node, facts)
    if not isinstance(value, bool):
        raise fail(node.span, "a case needs a condition, such as 'D == 64' or 'T == f32'")
    return value


def _value(node: s.Node, facts: Facts) -> Known:
    match node:
        case s.Number(value=value):
            return value
        case s.Name(name=name):
            return _name(node, name, facts)
        case s.Operator(fn=fn, args=args) if fn in _NUMERIC or fn in _ANY:
            values = [_value(a, facts) for a in args]
            if fn in _NUMERIC and any(isinstance(v, DType) for v in values):
                raise fail(node.span, f"dtypes have no '{table()[fn].operator}'", "compare them with == or !=")
            if fn in ("eq", "ne") and isinstance(values[0], DType) != isinstance(values[1], DType):
                raise fail(node.span, "a dtype is compared with a number")
            if fn in ("and", "or", "not") and not all(isinstance(v, bool) for v in values):
                raise fail(node.span, f"'{fn}' needs conditions")
            return applied(fn, values, node.span)
    raise fail(node.span, "a case compares static sizes, dtypes and static params")


def _name(node: s.Node, name: str, facts: Facts) -> Known:
    if name in facts.values:
        return facts.values[name]
    if name in ("true", "false"):
        return name == "true"
    if name in DTYPES:
        return DTYPES[name]
    if name in facts.run_time:
        hint = "sizes with a list of values (in: [...]) and params with static: true are known when a variant is built"
        raise fail(node.span, f"a case cannot depend on '{name}', which is known at a call only", hint)
    raise fail(node.span, f"unknown name '{name}'", nearest(name, [*facts.values, *DTYPES]))
