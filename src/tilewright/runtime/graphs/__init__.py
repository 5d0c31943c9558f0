"""Graphs: operations recorded once, replayed any number of times."""
