"""Kernels over rows: norms, softmax, losses, reductions, scans, rankings."""
