"""From a publisher's files to a dataset folder: recipe, rows, pairs, clean variant, card."""
