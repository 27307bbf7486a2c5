"""The code that runs in Spark's Python workers.

`task` sends a partition's rows to the state host and returns its results · `aggregator` and
`processor` call the user's code · `cast` checks what it returns · `state_host` finds or starts the
host of the `executor` · `lookup` has the helpers of look-up joins.

Modules of `holdfast.spark.plan` and `holdfast.spark.operators` import the classes of tasks only
inside functions. Tasks are pickled by name.
"""
