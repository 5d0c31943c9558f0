"""Element-wise kernels, copies, creation and histograms."""
