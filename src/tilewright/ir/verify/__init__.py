"""The verifier: one table of rules for each group of ops."""
