"""Memory in a kernel: partitions, pieces of outputs, gathers, scatters, accumulators."""
