"""The published experiments again, on the models that the user has."""
