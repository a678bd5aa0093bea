"""`generated/` is what the sources make: every shipped spec generated again, and compared byte for byte."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgen.package import PackagedVariant, package_files
from kgen.package_lines import WIDTH
from kgen.spec import load
from kgen.workflow.instance import instances
from kgen.workflow.targets import DEFAULT, parse_targets
from kgen.workflow.texts import Origin, texts_for

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ROOT / "generated"
SPECS = sorted(p for p in (ROOT / "specs").rglob("*.yaml") if re.search(r"^kernel:", p.read_text(), re.MULTILINE))
RULES = ("--select", "E4,E7,E9,F,I,W,B", "--config", 'lint.isort.known-first-party = ["kgen"]')
MADE = GENERATED.is_dir() and any(p.is_dir() for p in GENERATED.iterdir())


def regenerated(path: Path) -> dict[str, str]:
    """Return the package of a shipped spec as `kgen build` writes it."""
    name = path.relative_to(ROOT).as_posix()
    origin = Origin(name, f"kgen build {name}")
    spec = load(path)
    texts = [texts_for(i, ("triton", "cuda"), parse_targets(DEFAULT), origin) for i in instances(spec)]
    variants = [PackagedVariant(t.key, t.main("triton"), t.main("cuda")) for t in texts]
    return package_files(spec, variants, origin.command)


@pytest.fixture(scope="module", params=SPECS, ids=[p.stem for p in SPECS])
def package(request: pytest.FixtureRequest) -> tuple[Path, dict[str, str]]:
    return request.param, regenerated(request.param)


@pytest.mark.skipif(not MADE, reason="generated/ is empty: run make generated")
def test_checked_in_files_are_up_to_date(package: tuple[Path, dict[str, str]]) -> None:
    path, files = package
    folder = GENERATED / path.stem
    assert folder.is_dir(), f"{folder} is missing: run make generated"
    held = {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir() if p.is_file()}
    assert sorted(held) == sorted(files)
    for name, text in files.items():
        assert held[name] == text, f"generated/{path.stem}/{name} is not what its spec makes: run make generated"


@pytest.mark.skipif(not MADE, reason="generated/ is empty: run make generated")
def test_no_package_is_left_without_its_spec() -> None:
    held = {p.name for p in GENERATED.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert held == {p.stem for p in SPECS}


def test_nothing_of_this_machine_is_in_the_files(package: tuple[Path, dict[str, str]]) -> None:
    _, files = package
    for name, text in files.items():
        for word in (str(ROOT), str(Path.home()), "/tmp", "site-packages", sys.version.split()[0]):
            assert word not in text, f"{name} holds {word}"


def test_ops_read_like_written_code(package: tuple[Path, dict[str, str]]) -> None:
    """Lines are short, imports sorted and used, names bound; `ruff` says so."""
    _, files = package
    for name in ("op.py", "__init__.py"):
        lines = list(_code_lines(files[name]))
        assert max(map(len, lines)) <= WIDTH
        done = subprocess.run(
            [sys.executable, "-m", "ruff", "check", "--isolated", *RULES, "-"],
            input=files[name],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def _code_lines(text: str) -> Iterator[str]:
    """Yield the lines after the head, which quotes the spec's statements as they are."""
    return iter(text.partition('"""\n')[2].splitlines())


def test_the_same_files_in_another_process() -> None:
    """With other hashes of strings: nothing depends on the order of a set."""
    path = min(SPECS, key=lambda p: p.stat().st_size)
    code = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'tests')!r}]\n"
    code += "from pathlib import Path; import json; from test_generated import regenerated\n"
    code += f"print(json.dumps(regenerated(Path({str(path)!r}))))"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == regenerated(path)
