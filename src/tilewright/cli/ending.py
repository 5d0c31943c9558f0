"""The end of a command: the only place where exceptions become messages and exit codes.

User errors are `BadInput` or click's own (2); refusals and failures are exceptions of
`tilewright.errors` (1, or 2 for a missing tool); Ctrl-C is 130. Any other exception is a bug in
tilewright (3), reported in one line, with its traceback only under `--traceback`. A closed pipe (`|
head`), a closed stream and an ASCII-only stream are no errors: output is cut or escaped, without a
message.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import IO, Any, cast

import click

from tilewright.backends.cuda.explain import AssemblyError
from tilewright.cli.screen import Screen, VisibleStream, visible
from tilewright.errors import TilewrightError, ToolchainError

__all__ = ["Commands"]

_EXIT_CODES: dict[type, int] = {TilewrightError: 1, ToolchainError: 2, AssemblyError: 1}
_CUT_OFF, _UNWRITTEN, _OURS, _INTERRUPTED = 1, 1, 3, 130
_GONE = (errno.EPIPE, errno.ESHUTDOWN)


class Commands(click.Group):
    """The group of all commands, whose `main` always ends in an exit code."""

    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        """Run a command, report how it ended, and leave the process (`SystemExit`)."""
        _escape_what_cannot_be_encoded()
        options["standalone_mode"] = False
        try:
            result = super().main(args, *more, **options)
            code = result if isinstance(result, int) else 0
        except click.ClickException as error:
            code = _tell_of(error)
        except (click.Abort, KeyboardInterrupt):
            code = _tell("Aborted!", _INTERRUPTED)
        except OSError as error:
            code = _tell_unwritten(error)
        except Exception as error:  # noqa: BLE001 - the last place that could tell of it
            code = _tell(_ours(error), _OURS)
        sys.exit(_flushed(code))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; its exceptions are reported where `--traceback` is known."""
        try:
            return super().invoke(ctx)
        except TilewrightError as error:
            _show_traceback(ctx, error)
            screen = ctx.obj if isinstance(ctx.obj, Screen) else Screen.of_process()
            screen.refuse(type(error).__name__, str(error))
            ctx.exit(next(_EXIT_CODES[kind] for kind in type(error).__mro__ if kind in _EXIT_CODES))
        except (click.exceptions.Exit, click.Abort, EOFError):
            raise
        except Exception as error:
            _show_traceback(ctx, error)
            raise


def _show_traceback(ctx: click.Context, error: Exception) -> None:
    if ctx.params.get("traceback"):
        click.echo(visible("".join(traceback.format_exception(error))), err=True)


def _tell_of(error: click.ClickException) -> int:
    """Show a click error or a `BadInput`; its text may come from a file or a shell."""
    try:
        error.show(cast("IO[str]", VisibleStream(sys.stderr)))
    except (OSError, ValueError):
        return error.exit_code  # the stream cannot be written any more
    return error.exit_code


def _tell_unwritten(error: OSError) -> int:
    if error.errno in _GONE:
        return _CUT_OFF
    reason = error.strerror or type(error).__name__
    named = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return _tell(f"Error: {named}{reason}", _UNWRITTEN)


def _ours(error: Exception) -> str:
    reason = str(error).partition("\n")[0]
    return (
        f"internal error: {type(error).__name__}{': ' if reason else ''}{reason}\n"
        "This is a mistake of tilewright's own: please report it with the output of "
        "`tilewright --traceback …`."
    )


def _tell(message: str, code: int) -> int:
    try:
        click.echo(visible(message), err=True)
    except (OSError, ValueError):
        return code  # the stream cannot be written any more
    return code


def _escape_what_cannot_be_encoded() -> None:
    """Make streams of few characters escape the others instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: int) -> int:
    """Flush the output; a stream that cannot be written is dropped silently."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in _GONE:
            _tell(f"Error: the output cannot be written: {error.strerror}", code)
        sys.stdout = None  # no second flush at exit
        return code or _UNWRITTEN
    return code
