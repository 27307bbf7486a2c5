"""From an operator's call to a Spark plan.

`call` checks what every operator is called with · `input_frame` a frame of the user's, its columns
by use · `input` the rows that go to the state host, from one frame or two · `output_columns` the
result's columns · `operator` the plan · `schema` types of Spark and Arrow · `murmur3` the hash
behind `repartition`.
"""
