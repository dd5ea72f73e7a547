"""What lm-evaluation-harness sees of us: the task class, its metrics, and how it is run."""
