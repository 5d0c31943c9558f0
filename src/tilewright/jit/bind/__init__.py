"""Binding: the arguments of a call matched to the kernel's signature."""
