"""The wheel holds all that kgen needs: installed alone, away from the checkout, it builds and runs a spec."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("dsl", "templates", "specs", "pyproject.toml", "README.md")

BUILD = """
import json, sys
from pathlib import Path
import torch
import kgen
from kgen import resources
from kgen.build import default_root
from kgen.ops.backends import TritonBackend
from kgen.ops.execute import execute
from kgen.ops.on_demand import module_file
from kgen.ops.simulated import SimulatedBackend
from kgen.package import PackagedVariant, write_package
from kgen.spec import load
from kgen.verify.interpreter import ensure_correct
from kgen.workflow.instance import instances
from kgen.workflow.texts import Origin, texts_for

spec = load(resources.path("specs") / "row_sum.yaml")
texts = texts_for(instances(spec)[0], ("triton", "cuda"), ("sm_90",), Origin("specs/row_sum.yaml", "kgen build"))
triton, cuda = texts.main("triton"), texts.main("cuda")
ensure_correct()
backends = {
    "triton": (triton, TritonBackend(module_file(triton.text), triton.launch, interpreted=True)),
    "cuda": (cuda, SimulatedBackend(cuda.text, cuda.launch, default_root() / "simulator")),
}
x = torch.randn(5, 300)
wrong = []
for name, (emitted, backend) in backends.items():
    s = torch.full((5,), float("nan"))
    execute(emitted.launch, {"x": x, "s": s}, {"M": 5, "N": 300}, backend)
    if not torch.allclose(s, x.sum(1), atol=1e-4):
        wrong.append(name)
files = write_package(spec, [PackagedVariant(texts.key, triton, cuda)], Path(sys.argv[1]), "kgen build")
sys.path.insert(0, sys.argv[1])
from row_sum import row_sum
if not torch.allclose(row_sum(x), x.sum(1), atol=1e-4):
    wrong.append("op")
used = [m.__file__ for n, m in sys.modules.items() if n.split(".")[0] == "kgen" and getattr(m, "__file__", None)]
data = str(resources.path("templates").resolve())
print(json.dumps({"wrong": wrong, "used": used, "data": data, "files": len(files)}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources: building in the checkout would leave files there."""
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, copy / name)
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(copy))
    return next(out.glob("kgen_dsl-*.whl"))


def _pip(*args: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", "--quiet", *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_source_is_in_the_wheel(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"kgen/{p.relative_to(ROOT / 'dsl' / 'kgen').as_posix()}" for p in _files(ROOT / "dsl" / "kgen")}
    for kind in ("templates", "specs"):
        wanted |= {f"kgen/data/{p.relative_to(ROOT).as_posix()}" for p in _files(ROOT / kind)}
    assert sorted(wanted - held) == []
    assert not [n for n in held if n.startswith(("generated", "tests", "bench"))]


def _files(folder: Path) -> list[Path]:
    found = (Path(at) / name for at, _, names in os.walk(folder) for name in names)
    return [p for p in found if p.suffix != ".pyc" and "__pycache__" not in p.parts and p.name != ".gitignore"]


def test_the_installed_wheel_builds_a_spec(wheel: Path, tmp_path: Path) -> None:
    installed, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    _pip("install", "--no-deps", "--no-index", "--target", str(installed), str(wheel))
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(elsewhere / "generated")],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == []
    assert [f for f in found["used"] if not f.startswith(str(installed))] == []
    assert found["data"].startswith(str(installed))
    assert found["files"] == 6
