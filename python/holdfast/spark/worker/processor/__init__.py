"""A processor's end of a session, in Spark's Python worker: its context, and the stores that it
reaches.

`task.py` rows to the processor and what it gives · `context.py` what it is called with ·
`stores.py` its stores, which are those of `holdfast` over the state host: `remote.py` what they
have in common, `key_value.py`, `versioned.py`, `window.py`, `session.py` a file a kind ·
`timers.py` its timers.
"""
