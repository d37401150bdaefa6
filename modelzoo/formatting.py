"""Numbers as people read them: pure functions, SI units."""
