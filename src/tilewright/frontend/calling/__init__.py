"""Calls in a kernel: functions of the language, Python's own, and inlined helpers."""
