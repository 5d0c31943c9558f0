"""Plans: all decisions about a launch, cached by the key of its call."""
