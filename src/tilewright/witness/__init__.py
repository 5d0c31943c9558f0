"""Counter-examples: launches on which a kernel races or leaves its bounds, found by running it."""
