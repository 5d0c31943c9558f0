"""Checks of host code without running it: borrows, moves, and operations that are never run."""
