"""A processor in Spark's Python worker: its context, its stores and its timers.

`task` passes rows to the processor and checks its batches · `context` is the argument that the
processor receives · `stores` are the stores of `holdfast` over the state host: `remote` has what
the stores share; `key_value` has the key-value stores, with and without timestamps; `versioned`,
`window` and `session` each have one kind of store · `timers` fire at event times · `output` stores
the batches of a processor that is not deterministic.
"""
