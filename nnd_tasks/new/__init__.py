"""From a table to a recipe: proposed columns, preview, what was left out."""
