"""Spark's Python daemon with the imports of a worker done before it forks.

A task that raises ends its worker, and the next one would spend a second of processor time on
imports, again and again in tests that ask for errors. Nothing else is different: Spark starts
`pyspark.daemon` as it starts this.
"""

from importlib import import_module

if __name__ == "__main__":
    for module in ("pyspark.worker", "pyarrow.parquet", "holdfast.spark"):
        import_module(module)
    import_module("pyspark.daemon").manager()
