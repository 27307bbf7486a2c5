"""From an operator's call to a plan of Spark's."""
