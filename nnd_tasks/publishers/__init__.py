"""What publishers give: the files of a set, found, downloaded and checked, and the terms of their texts."""
