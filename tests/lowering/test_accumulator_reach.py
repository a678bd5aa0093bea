"""Every field of an accumulator record reaches the text, or is held to the others by its proof."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from record_specs import USES, spec_of

from accumulator_mutants import Mutant, mutants
from kgen import accumulators, pipeline
from kgen.accumulators import Record, load_records, prove
from kgen.errors import KgenError
from kgen.generate import generate
from kgen.ops.key import Key
from kgen.pipeline import Target
from kgen.resolve import resolve

RECORDS = load_records()
HELD_BY_PROOF = ("direct", "lift")  # the oracle's formula; the element's state, which an `update` stands for


def text_of(name: str) -> str:
    """Return the Triton text of a kernel that uses all results of a record, split so that states are merged."""
    spec = spec_of(name, 3)
    math = resolve(spec, {})
    sizes = (("E", 16),) if "E" in math.sizes else ()
    units = tuple((t, len(x.dims) - 1 if x.dims else None) for t, x in math.tensors.items())
    return generate(spec, Key((), sizes, (), units, tuple(math.tensors), "i32", ()), Target("triton", "sm_90")).text


def refused(record: Record) -> bool:
    try:
        prove(record)
    except KgenError:
        return True
    return False


def with_record(record: Record, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Return the text with a record replaced and not proved, None if it cannot be lowered."""
    with monkeypatch.context() as patched:
        patched.setattr(accumulators, "load_records", lambda *_: RECORDS | {record.name: record})
        patched.setattr(pipeline.accumulators, "prove", lambda r: None)
        try:
            return text_of(record.name)
        except KgenError:
            return None


def one_for_each_field(record: Record) -> Iterator[Mutant]:
    """Yield the first corruption of every entry of every field."""
    seen = set()
    for mutant in mutants(record):
        if mutant.field not in seen:
            seen.add(mutant.field)
            yield mutant


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_fields_reach_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = text_of(name)
    for mutant in one_for_each_field(RECORDS[name]):
        field = mutant.field.split(".")[0]
        used = field not in HELD_BY_PROOF or (
            field == "lift" and not (RECORDS[name].update or RECORDS[name].update_tile)
        )
        if used:
            assert with_record(mutant.record, monkeypatch) != plain, f"{mutant.field}: {mutant.change}"
        else:
            assert refused(mutant.record), f"{mutant.field}: {mutant.change}"


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(RECORDS))
def test_no_corruption_is_silent(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = text_of(name)
    for mutant in mutants(RECORDS[name]):
        told = refused(mutant.record) or with_record(mutant.record, monkeypatch) != plain
        assert told, f"{mutant.field}: {mutant.change}"


def test_every_record_is_used() -> None:
    assert USES.keys() == RECORDS.keys()
