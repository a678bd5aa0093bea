"""Reads kernel names and resources out of a cubin, which is an ELF file.

The attributes below are not in a public specification; the tests compare them with the report of `ptxas -v`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kgen.build.binary import Resources

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_ATTRIBUTE = struct.Struct("<BBHII")
_SIZED = 0x04
_FRAME_SIZE = 0x11
_REGISTER_COUNT = 0x2F
_RESERVED_SHARED = 1024  # what sm_90 and newer keep of a block's shared memory for the system


@dataclass(frozen=True)
class _Section:
    name: str
    content: bytes
    size: int


def kernel_names(cubin: bytes) -> tuple[str, ...]:
    """Return the symbols of the kernels (and of device functions that were not inlined) in a cubin."""
    return tuple(s.name.removeprefix(".text.") for s in _sections(cubin) if s.name.startswith(".text."))


def read_resources(cubin: bytes, kernel: str) -> Resources:
    """Return a kernel's resources as the cubin records them: spills and local arrays are one number there."""
    sections = {s.name: s for s in _sections(cubin)}
    names = _symbol_names(sections)
    info = sections[".nv.info"].content if ".nv.info" in sections else b""
    values: dict[int, int] = {}
    for offset in range(0, len(info) - _ATTRIBUTE.size + 1, _ATTRIBUTE.size):
        form, attribute, length, symbol, value = _ATTRIBUTE.unpack_from(info, offset)
        if form == _SIZED and length == 8 and names.get(symbol) == kernel:
            values[attribute] = value
    shared = sections[f".nv.shared.{kernel}"].size if f".nv.shared.{kernel}" in sections else 0
    reserved = _RESERVED_SHARED if shared and ".nv.shared.reserved.0" in sections else 0
    local = values.get(_FRAME_SIZE, 0)
    return Resources(values.get(_REGISTER_COUNT, 0), local, shared - reserved, local, "elf")


def _sections(cubin: bytes) -> list[_Section]:
    if not cubin.startswith(b"\x7fELF"):
        raise ValueError("not an ELF file")
    header = _HEADER.unpack_from(cubin)
    offset, stride, count, names_at = header[6], header[11], header[12], header[13]
    rows = [_SECTION.unpack_from(cubin, offset + i * stride) for i in range(count)]
    names = cubin[rows[names_at][4] : rows[names_at][4] + rows[names_at][5]]
    no_bits = 8
    return [_Section(_text_at(names, r[0]), b"" if r[1] == no_bits else cubin[r[4] : r[4] + r[5]], r[5]) for r in rows]


def _symbol_names(sections: dict[str, _Section]) -> dict[int, str]:
    table, names = sections[".symtab"].content, sections[".strtab"].content
    return {i: _text_at(names, row[0]) for i, row in enumerate(_SYMBOL.iter_unpack(table))}


def _text_at(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode("utf-8")
