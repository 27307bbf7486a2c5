"""Spark's data source `holdfast`: the state of a query as a DataFrame.

`data_source` is what Spark calls, first on the driver's machine and then in tasks.
"""
