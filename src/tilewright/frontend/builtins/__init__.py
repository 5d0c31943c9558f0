"""Functions of the language, each lowered to Tile IR."""
