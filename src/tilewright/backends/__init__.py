"""Backends: how each kind of device runs Tile IR."""
