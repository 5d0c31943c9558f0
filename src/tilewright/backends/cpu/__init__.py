"""The CPU backend: Tile IR run by NumPy."""
