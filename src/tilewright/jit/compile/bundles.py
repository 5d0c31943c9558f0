"""Bundles: everything about a failed compilation that another checkout needs to repeat it.

A failure of the assembler, or an internal error of this package, writes a folder: the fields of
`BundleFields` as JSON, the source file of the kernel, its bytecode if there is some, and a script
that replays it. A bundle is data: its fields are read one by one, each held to its type, and its
files to their digests; nothing in it is run by reading it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

from tilewright.errors import TilewrightError, ToolchainError
from tilewright.files.private_files import Unusable, make_folder, write_private
from tilewright.frontend.signature.specialization import describe
from tilewright.jit.compile.compiled import CompiledKernel, Request
from tilewright.jit.compile.specialization_data import Unwritten, specialization_data
from tilewright.jit.loader import cuda_program, disk_cache
from tilewright.settings import current_settings
from tilewright.version import VERSION

__all__ = [
    "ASSEMBLER",
    "BYTECODE",
    "FRONT_END",
    "SOURCE",
    "BadBundle",
    "Bundle",
    "BundleFields",
    "read_bundle",
    "write_bundle",
]

_log = logging.getLogger("tilewright")

# Stages of a compilation that fail.
FRONT_END, ASSEMBLER = "front end", "assembler"
# Files of a bundle beside its fields.
SOURCE, BYTECODE = "kernel.py", "kernel.tilebc"
_FIELDS, _SCRIPT, _FOLDER = "bundle.json", "replay.py", "tilewright-bundles"
_FORMAT = 1
_MOST_BYTES = 64 << 20  # of a file of a bundle
_REPLAY = '''"""Replays this bundle with the `tilewright` that is installed here."""

import subprocess
import sys
from pathlib import Path

command = [sys.executable, "-m", "tilewright", "repro", str(Path(__file__).parent), *sys.argv[1:]]
sys.exit(subprocess.run(command, check=False).returncode)
'''


class BadBundle(TilewrightError):
    """A bundle that is damaged, or of another format."""


@dataclass(frozen=True)
class BundleFields:
    """The fields of a bundle, as they stand in its JSON file."""

    format: int
    package: str  # releases of this package, of Python, of the tools, and the machine
    python: str
    tools: str
    machine: str
    kernel: str
    stage: str
    target: str
    opt_level: int | None
    placement: str
    described: str  # the specialisation in words
    specialisation: dict[str, Any] | None  # as data; None if a constant has no text
    error_kind: str
    error: str
    digests: dict[str, Any]  # of the other files, by name


@dataclass(frozen=True)
class Bundle:
    """A bundle that has been read and found whole."""

    path: Path
    fields: BundleFields
    source: str
    bytecode: bytes | None


def write_bundle(
    request: Request, stage: str, error: BaseException, compiled: CompiledKernel | None = None
) -> Path | None:
    """Write a bundle and note its path on the error; None if there is no folder for it."""
    folder = _folder()
    if folder is None:
        return None
    try:
        made = _write(folder, request, stage, error, compiled)
    except (OSError, Unusable) as reason:
        _log.warning("tilewright: no bundle is written: %s", reason)
        return None
    error.add_note(f"a bundle of this failure is in {made}: `tilewright repro {made}` replays it")
    return made


def _write(
    folder: Path,
    request: Request,
    stage: str,
    error: BaseException,
    compiled: CompiledKernel | None,
) -> Path:
    files = {SOURCE: "\n".join((*request.source.file.lines, "")).encode()}
    if compiled is not None:
        files[BYTECODE] = compiled.bytecode.data
    found = _fields(request, stage, error, {name: _digest(data) for name, data in files.items()})
    text = json.dumps(asdict(found), indent=2).encode()
    made = folder / f"{found.kernel}-{_digest(text)[:8]}"
    make_folder(folder, parents=True)
    make_folder(made)
    for name, data in {**files, _SCRIPT: _REPLAY.encode(), _FIELDS: text}.items():
        write_private(made / name, data)
    return made


def _fields(
    request: Request, stage: str, error: BaseException, digests: dict[str, Any]
) -> BundleFields:
    tools, specialisation = "none", None
    with suppress(ToolchainError):
        tools = cuda_program.tools_version()
    with suppress(Unwritten):
        specialisation = specialization_data(request.specialization)
    return BundleFields(
        format=_FORMAT,
        package=VERSION,
        python=platform.python_version(),
        tools=tools,
        machine=platform.platform(),
        kernel=request.signature.kernel,
        stage=stage,
        target=request.specialization.target,
        opt_level=request.specialization.hints.opt_level,
        placement=request.placement.name,
        described=describe(request.signature, request.specialization),
        specialisation=specialisation,
        error_kind=type(error).__name__,
        error=str(error),
        digests=digests,
    )


def _folder() -> Path | None:
    """The folder of all bundles; None if they are off, as they are without a cache folder."""
    settings = current_settings()
    if settings.bundles:
        return None if settings.bundles == "off" else Path(settings.bundles)
    store = disk_cache.store_of(settings)
    return None if store is None else store.root / _FOLDER


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- reading --------------------------------------------------------------------------------------


def read_bundle(path: Path) -> Bundle:
    """Read a bundle; raises `BadBundle` with the reason and the way out."""
    if path.is_file():
        path = path.parent
    try:
        found = json.loads(_read(path, _FIELDS))
    except (ValueError, RecursionError) as error:
        raise BadBundle(f"{path / _FIELDS} is damaged ({error}): copy the bundle again") from None
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise BadBundle(f"{path / _FIELDS} is no file of a bundle")
    if found["format"] != _FORMAT:
        raise BadBundle(
            f"{path} has format {found['format']}, and tilewright {VERSION} reads format {_FORMAT}:"
            f" replay it with tilewright {found.get('package')}"
        )
    checked = _checked(path, found)
    files = {name: _whole(path, name, digest) for name, digest in checked.digests.items()}
    if SOURCE not in files or not set(files) <= {SOURCE, BYTECODE}:
        raise BadBundle(f"{path / _FIELDS} lists other files than those of a bundle")
    try:
        source = files[SOURCE].decode()
    except UnicodeDecodeError:
        raise BadBundle(f"{path / SOURCE} is no text") from None
    return Bundle(path, checked, source, files.get(BYTECODE))


def _checked(path: Path, found: dict[str, Any]) -> BundleFields:
    """The fields, each of its declared type; a name is one word."""
    hints = get_type_hints(BundleFields)
    for one in fields(BundleFields):
        kinds = get_args(hints[one.name]) if isinstance(hints[one.name], UnionType) else ()
        allowed = tuple(_plain(kind) for kind in kinds or (hints[one.name],))
        value = found.get(one.name)
        if one.name not in found or not isinstance(value, allowed) or isinstance(value, bool):
            raise BadBundle(f"{path / _FIELDS} has no valid `{one.name}`: it is damaged")
    checked = BundleFields(**{one.name: found[one.name] for one in fields(BundleFields)})
    if not checked.kernel.isidentifier() or checked.stage not in (FRONT_END, ASSEMBLER):
        raise BadBundle(f"{path / _FIELDS} names no kernel and no stage of ours")
    return checked


def _plain(kind: Any) -> type:
    return dict if getattr(kind, "__origin__", None) is dict else kind


def _whole(path: Path, name: str, digest: Any) -> bytes:
    """A file of a bundle, if it is as it was written."""
    if Path(name).name != name:
        raise BadBundle(f"{path / _FIELDS} names a file elsewhere, {name!r}")
    data = _read(path, name)
    if _digest(data) != digest:
        raise BadBundle(f"{path / name} has been changed since it was written: copy it again")
    return data


def _read(path: Path, name: str) -> bytes:
    try:
        with (path / name).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadBundle(
            f"{path / name} cannot be read ({error.strerror}): a bundle is the folder that the"
            " note of an error names"
        ) from None
    if len(data) > _MOST_BYTES:
        raise BadBundle(f"{path / name} has more than {_MOST_BYTES:,} bytes")
    return data
