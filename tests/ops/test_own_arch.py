"""A GPU with features of its own gets the text that uses them, where the package has one."""

from __future__ import annotations

import json

import pytest

from kgen.ops.variants import arch_of, packaged
from kgen.package import PackagedVariant, package_files
from kgen.resources import path
from kgen.spec import load
from kgen.workflow.instance import instances
from kgen.workflow.texts import Origin, texts_for

TARGETS = ("sm_80", "sm_90", "sm_90a")


@pytest.mark.parametrize(("major", "minor", "name"), [(8, 0, "sm_80"), (8, 9, "sm_89"), (9, 0, "sm_90a")])
def test_arch_of_a_gpu(major: int, minor: int, name: str) -> None:
    assert arch_of(major, minor) == name


def test_the_text_for_one_architecture_goes_before_that_for_all() -> None:
    spec = load(path("specs") / "matmul.yaml", ["variants=[{T: bf16}]"])
    (instance,) = instances(spec)
    made = texts_for(instance, ("cuda",), TARGETS, Origin())
    files = package_files(spec, [PackagedVariant(made.key, None, made.main("cuda"), made.own("cuda"))], "kgen build")
    manifest = json.loads(files["manifest.json"])
    found = {arch: packaged(manifest, made.key, "cuda", arch) for arch in ("sm_80", "sm_90", "sm_90a")}
    assert {arch: f and f[1] for arch, f in found.items()} == {
        "sm_80": "kernel.cu",
        "sm_90": "kernel.cu",
        "sm_90a": "kernel_sm_90a.cu",
    }
    assert "wgmma" in files["kernel_sm_90a.cu"]
    assert "wgmma" not in files["kernel.cu"]
    own = found["sm_90a"]
    assert own is not None and own[0].kernels[0].threads == 256
