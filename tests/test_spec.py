"""Spec files: YAML with places, structure, `extends`, overrides, names, and hostile input."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kgen import resources
from kgen.errors import KgenError, SpecError
from kgen.schema import json_schema
from kgen.source import Source
from kgen.spec import Spec, load, parse
from kgen.spec_names import reason_against
from kgen.spec_reference import load_reference
from kgen.spec_yaml import dump, read
from marked_errors import errors

BASE = """\
kernel: scale
dtypes: {T: [f32, bf16]}
axes:
  m: {extent: M}
  n: {extent: N, tile: 64}
tensors:
  x: {dims: [m, n], dtype: T}
  y: {dims: [m, n], dtype: T, out: true}
params: {a: {dtype: f32, default: 1e-5}}
compute: |
  # a comment
  t = a * x[m, n]

  y[m, n] = t
schedule:
  cuda: {threads: 128, sm_90a: {threads: 256}}
"""
SHIPPED = sorted(p for p in resources.path("specs").glob("*.yaml") if p.stem != "predicates")


def edited(old: str, new: str) -> str:
    assert BASE.count(old) == 1, old
    return BASE.replace(old, new)


def test_a_spec_is_read() -> None:
    spec = load(BASE)
    assert spec.name == "scale"
    assert list(spec.model.axes) == ["m", "n"] and spec.model.axes["n"].tile == 64
    assert [x.text for x in spec.statements] == ["t = a * x[m, n]", "y[m, n] = t"]
    assert [(x.span.line, x.span.column) for x in spec.statements] == [(12, 3), (14, 3)]
    assert spec.model.schedule.cuda.archs["sm_90a"].threads == 256
    assert str(spec.span("axes", "n", "tile")) == "<spec>:5:24"
    assert str(spec.span("axes", "n", "tile", key=True)) == "<spec>:5:18"


def test_line_ends_and_byte_order_mark_do_not_matter() -> None:
    assert load("\ufeff" + BASE.replace("\n", "\r\n")).model == load(BASE).model


STRUCTURE = [
    ("tile: 64", "«tle»: 64", "unknown key 'tle'", "did you mean 'tile'?"),
    ("kernel: scale", "kernel: scale\n«blok»: 1", "unknown key 'blok'", None),
    ("tile: 64", "tile: «0»", "a tile is 'full' or an integer from 1 to 65536, not '0'", None),
    ("tile: 64", "tile: «-16»", "a tile is 'full' or an integer from 1 to 65536, not '-16'", None),
    ("tile: 64", "tile: «1.5»", "a tile is 'full' or an integer from 1 to 65536, not '1.5'", None),
    ("tile: 64", "tile: «'128'»", "a tile is 'full' or an integer from 1 to 65536, not '128'", None),
    ("tile: 64", "tile: «true»", "a tile is 'full' or an integer from 1 to 65536, not 'true'", None),
    ("tile: 64", "tile: «1048576»", "a tile is 'full' or an integer from 1 to 65536, not '1048576'", None),
    ("tile: 64", "tile: «010»", "a tile is 'full' or an integer from 1 to 65536, not '010'", None),
    ("out: true", "out: «yes»", "expected true or false, not 'yes'", None),
    ("[f32, bf16]", "[f32, «bf61»]", None, "did you mean 'bf16'?"),
    ("kernel: scale", "«kernel»:", "expected a name, not nothing", None),
    (
        "kernel: scale",
        "kernel: «no-name»",
        "'no-name' is not a name: expected a letter, then letters, digits or underscores",
        None,
    ),
    ("  m: {extent: M}", "  «class»: {extent: M}", "'class' is a reserved word and cannot be a name", None),
    ("  m: {extent: M}", "  «m»: {tile: 4}", "'axes.m' has no 'extent'", None),
    ("  m: {extent: M}", "  m: {extent: M, «fuse»: [m, n]}", "not built yet: fused axes", None),
    (
        "  m: {extent: M}",
        "  m: {extent: M, split: {«size»: 4, count: 2}}",
        "not built yet: split by a fixed size",
        None,
    ),
    (
        "  m: {extent: M}",
        "  m: {extent: M, split: {count: 2, combine: «last»}}",
        "not built yet: 'last'",
        "built is merge",
    ),
    ("  m: {extent: M}", "  m: {extent: M, split: {«size»: 4}}", "not built yet: split by a fixed size", None),
    ("  m: {extent: M}", "  m: {extent: M, «split»: {}}", "'axes.m.split' has no 'count'", None),
    ("t = a * x[m, n]", "t = a «=» x[m, n]", "unexpected '='", None),
    ("default: 1e-5", "default: 1 «$» 2", "unexpected character '$'", None),
    ("threads: 128", "threads: «100»", "expected a power of two from 32 to 1024, not 100", "nearest are 64 and 128"),
    (
        "threads: 128",
        "threads: «1000»",
        "expected a power of two from 32 to 1024, not 1000",
        "nearest are 512 and 1024",
    ),
    ("threads: 128", "threads: «16»", "expected an integer from 32 to 1024, not '16'", None),
    ("threads: 128", "«thread»: 128", "unknown key 'thread'", "did you mean 'threads'?"),
    ("threads: 256", "«thrads»: 256", "unknown key 'thrads'", "did you mean 'threads'?"),
    ("threads: 128", "«vector»: 4", "not built yet: schedule field 'vector'", None),
    ("compute: |", "compute: «>»", "a folded block joins the statements into one line", "write 'compute: |'"),
    ("params: {a: {dtype: f32, default: 1e-5}}", "«params»: [1]", "'params' expects a mapping, not a list", None),
    ("  m: {extent: M}", "  m: {extent: M, in: [16, «x»]}", "expected an integer from 1 to 2147483647, not 'x'", None),
]


@pytest.mark.parametrize(("old", "new", "message", "hint"), STRUCTURE, ids=[s[1][:30] for s in STRUCTURE])
def test_structure_errors(old: str, new: str, message: str | None, hint: str | None) -> None:
    ((found, given),) = errors(load, edited(old, new))
    assert message is None or found == message
    assert hint is None or given == hint


def test_all_errors_of_a_file_are_reported_at_once() -> None:
    text = edited("tile: 64", "tile: «0», «strem»: 1").replace("t = a *", "t = a «=»").replace("out: true", "out: «1»")
    assert len(errors(load, text)) == 4


def test_other_kinds_of_files_are_named() -> None:
    folder = resources.path("specs")
    for name, kind in (("predicates.yaml", "predicates"), ("accumulators/sum.yaml", "an accumulator record")):
        path = folder / name
        with pytest.raises(SpecError, match=f"^{path}:1:1: error: this file holds {kind}, not a kernel"):
            load(path)


def test_an_error_is_shown_with_its_line_and_a_caret() -> None:
    with pytest.raises(SpecError) as caught:
        load(edited("tile: 64", "tle: 64"))
    assert str(caught.value).split("\n") == [
        "<spec>:5:18: error: unknown key 'tle'",
        "    5 |   n: {extent: N, tle: 64}",
        "                         ^^^",
        "      hint: did you mean 'tile'?",
    ]


def test_the_quoting_trap_is_explained() -> None:
    for bad in ("{extent: kv«[»b], tile: 64}", "{extent: max(1«,» «2)», tile: 64}"):
        ((_, hint),) = errors(load, edited("{extent: N, tile: 64}", bad))[-1:]
        assert hint == "inside a YAML flow map an expression holding '[', '{', ',' or ': ' must be quoted"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\n«a»: 2\n", "the key 'a' is given twice, first in line 1"),
        ("a: «&x» 1\nb: 2\n", "anchors and aliases are not used in specs"),
        (
            "a: «!!python/object/apply:os.system» [1]\n",
            "tags such as 'tag:yaml.org,2002:python/object/apply:os.system' are not used in specs",
        ),
        ("a: 1\n«---»\nb: 2\n", "a spec is one YAML document, and a second one starts here"),
        ("- a\n", "expected a mapping of keys such as 'kernel: name' at the top level"),
        ("# nothing\n", "expected a mapping of keys such as 'kernel: name' at the top level"),
        ("\ta: 1\n", "this is not YAML: found character '\\t' that cannot start any token"),
        ("a: {b: c\n", None),
    ],
)
def test_hostile_or_broken_yaml(text: str, message: str | None) -> None:
    with pytest.raises(SpecError) as caught:
        load(text.replace("«", "").replace("»", ""))
    (found,) = caught.value.diagnostics
    assert found.span is not None
    if "«" in text:
        line, column = next((i, x.index("«")) for i, x in enumerate(text.split("\n"), 1) if "«" in x)
        assert (found.span.line, found.span.column) == (line, column + 1)
    assert message is None or found.message == message


def test_alias_bombs_and_deep_nesting_are_refused_fast() -> None:
    started = time.process_time()
    bomb = "a0: &a0 [x, x, x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
    for text in (bomb, "a: " + "[" * 2000 + "\n", "a: " + "{b: " * 2000 + "\n"):
        with pytest.raises(SpecError):
            load(text)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "name",
    ["../../x", "/abs", "a/b", "a\\b", "a\0b", ".", "", "a" * 300, "CON", "lambda", "int", "float", "template", "None",
     "bf16", "exp", "ähnlich", "_a", "1a", "a.__class__", "{{x}}"],
)  # fmt: skip
def test_names_that_are_refused(name: str) -> None:
    assert reason_against(name) is not None


def test_usual_names_are_allowed() -> None:
    assert [
        n for n in ("b", "h", "hk", "N", "lse", "x1", "flash_attn", "bias", "label", "eps") if reason_against(n)
    ] == []


# -- extends and overrides


def extended(tmp_path: Path, text: str) -> Spec:
    (tmp_path / "base.yaml").write_text(BASE.replace("params:", "require: [M > 0]\nparams:"))
    (tmp_path / "own.yaml").write_text(text)
    return load(tmp_path / "own.yaml")


def test_extends_merges_by_name_and_field(tmp_path: Path) -> None:
    spec = extended(
        tmp_path,
        """\
extends: base.yaml
kernel: own
axes: {n: {tile: 32}, k: {extent: K}}
tensors: {x: {dtype: f32}, z: {dims: [k], dtype: f32}}
params: {a: null}
require: N > 0
schedule: {triton: {warps: 2}}
""",
    )
    model = spec.model
    assert spec.name == "own" and model.axes["n"].tile == 32 and list(model.axes) == ["m", "n", "k"]
    assert (model.tensors["x"].dtype, len(model.tensors["x"].dims)) == ("f32", 2)
    assert model.params == {} and len(model.require) == 2
    assert model.schedule.cuda.threads is None and model.schedule.triton.warps == 2
    assert load(spec.text).model.axes.keys() == model.axes.keys()


def test_errors_of_an_extended_spec_point_into_its_file(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(edited("tile: 64", "tile: 0"))
    (tmp_path / "own.yaml").write_text("extends: base.yaml\nkernel: own\n")
    with pytest.raises(SpecError) as caught:
        load(tmp_path / "own.yaml")
    assert str(caught.value).startswith(f"{tmp_path / 'base.yaml'}:5:24: error: a tile is")


def test_extends_refuses_paths_circles_and_unknown_names(tmp_path: Path) -> None:
    def run(text: str) -> None:
        parse(Source("own.yaml", text), tmp_path)

    (tmp_path / "loop.yaml").write_text("extends: loop.yaml\nkernel: loop\n")
    assert "in a circle" in _first(run, "extends: loop.yaml\nkernel: own\n")
    for bad in ("../base.yaml", "/etc/passwd", "base", "[a]"):
        errors(run, f"«extends»: {bad}\nkernel: own\n")
    ((_, hint),) = errors(run, "extends: «flash_atn.yaml»\nkernel: own\n")
    assert hint == "did you mean 'flash_attn.yaml'?"


def _first(run: object, text: str) -> str:
    with pytest.raises(SpecError) as caught:
        run(text)  # type: ignore[operator]
    return caught.value.diagnostics[0].message


def test_overrides_change_one_value() -> None:
    spec = parse(
        Source("t", BASE), None, ["axes.n.tile=32", "mask=n <= m and m - n < 1024", "schedule.triton={warps: 8}"]
    )
    assert spec.model.axes["n"].tile == 32 and spec.model.mask is not None
    assert spec.model.schedule.triton.warps == 8
    assert load(spec.text).model == spec.model.model_copy()
    assert parse(Source("t", BASE), None, ["schedule="]).model.schedule.cuda.threads is None
    assert parse(Source("t", BASE), None, ["dtypes.T=[f16]"]).model.dtypes == {"T": ("f16",)}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("axes.n.«tle»=3", "unknown key 'tle'"),
        ("axes.n.tile=«x»", "a tile is 'full' or an integer from 1 to 65536, not 'x'"),
        ("mask=n <= «=» m", "unexpected '='"),
        ("«axes»", "expected key.path=value"),
        ("«a-b»=1", "expected key.path=value"),
        ("schedule.cuda={threads: «x»}", "expected an integer from 32 to 1024, not 'x'"),
        ("axes.n.tile.«x»=3", "there is no key 'x' below a value"),
        ("tensors.x.dims.«7»=m", "'7' is not an entry of this list of 2"),
    ],
)
def test_errors_in_overrides_are_placed_in_them(override: str, message: str) -> None:
    ((found, _),) = errors(lambda o: parse(Source("t", BASE), None, [o]), override)
    assert found == message


def test_a_missing_file_is_an_error_without_traceback(tmp_path: Path) -> None:
    with pytest.raises(KgenError, match="cannot read the spec"):
        load(tmp_path / "none.yaml")


# -- shipped specs


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_printing_a_spec_and_reading_it_gives_the_same_spec(path: Path) -> None:
    spec = load(path)
    assert load(dump(spec.tree)).model == spec.model
    assert read(Source("t", dump(spec.tree))) == spec.tree


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_specs_have_a_doc_and_a_reference(path: Path) -> None:
    spec = load(path)
    assert spec.name == path.stem and spec.model.doc.endswith(".")
    assert load_reference(spec) is not None


def test_an_unknown_reference_is_an_error_with_a_hint() -> None:
    spec = load(BASE + "reference: soft_max\n")
    with pytest.raises(SpecError, match=r"no function 'soft_max'(.|\n)*did you mean 'softmax'\?"):
        load_reference(spec)


def test_names_imported_by_references_are_no_references(tmp_path: Path) -> None:
    (tmp_path / "references.py").write_text("from os import system\n\ndef mine(x):\n    return x\n")
    (tmp_path / "a.yaml").write_text(BASE + "reference: system\n")
    with pytest.raises(SpecError, match="no function 'system'"):
        load_reference(load(tmp_path / "a.yaml"))
    (tmp_path / "a.yaml").write_text(BASE + "reference: mine\n")
    assert load_reference(load(tmp_path / "a.yaml")) is not None


# -- the schema for editors


def keys(schema: dict[str, object], *path: str) -> set[str]:
    """Return the keys that the schema allows at a path of definitions."""
    found: dict[str, object] = schema["$defs"][path[0]] if path else schema  # type: ignore[index]
    return set(found["properties"])  # type: ignore[call-overload]


def test_schema_lists_the_keys_of_the_language() -> None:
    schema = json_schema()
    assert schema["$schema"].endswith("2020-12/schema")
    assert {"kernel", "extends", "axes", "tensors", "compute", "mask", "schedule"} <= keys(schema)
    assert keys(schema, "AxisModel") == {"extent", "in", "tile", "stream", "split", "max", "paged", "ragged", "fuse"}
    assert "archs" not in keys(schema, "BackendModel")
    (pattern,) = schema["$defs"]["BackendModel"]["patternProperties"]
    assert pattern == "^(sm_\\d+[af]?|gfx\\w+)$"
