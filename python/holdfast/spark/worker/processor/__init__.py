"""A processor in Spark's Python worker: its context, its stores and its timers.

`task` passes rows to the processor and checks its batches · `context` is its argument · `stores`
are the stores of `holdfast` over the state host: `remote` has what they share, `key_value`,
`versioned`, `window` and `session` a kind each · `timers` fire at event times · `output` stores the
batches of a processor that is not deterministic.
"""
