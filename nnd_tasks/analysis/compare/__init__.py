"""Compare models on the same tests: differences, what they can show, and what to know before reading a rate."""
