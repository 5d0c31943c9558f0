"""NumPy references of the library kernels in float64, one module for each family.

The references are the oracles of the tests and of the tuner; they take and return arrays, and are
slow.
"""
