"""Commands of those who operate queries."""
