"""The commands, their options and their help. What they do is in `command_<name>.py`, imported when one runs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from kgen import __version__
from kgen.cli.errors import guarded

app = typer.Typer(
    name="kgen",
    help="Readable, verified GPU kernels from short specs: Triton and CUDA, matched line by line.",
    epilog="Start with: kgen new my_kernel, then kgen build my_kernel.yaml",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
DEFAULT_TARGETS = "sm_80,sm_90,gfx942"

SpecFile = Annotated[Path, typer.Argument(metavar="SPEC", help="The spec, a .yaml file.")]
SpecFiles = Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Specs, .yaml files.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a value of the spec, e.g. axes.n.tile=64 (repeatable)."),
]
Backend = Annotated[str, typer.Option(help="triton, cuda or both.")]
OneBackend = Annotated[str, typer.Option(help="triton or cuda.")]
Targets = Annotated[str, typer.Option(help="Architectures to compile for, separated by commas.")]
OneTarget = Annotated[str, typer.Option(help="The architecture to lower for.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Full = Annotated[bool, typer.Option("--full", help="Run about 25 cases a variant instead of about 7.")]
Number = Annotated[int, typer.Option(help="Which of the spec's variants, from 1.")]
Seed = Annotated[int, typer.Option(help="Seed of the inputs: another one tests other values.")]


def _run(command: str, **options: Any) -> None:
    """Import the module of a command and run it; its answer is the exit code."""
    module = importlib.import_module(f"kgen.cli.command_{command}")
    raise typer.Exit(module.run(**options))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kgen {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: kgen build specs/flash_attn.yaml --set axes.n.tile=32")
def build(
    spec: SpecFile,
    overrides: Overrides = None,
    backend: Backend = "both",
    target: Targets = DEFAULT_TARGETS,
    out: Annotated[Path, typer.Option(help="Folder in which the package <name>/ is written.")] = Path("generated"),
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Write the package without running its cases.")
    ] = False,
    full: Full = False,
    as_json: AsJson = False,
) -> None:
    """Lower, emit, compile and verify a spec, and write its package if all is well."""
    _run(
        "build",
        spec=spec,
        overrides=overrides or [],
        backend=backend,
        target=target,
        out=out,
        verified=not no_verify,
        full=full,
        as_json=as_json,
    )


@app.command(epilog="Example: kgen check specs/flash_attn.yaml")
def check(
    specs: SpecFiles,
    overrides: Overrides = None,
    backend: Backend = "both",
    target: Targets = "sm_80,sm_90",
    as_json: AsJson = False,
) -> None:
    """Check a spec without compilers: every dtype resolved, accumulators proved, every variant lowered."""
    _run("check", specs=specs, overrides=overrides or [], backend=backend, target=target, as_json=as_json)


@app.command(epilog="Example: kgen show specs/flash_attn.yaml --stage accumulate")
def show(
    spec: SpecFile,
    stage: Annotated[
        str,
        typer.Option(help="parse, resolve, accumulate, tile, mask, simplify, schedule, layout or emit."),
    ] = "emit",
    backend: OneBackend = "triton",
    target: OneTarget = "sm_90",
    variant: Number = 1,
    overrides: Overrides = None,
) -> None:
    """Print what a stage of the compiler makes of a spec."""
    _run("show", spec=spec, stage=stage, backend=backend, target=target, variant=variant, overrides=overrides or [])


@app.command(epilog="Example: kgen diff specs/softmax.yaml --width 160")
def diff(
    spec: SpecFile,
    variant: Number = 1,
    target: OneTarget = "sm_90",
    width: Annotated[int | None, typer.Option(help="Columns to use; the terminal's width by default.")] = None,
    overrides: Overrides = None,
) -> None:
    """Print the Triton and the CUDA text side by side, aligned by the statements of the spec."""
    _run("diff", spec=spec, variant=variant, target=target, width=width, overrides=overrides or [])


@app.command(epilog="Example: kgen verify specs/softmax.yaml --full --seed 7")
def verify(
    spec: SpecFile,
    overrides: Overrides = None,
    backend: Backend = "both",
    target: OneTarget = "sm_90",
    full: Full = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Run a spec's cases on its backends; exit with 1 and the smallest failing case if one fails."""
    _run(
        "verify",
        spec=spec,
        overrides=overrides or [],
        backend=backend,
        target=target,
        full=full,
        seed=seed,
        as_json=as_json,
    )


@app.command(epilog="Example: kgen schema > kgen.schema.json")
def schema() -> None:
    """Print the JSON Schema of specs, for editors."""
    _run("schema")


@app.command(epilog="Example: kgen new my_kernel")
def new(name: Annotated[str, typer.Argument(metavar="NAME", help="The kernel's name; NAME.yaml is written.")]) -> None:
    """Write a small commented spec that builds, to start from."""
    _run("new", name=name)


@app.command(epilog="Example: kgen doctor --json")
def doctor(as_json: AsJson = False) -> None:
    """Report versions, compilers, GPU, cache and what of Triton's interpreter needs correction."""
    _run("doctor", as_json=as_json)


def main() -> None:
    """Run the command line and exit: 0 ok, 1 a check failed, 2 the input was wrong, 3 a bug, 130 interrupted."""
    guarded(app)
