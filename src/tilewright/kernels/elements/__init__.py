"""Kernels over single elements."""
