"""Training: a callback that scores the model, trends over checkpoints and sizes, and preference data to train on."""
