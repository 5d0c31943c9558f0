"""Control flow of a kernel: statements, branches, loops, and the names they carry."""
