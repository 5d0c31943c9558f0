"""Operations: lazy, run once, submitted to a stream alone, in chains or zipped."""
