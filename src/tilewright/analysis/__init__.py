"""Analyses of kernels: intervals, terms, and the proofs made of them."""
