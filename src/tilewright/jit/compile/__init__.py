"""Compilation of one specialisation, from the AST to a loaded executable."""
