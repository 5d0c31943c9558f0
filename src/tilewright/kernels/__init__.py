"""Our own kernels, written as a user would: public names only, nothing unsafe, no checks inside."""
