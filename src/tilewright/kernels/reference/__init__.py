"""What the kernels of the library compute, in NumPy and float64: one module for each family.

These are the oracles of the tests and of the tuner; they take and give arrays, and are slow.
"""
