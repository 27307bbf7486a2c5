"""The hash behind Spark's `repartition`, to choose a row's partition."""

from functools import lru_cache
from typing import Final

_SEED: Final = 42
_MASK: Final = (1 << 32) - 1


@lru_cache(maxsize=8)
def numbers_by_partition(partitions: int) -> tuple[int, ...]:
    """For each partition p the least n >= 0 that `repartition(partitions, n)` sends to p."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        found.setdefault(murmur3(number) % partitions, number)
        number += 1
    return tuple(found[partition] for partition in range(partitions))


def murmur3(number: int) -> int:
    """Spark SQL's `hash` of an int: Murmur3_x86_32 over its four bytes, as a signed number."""
    k = (number * 0xCC9E2D51) & _MASK
    k = ((k << 15 | k >> 17) * 0x1B873593) & _MASK
    h = _SEED ^ k
    h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & _MASK
    h ^= 4  # the length in bytes
    h = ((h ^ h >> 16) * 0x85EBCA6B) & _MASK
    h = ((h ^ h >> 13) * 0xC2B2AE35) & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
