"""Helpers of a look-up join's tasks: they choose the epoch and combine batches."""
