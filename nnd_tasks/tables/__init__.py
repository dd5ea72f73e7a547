"""Tables as people have them: files are read into rows, and rows get the roles of a recipe's columns."""
