"""What a compiler made: the binary, its resources, and the error when there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgen.errors import KgenError


@dataclass(frozen=True)
class Resources:
    """What one kernel occupies, as its compiler reports it.

    `registers` are per thread (vector registers on AMD). `spill_bytes` is stores plus loads per thread where `source`
    is "ptxas", the spilled bytes per lane where it is "amdgcn", and otherwise stands in for them as `local_bytes`
    (`source` "elf": an upper bound, zero exactly when nothing was spilled and no local array exists).
    `shared_bytes` is per block: static for CUDA text, all of it for Triton. `local_bytes` is the frame per thread.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int
    local_bytes: int
    source: str

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Resources:
        return cls(**{name: record[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Binary:
    """A compiled kernel in the cache. `kernel` is its symbol in the file at `path`; `seconds` the time it took."""

    backend: str
    target: str
    path: Path
    kernel: str
    resources: Resources
    key: str
    seconds: float
    cached: bool


class CompileError(KgenError):
    """A compiler refused emitted text. `line` counts from 1 in the emitted text; None if the tool named none."""

    def __init__(self, tool: str, target: str, message: str, text: str = "", line: int | None = None) -> None:
        lines = text.splitlines()
        self.tool, self.target, self.message = tool, target, message.strip()
        self.line = line if line is not None and 0 < line <= len(lines) else None
        self.line_text = lines[self.line - 1] if self.line else ""
        place = f"\n{self.line:>5} | {self.line_text}" if self.line else ""
        super().__init__(f"{tool} cannot compile the kernel for {target}{place}\n{self.message}")
