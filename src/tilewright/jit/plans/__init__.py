"""Plans: all decisions about a launch, kept for the launches like it."""
