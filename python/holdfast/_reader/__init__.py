"""Reads the state of a query from outside: `state_reader` the root, `state_table` one table.

`keys` converts keys to Arrow columns.
"""
