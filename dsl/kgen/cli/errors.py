"""How a command ends: exit codes, and errors as text. A traceback is shown only if KGEN_TRACEBACK is set."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any, NoReturn

import typer

from kgen.errors import KgenError

OK, FAILED, WRONG_INPUT, BUG, INTERRUPTED = 0, 1, 2, 3, 130
TRACEBACK = "KGEN_TRACEBACK"
# typer brings its own click or depends on it; the base of its errors is the same either way.
_UsageError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "UsageError")
_ClickError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def guarded(app: typer.Typer) -> NoReturn:
    """Run the app and exit with its code; show every error as text."""
    try:
        code = app(prog_name="kgen", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        code = _ended(error)
    sys.exit(code if isinstance(code, int) else OK)


def _ended(error: BaseException) -> int:
    """Say how the command ended and return its exit code."""
    if os.environ.get(TRACEBACK) and not isinstance(error, SystemExit | _ClickError):
        traceback.print_exception(error)
    match error:
        case SystemExit(code=code):
            return code if isinstance(code, int) else FAILED
        case KeyboardInterrupt() | typer.Abort():
            return INTERRUPTED
        case BrokenPipeError():
            # The reader of our output has gone; keep Python from complaining about it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILED
        case KgenError():
            say_error(str(error))
            return WRONG_INPUT
        case _ if isinstance(error, _UsageError):
            return _usage(error)
        case _ if isinstance(error, _ClickError):
            say_error(f"error: {error}")
            return WRONG_INPUT
        case OSError():
            place = f"'{error.filename}': " if error.filename else ""
            say_error(f"error: {place}{error.strerror or error}")
            return WRONG_INPUT
    hint = f"set {TRACEBACK}=1 to see where"
    summary = " ".join(str(error).split())[:300]
    say_error(f"internal error, please report it: {type(error).__name__}: {summary} ({hint})")
    return BUG


def _usage(error: Any) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error.format_message()}\n")
        return WRONG_INPUT
    say_error(f"error: {error.format_message()}")
    if context is not None:
        say_error(f"usage: {context.get_usage().removeprefix('Usage: ')}\nsee: {context.command_path} --help")
    return WRONG_INPUT


def say_error(text: str) -> None:
    """Write an error to stderr, with the word in front where the text has none."""
    sys.stderr.write(text if text.startswith(("error", "internal")) or ": error" in text else _headed(text))
    sys.stderr.write("\n")


def _headed(text: str) -> str:
    return text if text.startswith("usage: ") else f"error: {text}"
