"""Arrays of other libraries: found by address, borrowed like tensors, ordered by stream."""
