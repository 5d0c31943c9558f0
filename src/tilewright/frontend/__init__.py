"""The front end: a kernel's AST and a specialisation in, unchecked Tile IR out."""
