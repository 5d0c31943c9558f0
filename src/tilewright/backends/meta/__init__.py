"""A device without memory, for shape-only compilation."""
