"""Kernels along rows: norms, softmax, losses, reductions, scans, rankings."""
