"""The work of a look-up join's tasks besides the reads."""
