"""Attention, rotary embeddings and KV caches."""
