"""Targets and the texts made for them."""

from __future__ import annotations

import pytest
from tests.workflow.conftest import ROWS

from kgen.errors import KgenError
from kgen.spec import load
from kgen.workflow.instance import Instance, instances
from kgen.workflow.targets import DEFAULT, archs_of, main_arch, parse_backends, parse_targets, shared_bytes
from kgen.workflow.texts import Origin, texts_for


def test_targets_are_read_in_order_and_once() -> None:
    assert parse_targets(" sm_90, gfx942,sm_90") == ("sm_90", "gfx942")
    assert parse_targets(DEFAULT) == ("sm_80", "sm_90", "gfx942")
    with pytest.raises(KgenError, match="unknown target 'gfx94', did you mean 'gfx942'"):
        parse_targets("gfx94")


def test_backends_and_their_targets() -> None:
    assert parse_backends("both") == ("triton", "cuda")
    assert archs_of("cuda", ("sm_80", "gfx942")) == ("sm_80",)
    assert archs_of("triton", ("sm_80", "gfx942")) == ("sm_80", "gfx942")


def test_the_text_written_is_for_a_gpu_of_nvidia() -> None:
    assert main_arch(("sm_80", "sm_90")) == "sm_90"
    assert main_arch(("gfx942", "sm_80")) == "sm_80"
    assert main_arch(("gfx942",)) == "sm_90"


@pytest.mark.parametrize(("arch", "kib"), [("sm_80", 163), ("sm_90a", 227), ("gfx942", 64)])
def test_shared_memory_of_a_block(arch: str, kib: int) -> None:
    assert shared_bytes(arch) == kib * 1024


def test_targets_share_a_text_where_the_schedule_is_the_same(rows: Instance) -> None:
    made = texts_for(rows, ("triton", "cuda"), ("sm_80", "sm_90", "gfx942"), Origin())
    found = [(t.backend, t.arch, set(t.targets)) for t in made.texts]
    assert found == [("triton", "sm_90", {"sm_80", "sm_90", "gfx942"}), ("cuda", "sm_90", {"sm_80", "sm_90"})]


def test_a_schedule_of_an_architecture_has_a_text_of_its_own() -> None:
    text = ROWS.replace("tile: full", "tile: 16") + "schedule: {cuda: {sm_90: {axes: {n: {tile: 32}}}}}\n"
    made = texts_for(instances(load(text))[0], ("cuda",), ("sm_80", "sm_90"), Origin())
    assert [(t.arch, t.targets) for t in made.texts] == [("sm_90", ("sm_90",)), ("sm_80", ("sm_80",))]
    new, old = (t.emitted.text for t in made.texts)
    assert "BLOCK_N = 32" in new and "BLOCK_N = 16" in old
    assert made.main("cuda") is made.texts[0].emitted
    assert made.main("triton") is None


def test_the_head_says_where_a_text_came_from(rows: Instance) -> None:
    made = texts_for(rows, ("triton", "cuda"), ("sm_90",), Origin("a/rows.yaml", "kgen build a/rows.yaml"))
    for text in made.texts:
        assert "a/rows.yaml" in text.emitted.text and "kgen build a/rows.yaml" in text.emitted.text
