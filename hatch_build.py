"""Builds the part in C into a wheel. Without a compiler the wheel has the Python code alone."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def _load(path: Path) -> Any:
    """A module of the package, without the package, whose dependencies are not installed here."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class NativeHook(BuildHookInterface):
    """Compiles the extension: into the wheel, or in place for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the wheel is written."""
        sources = Path(self.root, "src", "tilewright", "native")
        is_editable = version == "editable"
        folder = sources if is_editable else Path(self.root, "build", "native")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            checksum = _load(sources / "checksum.py").checksum(sources)
            made = _load(sources / "build.py").build(checksum, folder)
        except (OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"launches run in Python: the compiler of C failed, {error}")
            return
        if not is_editable:
            build_data["force_include"][str(made)] = f"tilewright/native/{made.name}"
            build_data["pure_python"], build_data["infer_tag"] = False, True
