"""NVIDIA GPUs: the Tile IR toolchain, and what needs the driver."""
