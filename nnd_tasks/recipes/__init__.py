"""What a set is, as YAML: fields, readers of tables, steps, downloads."""
