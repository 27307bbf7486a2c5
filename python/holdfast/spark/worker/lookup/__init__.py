"""Helpers of a look-up join's tasks: one asks the driver for the epoch, one combines batches."""
