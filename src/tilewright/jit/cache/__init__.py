"""Compiled kernels in memory and on disk."""
