"""What can go wrong: one base, few classes, each saying what the caller can do.

A message names the store, the key and the path where it has them. Wrong arguments raise Python's
own `ValueError` and `TypeError`.

Docstrings leave out what all that reaches a database's database may raise: `StoreClosedError`,
`ForkedProcessError`, `StoreCorruptedError` where it meets a damaged file, and `HoldfastError`
itself.

>>> import holdfast as hf
>>> issubclass(hf.errors.StoreLockedError, hf.errors.HoldfastError)
True
"""

__all__ = [
    "FencedError",
    "ForkedProcessError",
    "FormatVersionError",
    "HoldfastError",
    "NotUpToBoundError",
    "RestoreError",
    "SerializationError",
    "StateMismatchError",
    "StoreClosedError",
    "StoreCorruptedError",
    "StoreLockedError",
    "UnsupportedOperationError",
]


class HoldfastError(Exception):
    """The base of all.

    Raised itself when the operating system refuses (a full disk, a missing permission), when a call
    does not fit the moment (after a commit that failed), and for a bug in Holdfast: the message
    says which.
    """


class StoreClosedError(HoldfastError):
    """The store, its database or an iterator of it is closed: open the database again."""


class StoreLockedError(HoldfastError):
    """Another process or database holds the directory; the message names the holder's pid. Close it
    there first.
    """


class StoreCorruptedError(HoldfastError):
    """Files are damaged: restore them from a checkpoint or from the changelog."""


class FormatVersionError(HoldfastError):
    """Written in a format that this version does not know: use the version of Holdfast that wrote
    it.
    """


class FencedError(HoldfastError):
    """A newer run of the same query has taken over: stop this one."""


class SerializationError(HoldfastError):
    """A key or a value could not be converted: fix the data or the serde."""


class NotUpToBoundError(HoldfastError):
    """The state has not reached the position that the query asks for: try again later, or restore a
    store named as lost.
    """


class UnsupportedOperationError(HoldfastError):
    """Not possible by design, or not here yet: the message names what to call instead."""


class StateMismatchError(HoldfastError):
    """The state does not fit the job that asks for it: the message names the way out."""


class RestoreError(HoldfastError):
    """An object of the changelog or of a snapshot is missing or damaged."""


class ForkedProcessError(HoldfastError):
    """The process was forked after a database had been opened: start children with `spawn`, or fork
    before the first one.

    Such a child, even one that never sees this error, must end with `os._exit`, as those of
    `multiprocessing` do.
    """
