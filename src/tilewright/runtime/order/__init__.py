"""The order of work: waits between operations, and the propagation of failures."""
