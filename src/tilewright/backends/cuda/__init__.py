"""NVIDIA GPUs: the Tile IR toolchain, and the runtime over the driver."""
