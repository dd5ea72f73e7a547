"""Models that are asked about the candidates of a task, in the place of what they would write."""
