"""Calls in a kernel: functions of the language, Python's own, and helpers that are inlined."""
