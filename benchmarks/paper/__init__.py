"""The experiments of "Fearless Concurrency on the GPU" (arXiv 2606.15991), on our kernels.

Each module measures one experiment into a `Report`; `run_paper.py` runs them.
"""
