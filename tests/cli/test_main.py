"""Help, start-up and how commands end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import SMALL, Kgen

from kgen.cli import command_check
from kgen.errors import KgenError

COMMANDS = ("build", "check", "show", "diff", "verify", "schema", "new", "doctor")
HEAVY = {"torch", "triton", "sympy", "lark", "pydantic", "ruamel", "rich", "numpy", "jinja2"}


def test_help_imports_only_typer() -> None:
    code = (
        "import sys; sys.argv = ['kgen', '--help']; from kgen.cli.main import main\n"
        "try: main()\n"
        "finally: print(sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *text, loaded = done.stdout.splitlines()
    assert all(any(line.strip().startswith(c) for line in text) for c in COMMANDS)
    assert not HEAVY & set(eval(loaded))


def test_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "kgen", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("kgen ")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, kgen: Kgen) -> None:
    answer = kgen(command, "--help")
    assert answer.code == 0
    assert f"Example: kgen {command}" in answer.out


def test_without_a_command_help_is_shown(kgen: Kgen) -> None:
    answer = kgen()
    assert answer.code == 2
    assert "Usage:" in answer.out + answer.err


WRONG = [
    (("biuld",), "Did you mean 'build'?"),
    (("build",), "SPEC"),
    (("build", "small.yaml", "--jsn"), "--json"),
    (("build", "smal.yaml"), "there is no spec 'smal.yaml', did you mean 'small.yaml'?"),
    (("build", "small.yaml", "--target", "sm_91"), "unknown target 'sm_91', did you mean 'sm_90'?"),
    (("build", "small.yaml", "--target", ","), "expected architectures such as"),
    (("build", "small.yaml", "--backend", "tritn"), "unknown backend 'tritn', did you mean 'triton'?"),
    (("build", "small.yaml", "--set", "axes.n.tlie=4"), "--set:1:8: error: unknown key 'tlie'"),
    (("show", "small.yaml", "--stage", "tlie"), "unknown stage 'tlie', did you mean 'tile'?"),
    (("show", "small.yaml", "--variant", "7"), "small has no variant 7; it has\n      1: T=f32"),
    (("show", "small.yaml", "--backend", "both"), "show takes one backend"),
    (("show", "small.yaml", "--stage", "layout"), "ask for --backend cuda"),
    (("new", "for"), "'for' is a reserved word"),
]


@pytest.mark.parametrize(("words", "text"), WRONG, ids=lambda x: " ".join(x) if isinstance(x, tuple) else "")
def test_wrong_input_ends_with_2_and_says_what_is_right(
    words: tuple[str, ...], text: str, kgen: Kgen, small: Path
) -> None:
    answer = kgen(*words)
    assert answer.code == 2
    assert text in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""


def test_an_error_in_a_spec_has_its_place_and_a_caret(kgen: Kgen, small: Path) -> None:
    small.write_text(SMALL.replace("sum[n]", "smu[n]"))
    answer = kgen("check", small)
    assert answer.code == 2
    lines = answer.err.splitlines()
    assert lines[0].startswith(f"{small}:6:")
    column = lines[1].index("smu")
    assert lines[2][column] == "^"
    assert "did you mean 'sum'" in answer.err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            RuntimeError("two\nlines"),
            3,
            "internal error, please report it: RuntimeError: two lines (set KGEN_TRACEBACK",
        ),
        (KgenError("no such thing"), 2, "error: no such thing\n"),
        (PermissionError(13, "Permission denied", "generated"), 2, "error: 'generated': Permission denied\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_every_end_has_its_code(
    error: BaseException, code: int, text: str, kgen: Kgen, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**_: object) -> int:
        raise error

    monkeypatch.setattr(command_check, "run", fails)
    answer = kgen("check", small)
    assert answer.code == code
    assert answer.err.startswith(text)
    assert answer.err.count("\n") == bool(text)


def test_a_traceback_is_shown_when_asked_for(kgen: Kgen, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: object) -> int:
        raise RuntimeError("deep")

    monkeypatch.setattr(command_check, "run", fails)
    monkeypatch.setenv("KGEN_TRACEBACK", "1")
    assert "in fails" in kgen("check", small).err


def test_a_reader_that_stops_reading_is_no_error() -> None:
    command = f"{sys.executable} -m kgen schema | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
