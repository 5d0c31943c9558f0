"""The host: devices, streams, tensors, borrows and operations. Imports nothing of the compiler."""
