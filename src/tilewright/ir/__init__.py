"""Tile IR as data: types, ops, functions, their text and their rules."""
