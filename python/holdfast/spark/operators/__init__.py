"""The operators, a file each."""
