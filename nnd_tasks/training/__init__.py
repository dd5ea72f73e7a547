"""What one uses while a model is trained and for training it: callback, preference data, trends over checkpoints."""
