"""A processor in Spark's Python worker: its context, its stores and its timers.

`task` passes rows to the processor and checks its batches · `context` is the argument that the
processor receives · `stores` are the stores of `holdfast` over the state host: `remote` has what
the stores share; `key_value` and `window` have the stores of these kinds, with and without
timestamps; `versioned` and `session` each have one kind of store · `timers` fire at event times ·
`output` stores the batches of a processor that is not deterministic.
"""
