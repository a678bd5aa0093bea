"""Which names a spec may give to its kernel, axes, sizes, tensors, params and intermediates."""

from __future__ import annotations

import keyword
import re

from kgen.functions import table
from kgen.types import DTYPES

_CPP = re.findall(
    r"\w+",
    """
    alignas alignof asm auto bool break case catch char class const constexpr continue decltype default delete do
    double else enum explicit export extern false float for friend goto if inline int long mutable namespace new
    noexcept nullptr operator private protected public register return short signed sizeof static struct switch
    template this throw true try typedef typeid typename union unsigned using virtual void volatile while wchar_t
    half warpSize gridDim blockDim blockIdx threadIdx
    """,
)
_LANGUAGE = re.findall(
    r"\w+",
    """
    cast inf nan true false desc index page slot row size tl triton torch sum max min any all abs range
    """,
)
_WINDOWS = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)")
MAX_LENGTH = 48


def reason_against(name: str) -> str | None:
    """Return why `name` cannot be the name of something in a spec, or None if it can."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name, re.ASCII):
        return f"'{name}' is not a name: expected a letter, then letters, digits or underscores"
    if len(name) > MAX_LENGTH:
        return f"the name '{name[:12]}...' has {len(name)} characters; at most {MAX_LENGTH} are allowed"
    if name in DTYPES:
        return f"'{name}' is a dtype and cannot be a name"
    if name in table():
        return f"'{name}' is a function and cannot be a name"
    if keyword.iskeyword(name) or name in _CPP or name in _LANGUAGE or _WINDOWS.fullmatch(name):
        return f"'{name}' is a reserved word and cannot be a name"
    return None
