"""Turns the values of key columns that a filter selects into reads of these rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from holdfast._reader.arrow import arrow
from holdfast._reader.dataset.domain import Domain, Points, hull
from holdfast._reader.keys import no_keys

if TYPE_CHECKING:
    import pyarrow

# If more keys are selected, scans read ranges that contain them.
_MOST_KEYS: Final = 10_000
MOST_SCANS: Final = 16
"""The maximum number of scans that are open at once: a host has few threads for them."""


@dataclass(frozen=True)
class Scan:
    """A scan of keys: the range's name in the extension, and its bounds."""

    rows: str
    bounds: "pyarrow.RecordBatch"


@dataclass(frozen=True)
class KeyReads:
    """Reads of whole keys, or scans; neither if no row is selected."""

    keys: "pyarrow.RecordBatch | None" = None
    scans: Sequence[Scan] = ()


def key_reads(
    selected: Mapping[str, Domain], key: "pyarrow.Schema", *, points: bool, ranges: bool
) -> KeyReads:
    """Returns reads of all rows whose keys are selected, and of few other rows.

    `points`: whether whole keys can be read one by one. `ranges`: whether a scan can be limited to
    a range.
    """
    leading: list[pyarrow.Array] = []
    for name in key.names:
        domain = selected.get(name)
        if not isinstance(domain, Points):
            break
        leading.append(domain.values)
    if any(len(values) == 0 for values in leading):
        return KeyReads()
    is_whole = len(leading) == len(key)
    if points and is_whole and prod(map(len, leading)) <= _MOST_KEYS:
        return KeyReads(keys=_every_key(leading, key.names))
    while prod(map(len, leading)) > MOST_SCANS:
        leading.pop()
        is_whole = False
    prefixes = _every_key(leading, key.names) if leading else None
    following = selected.get(key.names[len(leading)]) if ranges and not is_whole else None
    if prefixes is not None and is_whole:
        return KeyReads(scans=scans_of_keys(prefixes, ranges=ranges))
    return KeyReads(scans=_scans(prefixes, following, key.names))


def _every_key(columns: "Sequence[pyarrow.Array]", names: list[str]) -> "pyarrow.RecordBatch":
    rows = list(product(*(range(len(values)) for values in columns)))
    taken = [
        values.take(arrow().array([row[n] for row in rows], arrow().int64()))
        for n, values in enumerate(columns)
    ]
    return arrow().RecordBatch.from_arrays(taken, names=names[: len(columns)])


def scans_of_keys(keys: "pyarrow.RecordBatch", *, ranges: bool) -> list[Scan]:
    """Returns a scan for each whole key.

    With `ranges` it is a scan of a range. A scan of a prefix also finds longer text keys that begin
    with the key.
    """
    each = [keys.take([row]) for row in range(keys.num_rows)]
    if not ranges:
        return [Scan("prefix", key) for key in each]
    twice = arrow().array([0, 0])
    return [Scan("between", key.take(twice)) for key in each]


def _scans(
    prefixes: "pyarrow.RecordBatch | None", following: Domain | None, names: list[str]
) -> list[Scan]:
    """Returns a scan for each prefix, limited by the values of the column that follows."""
    range_ = None if following is None else hull(following)
    bounds = [] if range_ is None else [b for b in (range_.lower, range_.upper) if b is not None]
    pa = arrow()
    ends = pa.array(bounds, bounds[0].type) if bounds else None
    if prefixes is None:
        if range_ is None or ends is None:
            return [Scan("all", no_keys())]
        rows = "between" if len(bounds) == 2 else "from" if range_.upper is None else "to"
        return [Scan(rows, pa.RecordBatch.from_arrays([ends], names=names[:1]))]
    scans = []
    for row in range(prefixes.num_rows):
        prefix = prefixes.take([row])
        if len(bounds) < 2:
            # A range within a prefix needs both ends; with one, the whole prefix is scanned.
            scans.append(Scan("prefix", prefix))
            continue
        twice = prefix.take(pa.array([0, 0]))
        columns = [*twice.columns, ends]
        scans.append(
            Scan("between", pa.RecordBatch.from_arrays(columns, names=names[: len(columns)]))
        )
    return scans
