"""Packages: what the files hold, how lines are broken, and that a folder is replaced whole or left alone."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from tests.ops import specs
from tests.ops.packages import variants_of

from kgen import package
from kgen.errors import KgenError
from kgen.ops.key import Key
from kgen.ops.plan import LaunchPlan
from kgen.package import manifest_text, package_files, write_package
from kgen.package_lines import WIDTH, prose, quoted, wrapped
from kgen.package_op import schema
from kgen.spec import Spec, load


def loaded(text: str, folder: Path) -> Spec:
    path = folder / "source.yaml"
    path.write_text(text)
    return load(path)


@pytest.fixture
def add_into(tmp_path: Path) -> Spec:
    return loaded(specs.ADD_INTO, tmp_path)


def test_files_and_manifest(add_into: Spec) -> None:
    variants = variants_of(add_into)
    files = package_files(add_into, variants, "kgen build source.yaml")
    assert sorted(files) == ["__init__.py", "kernel.cu", "manifest.json", "op.py", "spec.yaml", "triton_kernel.py"]
    manifest = json.loads(files["manifest.json"])
    assert files["spec.yaml"] == add_into.text
    assert manifest["schema"] == "ops_add_into(Tensor(a!) r, Tensor x, str? backend=None) -> Tensor"
    assert [t["name"] for t in manifest["tensors"]] == ["r", "x", "d", "y"]
    assert (manifest["sizes"], manifest["types"], manifest["params"]) == (["M", "N"], ["T"], [])
    (variant,) = manifest["variants"]
    assert Key.from_json(variant["key"]) == variants[0].key
    for backend, emitted in variants[0].emitted().items():
        assert LaunchPlan.from_json(variant[backend]["launch"]) == emitted.launch
        assert files[variant[backend]["file"]] == emitted.text


def test_every_variant_has_its_files(tmp_path: Path) -> None:
    text = specs.ADD_INTO + "variants: [{T: f32}, {T: bf16}]\n"
    spec = loaded(text, tmp_path)
    files = package_files(spec, variants_of(spec), "kgen build source.yaml")
    assert {"kernel.cu", "kernel_bf16.cu", "triton_kernel.py", "triton_kernel_bf16.py"} <= files.keys()
    doubled = [*variants_of(spec), variants_of(spec)[1]]
    with pytest.raises(KgenError, match=r"two variants would both be written to triton_kernel_bf16\.py"):
        package_files(spec, doubled, "kgen build source.yaml")


def test_schema_of_sizes_and_params(tmp_path: Path) -> None:
    spec = loaded(specs.REPEAT, tmp_path)
    math = next(iter(variants_of(spec)[0].emitted().values())).lowered.math
    assert schema(spec, math) == (
        "ops_repeat(Tensor x, SymInt S, float? a=None, SymInt k=3, bool twice=False, str? backend=None) -> Tensor"
    )


def test_a_package_is_replaced_whole(add_into: Spec, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = write_package(add_into, variants_of(add_into), out, "first")
    (out / "ops_add_into" / "stale.txt").write_text("of an older version")
    second = write_package(add_into, variants_of(add_into), out, "second")
    assert first == second == sorted((out / "ops_add_into").iterdir())
    assert "Made by: second" in (out / "ops_add_into" / "op.py").read_text()
    assert [p.name for p in out.iterdir()] == ["ops_add_into"], "nothing temporary is left"


def test_a_failure_leaves_the_old_package(add_into: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    variants = variants_of(add_into)
    files = {p: p.read_text() for p in write_package(add_into, variants, out, "first")}

    def broken(*_: object) -> dict[str, str]:
        raise OSError("no space left on device")

    monkeypatch.setattr(package, "package_files", broken)
    with pytest.raises(OSError, match="no space"):
        write_package(add_into, variants, out, "second")
    assert {p: p.read_text() for p in files} == files
    assert [p.name for p in out.iterdir()] == ["ops_add_into"]


def test_text_of_a_spec_cannot_break_the_module(tmp_path: Path) -> None:
    doc = "Quotes \\\"\\\"\\\" and a backslash \\\\ and {{ braces }} at the end \\\""
    spec = loaded(specs.ONLY_INPLACE.replace("dtypes:", f'doc: "{doc}"\ndtypes:', 1), tmp_path)
    files = package_files(spec, variants_of(spec), "kgen build source.yaml")
    for name in ("op.py", "__init__.py"):
        wanted = 'Quotes """ and a backslash \\ and {{ braces }} at the end "'
        assert wanted in (ast.get_docstring(ast.parse(files[name])) or "")


@pytest.mark.parametrize(
    "line",
    [
        "short = call(a, b)",
        f'checks.dtype({{{", ".join(f"{chr(34)}tensor{i}{chr(34)}: tensor{i}" for i in range(9))}}}, T_TYPES)',
        f"return ({', '.join(f'SIZE{i}' for i in range(30))}), (_T,)",
        f'checks.require(A == B, "a text, with (brackets) {"and many words " * 8}", {{"A": A}})',
        "def name(" + ", ".join(f"argument{i}: Tensor" for i in range(8)) + ") -> tuple[Tensor, Tensor]:\n    pass",
    ],
)
def test_broken_lines_say_the_same(line: str) -> None:
    head, _, rest = line.partition("\n")
    lines = list(wrapped(head))
    assert ast.dump(ast.parse("\n".join(lines) + "\n" + rest)) == ast.dump(ast.parse(line)).replace("\n", "\n")
    if len(head) <= WIDTH:
        assert lines == [head]
    else:
        assert max(len(part) for part in lines if '"a text' not in part) <= WIDTH


def test_prose_and_quotes() -> None:
    lines = prose("word " * 50 + "\n\nSecond paragraph.\n")
    assert max(map(len, lines)) <= WIDTH - 8
    assert lines[-2:] == ["", "Second paragraph."]
    assert ast.literal_eval(f'"""{quoted(chr(92) + chr(34) * 3)}\n"""') == '\\"""\n'


def test_manifest_text_is_json_with_short_lines() -> None:
    value = {"a": list(range(100)), "b": {"c": ["x" * 30] * 3, "d": None}, "e": [], "f": ({"g": 1.5},) * 20}
    text = manifest_text(value)
    assert json.loads(text) == json.loads(json.dumps(value))
    assert max(map(len, text.splitlines())) <= WIDTH
