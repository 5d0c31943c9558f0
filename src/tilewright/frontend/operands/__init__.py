"""Operands: the values of expressions while a kernel is lowered."""
