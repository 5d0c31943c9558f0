"""The writer of Tile IR bytecode."""
