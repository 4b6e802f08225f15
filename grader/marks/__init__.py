"""What points count: assignments as data, late, extended, decided by hand, and what a regrade changes."""
