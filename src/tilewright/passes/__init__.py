"""Passes over Tile IR, from checked kernels to modules that tileiras takes."""
