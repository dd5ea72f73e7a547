"""From results to conclusions: runs, read and checked, comparisons and their reports."""
