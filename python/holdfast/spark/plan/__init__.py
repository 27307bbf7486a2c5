"""Turns an operator's call into a Spark plan.

- `call` checks the arguments that all operators share, `column_checks` the columns
- `input_frame`: one of the user's frames, with the use of each column
- `input`: the rows that go to the state host, from one frame or two
- `output_columns`: the result's columns
- `operator`: the plan
- `schema`: types of Spark and Arrow
- `murmur3`: the hash behind `repartition`
- `python_workers` checks that Spark's workers can import this package
- `epoch_chooser` chooses the epochs that look-up joins read
"""
