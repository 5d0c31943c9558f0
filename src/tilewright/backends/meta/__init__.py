"""A device without memory, for shapes alone."""
