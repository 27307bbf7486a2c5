"""A table as a pyarrow dataset, of which a filter reads only what it may select.

`expression` reads the filter's tree, `key_filter` finds the values that it selects, as a `domain`
for each column. `key_reads` and `time_bounds` turn them into reads, which `selected_rows` does.
"""
