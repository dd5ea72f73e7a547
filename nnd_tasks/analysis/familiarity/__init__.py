"""`nnd familiarity`: whose texts a model likes, among texts that people judged alike."""
