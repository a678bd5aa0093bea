"""The table of functions and operators (functions.yaml): arity, type rule, and the printed form in each language."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from kgen.types import BOOL, F32, F64, DType, compute_dtype, promote

LANGUAGES = ("torch", "triton", "cuda")
HOST = "python"  # the language of sizes, defaults and checks; a row may lack it
ATOM = 100  # precedence of names, literals and call forms


@dataclass(frozen=True)
class Function:
    """One row. `forms[language]` is a form, or a mapping from class (f32, f64, float, int, bool) to a form."""

    name: str
    args: int
    types: str
    operator: str | None
    internal: bool
    assoc: str
    precs: dict[str, int]
    forms: dict[str, str | dict[str, str]]

    def form(self, language: str, dtype: DType) -> str:
        """Return the form for arguments of `dtype`; KeyError if the row lacks that class."""
        form = self.forms[language]
        if isinstance(form, str):
            return form
        for key in _classes(dtype):
            if key in form:
                return form[key]
        raise KeyError(f"functions.yaml: {self.name} has no {language} form for {dtype}")

    def prec(self, language: str) -> int:
        """Return the precedence of the printed form; ATOM for call forms."""
        return self.precs.get(language, ATOM)


def _classes(dtype: DType) -> tuple[str, ...]:
    if dtype.is_float:
        return ("f64" if dtype is F64 else "f32", "float")
    return ("bool",) if dtype is BOOL else ("int",)


def _row(name: str, raw: dict[str, Any]) -> Function:
    prec = raw.get("prec", {})
    return Function(
        name=name,
        args=raw["args"],
        types=raw["types"],
        operator=raw.get("operator"),
        internal=raw.get("internal", False),
        assoc=raw.get("assoc", "left"),
        precs=dict(prec) if isinstance(prec, dict) else dict.fromkeys((*LANGUAGES, HOST), prec),
        forms={lang: _form(raw[lang]) for lang in (*LANGUAGES, *([HOST] if HOST in raw else []))},
    )


def _form(raw: str | dict[str, str]) -> str | dict[str, str]:
    return raw if isinstance(raw, str) else dict(raw)


@cache
def table() -> dict[str, Function]:
    """Return all rows by name."""
    text = (Path(__file__).parent / "functions.yaml").read_text()
    return {name: _row(name, raw) for name, raw in YAML(typ="safe").load(text).items()}


@cache
def host_function(name: str) -> Callable[..., Any] | None:
    """Return the Python function that a row's form for the host makes of numbers, None if the row has no such form."""
    row = table()[name]
    if HOST not in row.forms:
        return None
    names = "abcdefgh"[: row.args]
    body = str(row.forms[HOST]).format(*(f"({n})" for n in names))
    function: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {body}", {"math": math})
    return function


def argument_dtypes(fn: Function, given: tuple[DType, ...]) -> tuple[DType, ...]:
    """Return the types the arguments are converted to; ValueError with the reason if they do not fit the row."""
    values = given[1:] if fn.types == "where" else given
    match fn.types:
        case "where" if given[0] is not BOOL:
            raise ValueError(f"the condition of 'where' must be bool, not {given[0]}")
        case "float" | "test":
            return tuple(F64 if F64 in given else F32 for _ in given)
        case "bool":
            _require(all(t is BOOL for t in given), f"'{fn.operator or fn.name}' needs bool operands", given)
            return given
        case "int":
            _require(all(t.is_int for t in given), f"'{fn.operator or fn.name}' needs integer operands", given)
        case "number":
            _require(all(t is not BOOL for t in given), f"'{fn.operator or fn.name}' needs numbers", given)
        case "match":
            ok = all(t is BOOL for t in given) or all(t.is_int for t in given)
            _require(ok, f"'{fn.operator or fn.name}' needs integers, or booleans on both sides", given)
    common = values[0]
    for other in values[1:]:
        _require((common is BOOL) == (other is BOOL), f"'{fn.operator or fn.name}' mixes bool and numbers", given)
        common = promote(common, other)
    common = common if common is BOOL else compute_dtype(common)
    return (BOOL, common, common) if fn.types == "where" else tuple(common for _ in given)


def result_dtype(fn: Function, converted: tuple[DType, ...]) -> DType:
    """Return the type of the result for arguments already converted by `argument_dtypes`."""
    return BOOL if fn.types in ("compare", "test", "bool") else converted[-1]


def _require(ok: bool, message: str, given: tuple[DType, ...]) -> None:
    if not ok:
        raise ValueError(f"{message}, not {' and '.join(t.name for t in given)}")
