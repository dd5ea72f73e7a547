"""Pass rates against the size of a model or the step of its training."""
