"""Joins the compiler and the backends: bind, specialise, compile once, check, launch."""
