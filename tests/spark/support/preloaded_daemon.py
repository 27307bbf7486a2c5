"""Spark's Python daemon, which does the imports of a worker before it forks.

A task that raises ends its worker, and the next worker would spend a second on imports. Apart from
the imports, this daemon is the same as `pyspark.daemon`.
"""

from importlib import import_module

if __name__ == "__main__":
    for module in ("pyspark.worker", "pyarrow.parquet", "holdfast.spark"):
        import_module(module)
    import_module("pyspark.daemon").manager()
