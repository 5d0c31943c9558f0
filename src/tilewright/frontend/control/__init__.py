"""Control flow of a kernel: statements, branches, loops, and their carried names."""
