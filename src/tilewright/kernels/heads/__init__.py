"""Attention and the operations around it: rotary positions, caches."""
