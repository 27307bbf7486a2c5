"""The exceptions: one base, and a few classes that differ in what the caller should do.

A message names the store, the key and the path that the error is about. Invalid arguments raise
Python's own `ValueError` and `TypeError`.

Docstrings do not repeat what every call on a database can raise: `StoreClosedError`,
`ForkedProcessError`, `StoreCorruptedError` for a damaged file, and `HoldfastError` itself.

>>> import holdfast as hf
>>> issubclass(hf.errors.StoreLockedError, hf.errors.HoldfastError)
True
"""

__all__ = [
    "ChangesLostError",
    "FencedError",
    "ForkedProcessError",
    "FormatVersionError",
    "HoldfastError",
    "NotUpToBoundError",
    "RequirementError",
    "RestoreError",
    "SerializationError",
    "StateMismatchError",
    "StoreClosedError",
    "StoreCorruptedError",
    "StoreLockedError",
    "UnsupportedOperationError",
]


class HoldfastError(Exception):
    """The base class of all errors.

    This class itself is raised if the operating system or the object store refuses an operation (a
    full disk, a missing permission), if a call is not allowed in the current state (after a commit
    that failed), and for a bug in Holdfast. The message says which.
    """


class StoreClosedError(HoldfastError):
    """The store, its database or its iterator is closed: open the database again."""


class StoreLockedError(HoldfastError):
    """Another process or database has the directory open: close it there first.

    The message names the id of that process, if it is known.
    """


class StoreCorruptedError(HoldfastError):
    """Files are damaged: restore them from a checkpoint or from the changelog."""


class FormatVersionError(HoldfastError):
    """The files have an unknown format: use the version of Holdfast that wrote them."""


class FencedError(HoldfastError):
    """A newer run of the same query has taken over: stop this one."""


class SerializationError(HoldfastError):
    """A key or a value could not be converted: fix the data or the serde."""


class NotUpToBoundError(HoldfastError):
    """The state is behind the position that the query requires.

    Try again later, or restore the store that the message names as lost.
    """


class ChangesLostError(HoldfastError):
    """The log no longer holds the changes of an epoch: read the table, then its later changes.

    The message names the oldest epoch whose changes are there.
    """


class RequirementError(HoldfastError, ImportError):
    """Something that Holdfast needs is missing or too old: the message says what to install.

    It is an `ImportError` as well, since an import raises it in most cases.
    """


class UnsupportedOperationError(HoldfastError):
    """The operation is not supported, or not supported yet: the message names an alternative."""


class StateMismatchError(HoldfastError):
    """The state does not match the job that opens it: the message says what to do."""


class RestoreError(HoldfastError):
    """The root lacks what a restore or a read needs, or a rewind took back the epoch that is read.

    An object of the changelog or of a snapshot is missing or damaged: the message names it. Restore
    it from a backup, or read an epoch that the root holds.
    """


class ForkedProcessError(HoldfastError):
    """The process was forked after a database, a reader or a connection to a host had been opened.

    Start child processes with `spawn`, or fork before the first `open`. A child that was forked
    later must end with `os._exit`, as those of `multiprocessing` do, even if it never gets this
    error.
    """
