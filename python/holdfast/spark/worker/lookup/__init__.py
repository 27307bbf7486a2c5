"""What the tasks of a look-up join do beside the reads."""
