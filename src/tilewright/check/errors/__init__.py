"""Errors of the checks, in words."""
