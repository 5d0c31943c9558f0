"""Analyses of kernels: intervals, terms, and proofs about them."""
