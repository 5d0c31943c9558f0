"""The source of a kernel: its text, its AST, and its captured values."""
