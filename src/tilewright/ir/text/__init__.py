"""Tile IR as text, as NVIDIA's disassembler writes it: printed and read back."""

from __future__ import annotations

from tilewright.ir.text.parse import parse_module
from tilewright.ir.text.printer import function_text, least_length, module_text

__all__ = ["function_text", "least_length", "module_text", "parse_module"]
