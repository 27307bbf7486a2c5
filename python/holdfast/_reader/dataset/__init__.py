"""A table as a pyarrow dataset that reads only the rows that a filter may select.

`expression` reads the filter's tree. `key_filter` finds the values that the filter may select, as a
`domain` for each column. `key_reads` and `time_bounds` turn the domains into reads, and
`selected_rows` runs the reads.
"""
