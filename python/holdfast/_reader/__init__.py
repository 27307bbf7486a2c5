"""Reads the state of a query from outside: `state_reader` the root, `state_table` one table.

`keys` makes Arrow columns of the keys that people give.
"""
