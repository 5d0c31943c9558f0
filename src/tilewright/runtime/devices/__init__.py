"""Devices, their streams, and the context that a call runs in."""
