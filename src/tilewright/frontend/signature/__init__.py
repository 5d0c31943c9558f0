"""Signatures: annotations of a kernel's parameters, and the specialisation of one launch."""
