"""What lm-evaluation-harness sees of us: the task class, its documents, prompts, lengths, metrics and signature."""
