"""Where real test material lies, if `fetch_material.py` has fetched it."""

import os
from pathlib import Path

import platformdirs


def folder() -> Path:
    """The folder of the material."""
    named = os.environ.get("TILEWRIGHT_MATERIAL")
    return Path(named or platformdirs.user_cache_path("tilewright-material"))


SMOLLM2 = folder() / "smollm2-135m.gguf"
QWEN3 = folder() / "qwen3-tokenizer"
