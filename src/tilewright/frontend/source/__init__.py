"""The source of a kernel: its text, its AST, and the Python values it uses."""
