"""What a reviewer of a set would look for, found by machine: `nnd check`."""
