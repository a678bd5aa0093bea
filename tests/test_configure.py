"""Configure: overrides by level, roles, grids, kernels, target fields, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgen import resources
from kgen.configure import AxisConfig, Config, Materialize, configure
from kgen.configure_levels import newest_arch
from kgen.errors import KgenError, SpecError
from kgen.resolve import resolve, variants
from kgen.spec import load
from kgen.types import BF16, F32, DType
from marked_errors import errors

SPECS = [
    *sorted(p for p in resources.path("specs").glob("*.yaml") if p.stem != "predicates"),
    *sorted((Path(__file__).parent / "specs").glob("worked_*.yaml")),
]


def text_of(schedule: str = "", axes: str = "", compute: str = "y[m, n] = sum[k](x[m, k] * w[k, n])") -> str:
    lines = "\n".join(f"  {line}" for line in schedule.split("\n"))
    body = "\n".join(f"  {line}" for line in compute.split("\n"))
    return f"""\
kernel: test
dtypes: {{T: [bf16, f32]}}
axes:
  m: {{extent: M, tile: 64}}
  n: {{extent: N, tile: 64}}
  k: {{extent: K, tile: 32, stream: true}}
  d: {{extent: D, in: [16, 64]}}
  {axes}
tensors:
  x: {{dims: [m, k], dtype: T}}
  w: {{dims: [k, n], dtype: T}}
  v: {{dims: [d], dtype: T}}
  y: {{dims: [m, n], dtype: T, out: true}}
  z: {{dims: [m], dtype: f32, out: true}}
params: {{c: {{dtype: bool, static: true, default: true}}, a: {{dtype: f32, default: 1}}}}
compute: |
{body}
  z[m] = sum[d](v[d]) + m
schedule:
{lines}
"""


def config(text: str, backend: str = "cuda", arch: str = "sm_80", dtype: DType = BF16, size: int = 64) -> Config:
    spec, dtypes = load(text), {"T": dtype}
    math = resolve(spec, dtypes)
    return configure(math, spec, backend=backend, arch=arch, dtypes=dtypes, sizes={"D": size}, params={"c": True})


def tiles(text: str, **target: Any) -> tuple[int | str | None, ...]:
    return tuple(config(text, **target).axes[a].tile for a in "mnk")


LEVELS = """\
axes: {m: {tile: 2}, n: {tile: 2}, k: {tile: 2}}
triton: {axes: {n: {tile: 3}}, warps: 8}
cuda:
  axes: {n: {tile: 4}, k: {tile: 4}}
  threads: 64
  sm_80: {axes: {k: {tile: 5}}, threads: 128}
  sm_90a: {axes: {k: {tile: 6}}, cases: [{when: T == f32, axes: {k: {tile: 7}}}, {when: D == 64, threads: 256}]}
  cases: [{when: T == f32, threads: 512}]"""


def test_later_levels_override_earlier_ones() -> None:
    assert tiles(text_of("grid: [m, n]")) == (64, 64, 32)
    assert tiles(text_of(LEVELS), backend="triton") == (2, 3, 2)
    assert tiles(text_of(LEVELS)) == (2, 4, 5)
    assert tiles(text_of(LEVELS), arch="sm_90a") == (2, 4, 6)
    assert tiles(text_of(LEVELS), arch="sm_90a", dtype=F32) == (2, 4, 7)
    assert tiles(text_of(LEVELS), arch="sm_75") == (2, 4, 4)


def test_the_first_case_that_holds_is_taken_innermost_level_first() -> None:
    def threads(arch: str, dtype: DType, size: int = 64) -> int | None:
        return config(text_of(LEVELS), arch=arch, dtype=dtype, size=size).threads

    assert threads("sm_80", BF16) == 128
    assert threads("sm_80", F32) == 512
    assert threads("sm_90a", BF16) == 256
    assert threads("sm_90a", BF16, 16) == 64
    assert threads("sm_90a", F32) == 64  # the first case holds and leaves threads alone


@pytest.mark.parametrize(
    ("listed", "arch", "found"),
    [
        (("sm_80", "sm_90a"), "sm_90a", "sm_90a"),
        (("sm_80", "sm_90a"), "sm_90", "sm_80"),
        (("sm_80", "sm_90a"), "sm_100", "sm_80"),
        (("sm_80", "sm_86", "sm_90"), "sm_89", "sm_86"),
        (("sm_90",), "sm_80", None),
        (("gfx942",), "gfx942", "gfx942"),
        (("sm_80",), "gfx942", None),
    ],
)
def test_the_newest_listed_architecture(listed: tuple[str, ...], arch: str, found: str | None) -> None:
    assert newest_arch(listed, arch) == found


# -- conditions


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ("D == 64", True), ("D != 64", False), ("D >= 64 and T == bf16", True), ("T == f32 or D < 64", False),
        ("not c", False), ("c == true", True), ("D // 16 == 4", True), ("D % 48 == 16", True), ("T != f32", True),
        ("D * 2 - 8 <= 120", True), ("-D < 0", True),
    ],
)  # fmt: skip
def test_conditions(when: str, holds: bool) -> None:
    assert config(text_of(f"cuda: {{cases: [{{when: {when}, threads: 256}}]}}")).threads == (256 if holds else None)


CASES: list[tuple[str, str]] = [
    ("«M» > 64", "a case cannot depend on 'M', which is known at a call only"),
    ("«a» > 1", "a case cannot depend on 'a', which is known at a call only"),
    ("«DD» == 64", "unknown name 'DD'"),
    ("«D»", "a case needs a condition, such as 'D == 64' or 'T == f32'"),
    ("«T < f32»", "dtypes have no '<'"),
    ("«T == 64»", "a dtype is compared with a number"),
    ("«D and c»", "'and' needs conditions"),
    ("«exp(D)» > 1", "a case compares static sizes, dtypes and static params"),
]


@pytest.mark.parametrize(("when", "message"), CASES)
def test_errors_of_conditions(when: str, message: str) -> None:
    ((found, _),) = errors(config, text_of(f"cuda: {{cases: [{{when: {when}, threads: 256}}]}}"))
    assert found == message


# -- roles and grids


def test_roles() -> None:
    found = config(text_of("grid: [m, n]"))
    assert found.roles == {"m": "grid", "n": "grid", "k": "stream", "d": "whole"}
    assert found.axes["k"] == AxisConfig(32, True, None)
    for override in ("{tile: full}", "{tile: full, stream: false}"):
        full = config(text_of(f"axes: {{k: {override}}}"))
        assert full.roles["k"] == "whole" and full.axes["k"] == AxisConfig("full", False, None)
    split = config(text_of("axes: {k: {split: {count: auto}}}"))
    assert split.axes["k"] == AxisConfig(32, True, "auto")
    assert config(text_of("axes: {k: {split: {count: 4}}}")).roles["k"] == "stream"


def test_the_grid_follows_the_spec_or_the_schedule() -> None:
    assert config(text_of("grid_swizzle: {m: 8}")).grid == (("m", False), ("n", False))
    assert config(text_of("grid_swizzle: {m: 8}")).grid_swizzle == {"m": 8}
    assert config(text_of("grid: [n, m desc]")).grid == (("n", False), ("m", True))
    assert config(text_of("grid: [n]")).grid == (("n", False), ("m", False))


def test_a_reduction_over_a_grid_axis_is_refused_with_the_remedies() -> None:
    compute = "y[m, n] = «sum[k](x[m, k] * w[k, n])»"
    for schedule in ("axes: {k: {stream: false}}",):
        ((message, hint),) = errors(config, text_of(schedule, compute=compute))
        assert message == "this reduces over 'k', an axis of the grid: each program would see only its own part"
        assert hint is not None and all(word in hint for word in ("stream: true", "tile: full", "in: [...]", "split"))


def test_tiling_a_static_axis_needs_a_loop() -> None:
    text = text_of("axes: {d: {tile: 16}}").replace("sum[d](v[d])", "«sum[d](v[d])»")
    ((message, hint),) = errors(config, text)
    assert message == "this reduces over 'd', an axis of the grid: each program would see only its own part"
    assert hint is not None and hint.startswith("remove the tile of 'd', whose extent is known when compiling")
    assert config(text_of("axes: {d: {tile: 16, stream: true}}")).roles["d"] == "stream"


# -- several kernels


STAGED = "s = x[m, k] * 2\ny[m, n] = sum[k](s * w[k, n])"


def test_materialized_intermediates_have_a_config_of_their_own() -> None:
    schedule = """\
materialize: {s: {in: global, dtype: T}}
kernels: {s: {axes: {k: {tile: 128, stream: false}}}, z: {axes: {m: {tile: 16}}}}
cuda: {threads: 64, kernels: {s: {threads: 256}}}"""
    found = config(text_of(schedule, compute=STAGED))
    assert found.materialize == {"s": Materialize("global", BF16)}
    assert set(found.kernels) == {"s", "z"}
    s, z = found.kernels["s"], found.kernels["z"]
    assert (s.grid, s.roles["k"], s.axes["k"].tile, s.threads) == ((("m", False), ("k", False)), "grid", 128, 256)
    assert (z.grid, z.axes["m"].tile, z.threads) == ((("m", False),), 16, 64)
    assert (found.grid, found.roles["k"], found.axes["m"].tile) == ((("m", False), ("n", False)), "stream", 64)


def test_a_kernel_that_reduces_over_its_grid_is_refused_by_itself() -> None:
    schedule = "materialize: {s: {in: global}}\nkernels: {s: {axes: {k: {stream: false}}}}"
    compute = "s = x[m, k] / «sum[k](x[m, k])»\ny[m, n] = sum[k](s * w[k, n])"
    ((message, _),) = errors(config, text_of(schedule, compute=compute))
    assert "an axis of the grid" in message


# -- target fields


def test_defaults() -> None:
    triton, cuda = config(text_of("grid: [m, n]"), "triton"), config(text_of("grid: [m, n]"))
    assert (triton.skeleton, triton.warps, triton.stages, triton.notes) == ("triton", 4, 2, ())
    assert (cuda.skeleton, cuda.threads, cuda.notes) == ("simt", None, ())


def test_a_field_of_a_skeleton_that_is_not_built_lapses_with_a_note() -> None:
    schedule = "cuda: {threads: 64, sm_90a: {skeleton: wgmma, consumers: 2, stages: 3, overlap: intra}}"
    found = config(text_of(schedule), arch="sm_90a")
    assert (found.skeleton, found.target.requested, found.stages) == ("wgmma", "wgmma", 3)
    assert (found.target.consumers, found.threads) == (2, 64)
    assert found.notes == ("not built yet, without effect: overlap",)


def test_a_skeleton_keeps_the_fields_of_those_it_may_give_way_to() -> None:
    found = config(text_of("cuda: {threads: 64, sm_80: {skeleton: mma, warps: 8}}"))
    assert (found.skeleton, found.warps, found.stages, found.threads, found.notes) == ("mma", 8, 2, 64, ())


SCHEDULES: list[tuple[str, str, str | None]] = [
    ("cuda: {«warps»: 4}", "'warps' is not a field of simt", "it belongs to triton, mma; simt has threads"),
    ("cuda: {sm_80: {skeleton: mma, «consumers»: 4}}", "'consumers' is not a field of mma", None),
    ("«warps»: 4", "'warps' belongs to a backend", "write it under schedule.triton or schedule.cuda"),
    ("axes: {«q»: {tile: 4}}", "unknown axis 'q'", None),
    (
        "cases: [{when: T == f32, «triton»: {warps: 4}}]",
        "unknown key 'triton'",
        "'triton' stands directly below schedule",
    ),
    ("kernels: {z: {«cases»: []}}", "unknown key 'cases'", "'cases' stands directly below schedule"),
    (
        "cases: [{when: T == f32, «sm_80»: {}}]",
        "unknown key 'sm_80'",
        "'sm_80' stands directly below schedule.triton or schedule.cuda",
    ),
    ("cuda: {axes: {«mm»: {tile: 4}}}", "unknown axis 'mm'", "did you mean 'm'?"),
    ("grid_swizzle: {«mm»: 4}", "unknown axis 'mm'", "did you mean 'm'?"),
    ("«grid_swizzle»: {n: 4}", "'n' varies fastest in the grid: its programs run together already", "group m"),
    ("grid: [n, m]\n«grid_swizzle»: {m: 4}", "'m' varies fastest in the grid: its programs run together already", None),
    (
        "axes: {k: {tile: full, stream: «true»}}",
        "'stream' has no effect beside 'tile: full': 'k' is held whole, and not walked",
        "remove 'stream', or give 'k' a tile such as 64",
    ),
    (
        "axes: {k: {tile: full, «split»: {count: 2}}}",
        "'split' has no effect beside 'tile: full': 'k' is held whole, and not walked",
        None,
    ),
    (
        "axes: {k: {tile: full}}\ncuda: {axes: {k: {stream: «true»}}}",
        "'stream' has no effect beside 'tile: full': 'k' is held whole, and not walked",
        None,
    ),
    (
        "axes: {k: {stream: «false», split: {count: 4}}}",
        "'stream: false' has no effect beside 'split': parts are walked",
        "remove 'stream' or 'split'",
    ),
    ("axes: {n: {«split»: {count: 4}}}", "nothing is reduced over 'n', so 'split' has no effect", "remove 'split'"),
    ("kernels: {z: {«grid»: [n]}}", "'n' is no axis of the grid", None),
    (
        "kernels: {z: {«grid_swizzle»: {m: 4}}}",
        "'m' varies fastest in the grid: its programs run together already",
        None,
    ),
    ("kernels: {z: {axes: {«n»: {tile: 4}}}}", "the kernel of 'z' has no axis 'n'", "it has d, m"),
    ("«grid»: [m, q]", "unknown axis 'q' in the grid", None),
    ("«grid»: [m, n, m]", "the axis 'm' stands twice in the grid", None),
    ("«grid»: [m, n, k]", "'k' is no axis of the grid", "it is a stream axis"),
    ("«grid_swizzle»: {k: 2}", "'k' is no axis of the grid", "it is a stream axis"),
    ("«loops»: [m]", "'m' is no stream axis: it is not walked in a loop", "stream axes are k"),
    ("«loops»: [k, k]", "'loops' names every stream axis once, outermost first", None),
    ("materialize: {«q»: {in: global}}", "'q' is no named intermediate", None),
    ("kernels: {«yy»: {grid: [m]}}", "no kernel produces 'yy'", "did you mean 'y'?"),
    ("«persistent»: true", "not built yet: persistent grids", None),
    ("«state»: memory", "not built yet: schedule field 'state'", None),
    ("«finish»: each_tile", "not built yet: schedule field 'finish'", None),
    ("cuda: {«warps_along»: k}", "not built yet: schedule field 'warps_along'", None),
    ("cuda: {skeleton: «mna»}", "expected 'simt' or 'mma' or 'wgmma', not 'mna'", "did you mean 'mma'?"),
]


@pytest.mark.parametrize(("schedule", "message", "hint"), SCHEDULES)
def test_errors_of_schedules(schedule: str, message: str, hint: str | None) -> None:
    ((found, given),) = errors(config, text_of(schedule))
    assert found == message
    assert hint is None or given == hint


def test_other_errors_of_a_schedule() -> None:
    amd: Callable[[str], Config] = lambda t: config(t, "triton", "gfx942")  # noqa: E731
    ((message, _),) = errors(amd, text_of("triton: {warps: «32»}"))
    assert message == "at most 16 warps on gfx942: 64 threads are a warp there, not 32"
    in_triton: Callable[[str], Config] = lambda t: config(t, "triton")  # noqa: E731
    ((message, _),) = errors(in_triton, text_of("triton: {«threads»: 64}"))
    assert message == "'threads' is not a field of triton"
    ((message, _),) = errors(in_triton, text_of("triton: {«skeleton»: mma}"))
    assert message == "'skeleton' is for CUDA: Triton has one"
    ((message, _),) = errors(config, text_of("materialize: {s: {in: «shared»}}", compute=STAGED))
    assert message == "not built yet: 'shared'"
    ((message, _),) = errors(config, text_of("materialize: {s: {in: global, dtype: «f31»}}", compute=STAGED))
    assert message == "'f31' is no dtype"
    with pytest.raises(KgenError, match="unknown backend 'metal'"):
        config(text_of("grid: [m, n]"), "metal")


def test_static_sizes_must_be_choices() -> None:
    with pytest.raises(SpecError, match=r"the static size 'D' is 48(.|\n)*it can be 16 or 64"):
        config(text_of("grid: [m, n]"), size=48)


def test_loops_may_be_ordered() -> None:
    schedule = "loops: [d, k]\naxes: {d: {tile: 16, stream: true}}"
    nested = "y[m, n] = sum[k, d](x[m, k] * w[k, n] * v[d])"
    assert config(text_of(schedule, compute=nested)).loops == ("d", "k")
    ((message, _),) = errors(config, text_of(schedule.replace("loops", "«loops»")))
    assert message == "no loop is inside another here, so 'loops' has no effect"


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
@pytest.mark.parametrize(("backend", "arch"), [("triton", "sm_80"), ("cuda", "sm_80"), ("cuda", "sm_90a")])
def test_every_spec_is_configured(path: Path, backend: str, arch: str) -> None:
    spec = load(path)
    for v in variants(spec):
        math = resolve(spec, v.dtypes)
        found = configure(math, spec, backend=backend, arch=arch, dtypes=v.dtypes, sizes=v.sizes, params=v.params)
        assert set(found.roles) == set(math.axes)
        assert [a for a, _ in found.grid if found.roles[a] != "grid"] == []


def test_attention_in_three_kernels() -> None:
    spec = load(Path(__file__).parent / "specs" / "worked_h.yaml")
    dtypes = {"T": BF16}
    math = resolve(spec, dtypes)
    found = configure(
        math, spec, backend="triton", arch="sm_80", dtypes=dtypes, sizes={"D": 64, "E": 64}, params={"causal": True}
    )
    assert {n: m.dtype for n, m in found.materialize.items()} == {"s": F32, "p": BF16}
    assert [a for a, _ in found.kernels["s"].grid] == ["b", "h", "m", "n"]
    assert found.kernels["p"].roles["n"] == "whole" and [a for a, _ in found.kernels["p"].grid] == ["b", "h", "m"]
    assert found.roles["n"] == "stream" and [a for a, _ in found.grid] == ["b", "h", "m"]
