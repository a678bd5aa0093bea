"""Names of kernel variables: readable, unique, never a word of either language."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

_WORDS = """
tl triton pid tid smem auto bool break case catch char class const continue default delete do double else enum
extern float for goto if inline int long new operator private public register return short signed sizeof static
struct switch template this throw try typedef union unsigned using virtual void volatile while bf16 f16 f64 i8
u8 i16 i32 i64 u32 u64 vec min max exp log ldg stg lds sts
"""
_RESERVED = frozenset(_WORDS.split())


class Names:
    """Hands out unique names; `taken` are the names of arguments, axes and constants."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken) | _RESERVED | set(keyword.kwlist)

    def new(self, wish: str) -> str:
        """Return `wish` made a legal identifier, with a number appended if it is taken."""
        base = re.sub(r"\W", "_", wish).strip("_") or "value"
        name, count = base, 2
        while name in self.taken:
            name, count = f"{base}_{count}", count + 1
        self.taken.add(name)
        return name
