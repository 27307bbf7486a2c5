"""Commands for the operation of queries."""
