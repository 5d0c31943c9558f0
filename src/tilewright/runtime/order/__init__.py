"""The order of work: which operation must wait for which, and what a failure reaches."""
