"""Stores that are Python objects of the user: their interface, and how a database runs them."""
