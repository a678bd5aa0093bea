"""Reports of compilers, read from samples."""

from __future__ import annotations

from kgen.build.amdgcn import parse_metadata
from kgen.build.binary import Resources
from kgen.build.ptxas import parse_report

REPORT = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
ptxas         .     40 bytes stack frame, 36 bytes spill stores, 44 bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers, 40 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compiling entry function 'second' for 'sm_90a'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'cut' for 'sm_90a'
"""
METADATA = """
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 24
    .sgpr_count:     21
    .sgpr_spill_count: 0
    .vgpr_count:     128
    .vgpr_spill_count: 6
"""


def test_each_kernel_of_a_ptxas_report_is_read() -> None:
    assert parse_report(REPORT) == {
        "first": Resources(168, 80, 1024, 40, "ptxas"),
        "second": Resources(24, 0, 0, 0, "ptxas"),
    }


def test_amd_metadata_is_read() -> None:
    assert parse_metadata(METADATA) == Resources(128, 24, 0, 24, "amdgcn")
