"""Reads the kernel metadata at the end of AMD GPU assembly."""

from __future__ import annotations

import re

from kgen.build.binary import Resources

_FIELD = re.compile(r"^\s+\.(\w+):\s+(\d+)\s*$", re.MULTILINE)
_LANE_BYTES = 4


def parse_metadata(text: str) -> Resources:
    """Return the resources of the one kernel in an assembly text. Spills are vector registers of 4 bytes per lane."""
    fields = {name: int(value) for name, value in _FIELD.findall(text)}
    return Resources(
        registers=fields["vgpr_count"],
        spill_bytes=_LANE_BYTES * fields["vgpr_spill_count"],
        shared_bytes=fields["group_segment_fixed_size"],
        local_bytes=fields["private_segment_fixed_size"],
        source="amdgcn",
    )
