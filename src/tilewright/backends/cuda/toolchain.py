"""Runs of tileiras: bytecode in, cubin out.

Every run has its own temporary folder, an environment with only the CUDA_HOME of the toolkit, and a
time limit. A failure is explained by tileirdisasm's messages on the same bytes, at the Python line
of the op.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.backends.cuda.explain import AssemblyError, explain
from tilewright.backends.cuda.remarks import Remark, parse_remarks
from tilewright.backends.cuda.tool_runs import TookTooLong, ToolOutcome, run_tool
from tilewright.backends.cuda.toolkits import FIX, Toolkit, find_toolkit
from tilewright.bytecode import Encoded
from tilewright.errors import ToolchainError
from tilewright.settings import Settings, current_settings

__all__ = ["OPT_LEVEL", "Toolchain", "find_toolchain", "release_here"]

OPT_LEVEL = 3  # the highest, and the default of tileiras

_REMARKS = ("--remarks=all", "--remark-format=yaml")


@dataclass(frozen=True)
class Toolchain:
    """The tools of one toolkit."""

    toolkit: Toolkit
    timeout: float

    @property
    def version(self) -> str:
        """Full version of tileiras; part of every cache key."""
        return self.toolkit.version

    @property
    def newest_bytecode(self) -> tuple[int, int]:
        """Newest bytecode version that the tools read."""
        return self.toolkit.release

    def assemble(
        self,
        bytecode: Encoded | bytes,
        target: str,
        *,
        lineinfo: bool = False,
        opt_level: int = OPT_LEVEL,
    ) -> bytes:
        """Return the cubin of a module for a target such as `sm_90`."""
        options = _options(target, lineinfo=lineinfo, opt_level=opt_level)
        with _new_folder() as folder:
            return self._assemble_in(Path(folder), bytecode, target, options)

    def assemble_with_remarks(
        self, bytecode: Encoded | bytes, target: str, *, opt_level: int = OPT_LEVEL
    ) -> tuple[bytes, tuple[Remark, ...]]:
        """Return the cubin, and tileiras's choices for each line: TMA, tensor cores, or why not."""
        options = _options(target, lineinfo=False, opt_level=opt_level)
        with _new_folder() as folder:
            report = Path(folder) / "remarks.yaml"
            options = (*options, *_REMARKS, f"--remarks-output-file={report}")
            cubin = self._assemble_in(Path(folder), bytecode, target, options)
            text = report.read_text(errors="replace") if report.exists() else ""
            return cubin, parse_remarks(text)

    def disassemble(self, bytecode: Encoded | bytes, *, debug_info: bool = False) -> str:
        """Return the text of a module, checked by NVIDIA's own reader and verifier."""
        with _new_folder() as folder:
            finished = self._disassemble_in(Path(folder), _data(bytecode), debug_info=debug_info)
        if finished.status != 0:
            raise AssemblyError(explain(bytecode, finished.errors))
        return finished.output

    def _assemble_in(
        self, folder: Path, bytecode: Encoded | bytes, target: str, options: tuple[str, ...]
    ) -> bytes:
        self._check_version(bytecode)
        source, cubin = folder / "module.tileirbc", folder / "module.cubin"
        source.write_bytes(_data(bytecode))
        finished = self._run(
            [self.toolkit.tileiras, *options, "-o", cubin, source], folder, f"tileiras for {target}"
        )
        if finished.status == 0 and cubin.exists():
            return cubin.read_bytes()
        said = finished.errors or finished.output
        if self.toolkit.tileirdisasm is not None:
            second = self._disassemble_in(folder, _data(bytecode), debug_info=False)
            said = second.errors if second.status != 0 else said
        raise AssemblyError(explain(bytecode, said), target=target, status=finished.status)

    def _check_version(self, bytecode: Encoded | bytes) -> None:
        newest = self.newest_bytecode
        if isinstance(bytecode, Encoded) and bytecode.version > newest:
            needed, read = (".".join(map(str, version)) for version in (bytecode.version, newest))
            raise ToolchainError(
                f"this kernel needs bytecode {needed}, but tileiras {self.version} in "
                f"{self.toolkit.root} reads up to {read}; {FIX}"
            )

    def _disassemble_in(self, folder: Path, data: bytes, *, debug_info: bool) -> ToolOutcome:
        program = self.toolkit.tileirdisasm
        if program is None:
            raise ToolchainError(f"{self.toolkit.root / 'bin'} has no tileirdisasm")
        source = folder / "disassembled.tileirbc"
        source.write_bytes(data)
        return self._run([program, *(["-g"] if debug_info else []), source], folder, program.name)

    def _run(self, command: Sequence[str | Path], folder: Path, what: str) -> ToolOutcome:
        environment = {
            "CUDA_HOME": str(self.toolkit.root),
            "PATH": str(self.toolkit.root / "bin"),
            "TMPDIR": str(folder),
        }
        try:
            return run_tool(command, folder, self.timeout, environment)
        except TookTooLong:
            raise ToolchainError(
                f"{what} took longer than {self.timeout:g} s and was stopped; smaller tiles "
                "compile faster, and TILEWRIGHT_TILEIRAS_TIMEOUT (seconds) allows more time"
            ) from None


def find_toolchain(settings: Settings | None = None) -> Toolchain:
    """Return the toolchain of this process, found and checked once for each settings."""
    return _find(current_settings() if settings is None else settings)


def release_here() -> str | None:
    """Return the release of tileiras that this process uses, or None if there is none."""
    try:
        return find_toolchain().version
    except ToolchainError:
        return None


@cache
def _find(settings: Settings) -> Toolchain:
    return Toolchain(find_toolkit(settings), settings.tileiras_timeout)


def _data(bytecode: Encoded | bytes) -> bytes:
    return bytecode.data if isinstance(bytecode, Encoded) else bytecode


def _options(target: str, *, lineinfo: bool, opt_level: int) -> tuple[str, ...]:
    options = (f"--gpu-name={target}", f"--opt-level={opt_level}")
    return (*options, "--lineinfo") if lineinfo else options


def _new_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for one run; a tool that was ended may still be writing there."""
    return tempfile.TemporaryDirectory(prefix="tilewright-", ignore_cleanup_errors=True)
