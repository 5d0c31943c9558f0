"""Tensors, their layouts and the memory behind them."""
