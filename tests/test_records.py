"""Records beside a spec: found, proved, computed by the oracle, packaged; clashes with shipped ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kgen import resources
from kgen.accumulators import load_records
from kgen.errors import SpecError
from kgen.package import PackagedVariant, package_files
from kgen.resolve import resolve
from kgen.spec import Spec, load
from kgen.types import F32
from kgen.verify import oracle
from kgen.verify.subject import Call
from kgen.workflow.check import check
from kgen.workflow.instance import instances
from kgen.workflow.progress import Silent
from kgen.workflow.subjects import TritonInterpreter
from kgen.workflow.texts import Origin, texts_for

AMAX = """\
inputs: [x]
domain: [-inf, inf, nan]
state: {m: {identity: 0}}
lift: {m: abs(x)}
merge: {m: "max(a.m, b.m)"}
finish: {amax: m}
direct: {amax: "max(0, max[.](abs(x)))"}
"""
SPEC = """\
kernel: rows
dtypes: {T: [f32, bf16]}
axes: {m: {extent: M, tile: 4}, n: {extent: N, tile: 16, stream: true}}
tensors: {x: {dims: [m, n], dtype: T}, a: {dims: [m], dtype: f32, out: true}}
compute: a[m] = amax[n](x[m, n])
"""


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    """A spec in a folder with a record of its own."""
    (tmp_path / "accumulators").mkdir()
    (tmp_path / "accumulators" / "amax.yaml").write_text(AMAX)
    (tmp_path / "rows.yaml").write_text(SPEC)
    return load(tmp_path / "rows.yaml")


def test_a_record_beside_the_spec_serves_it(spec: Spec) -> None:
    assert check(spec, ("triton", "cuda"), ("sm_90",), Silent()).accumulators == ("amax",)
    x = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    want = x.abs().amax(1)
    found = oracle.evaluate(resolve(spec, {"T": F32}), {"x": x}, {}, {"M": 5, "N": 40})
    assert torch.equal(found["a"].float(), want)
    call = Call({"x": x}, {"M": 5, "N": 40}, {}, {"a": torch.zeros(5)})
    TritonInterpreter(instances(spec)[0], "sm_90").run(call)
    assert torch.equal(call.outputs["a"], want)


def test_the_package_holds_the_record(spec: Spec, tmp_path: Path) -> None:
    made = texts_for(instances(spec)[0], ("triton",), ("sm_90",), Origin())
    files = package_files(spec, [PackagedVariant(made.key, made.main("triton"), None)], "kgen build")
    for name in ("spec.yaml", "accumulators/amax.yaml"):
        (tmp_path / "package" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "package" / name).write_text(files[name])
    assert resolve(load(tmp_path / "package" / "spec.yaml"), {"T": F32}).reductions()


def test_without_the_folder_the_name_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text(SPEC)
    with pytest.raises(SpecError, match="unknown reduction 'amax'"):
        resolve(load(tmp_path / "rows.yaml"), {"T": F32})


def test_a_wrong_record_is_refused_before_its_use(spec: Spec, tmp_path: Path) -> None:
    (tmp_path / "accumulators" / "amax.yaml").write_text(AMAX.replace("lift: {m: abs(x)}", "lift: {m: x}"))
    with pytest.raises(SpecError, match=r"amax.yaml:5:9: error: accumulator 'amax': the identity is not neutral"):
        check(spec, ("triton",), ("sm_90",), Silent())


def test_the_name_of_a_shipped_record_is_taken(spec: Spec, tmp_path: Path) -> None:
    own = tmp_path / "accumulators" / "sum.yaml"
    own.write_text((resources.path("specs") / "accumulators" / "sum.yaml").read_text())
    assert "sum" in load_records(tmp_path / "accumulators"), "a copy is no clash"
    own.write_text(AMAX)
    with pytest.raises(SpecError, match=r"sum.yaml:1:1: error: there is a shipped record 'sum'(.|\n)*another name"):
        resolve(spec, {"T": F32})


def test_shipped_specs_have_the_shipped_records_only() -> None:
    folder = resources.path("specs") / "accumulators"
    assert load_records(folder).keys() == load_records().keys()
