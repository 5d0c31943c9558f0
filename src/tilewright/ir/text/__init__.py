"""Tile IR as text. `module_text` and `function_text` write it as NVIDIA's disassembler does."""

from __future__ import annotations

from tilewright.ir.text.printer import function_text, module_text

__all__ = ["function_text", "module_text"]
