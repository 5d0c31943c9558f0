"""The reader of Tile IR bytecode, of any producer."""
