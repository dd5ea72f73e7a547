"""Sets of one's own: new, check, publish."""
