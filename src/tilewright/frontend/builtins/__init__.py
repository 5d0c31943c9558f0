"""Lowering of the language's functions to Tile IR."""
