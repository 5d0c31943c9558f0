"""Expressions of a kernel: operators, comparisons, conversions, printing."""
