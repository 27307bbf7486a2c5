"""A process that commits a counter, and what a later open finds of it."""

from __future__ import annotations

import holdfast as hf

KV = [hf.stores.key_value("kv")]


WRITER = """
durability = hf.Durability[sys.argv[2]]
db = hf.open(
    sys.argv[1],
    [hf.stores.key_value("kv"), hf.stores.versioned("rates", history_retention=10**9)],
    durability=durability,
)
for n in range(int(sys.argv[3])):
    db["kv"].put(b"n", str(n).encode())
    db["kv"].put(b"%d" % n, b"x" * 1000)
    db["rates"].put(b"n", str(n).encode(), n)
    db.commit({("log", 0): n})
print("committed"); sys.stdin.readline()
"""


def state(path, durability: hf.Durability):
    stores = [*KV, hf.stores.versioned("rates", history_retention=10**9)]
    with hf.open(path, stores, durability=durability) as db:
        newest = db["rates"].get(b"n")
        return (
            db["kv"].get(b"n"),
            newest and newest.value,
            db["rates"].stream_time,
            db.committed_offset(("log", 0)),
            sum(1 for _ in db["kv"].range()),
        )
