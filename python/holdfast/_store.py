"""What every store of a task can do."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast._task import Task
    from holdfast.stores import StoreBuilder

K = TypeVar("K")
V = TypeVar("V")

_log = logging.getLogger("holdfast")


class Serdes(Generic[K, V]):
    """A store's name and its two serdes, with errors that name them."""

    def __init__(self, builder: StoreBuilder) -> None:
        """The serdes that a store was built with."""
        self.store = builder.name
        self._key = builder.key
        self._value = builder.value

    def to_key(self, key: K) -> bytes:
        """The bytes of a key."""
        if key is None:
            raise ValueError(f"store {self.store}: the key is None; a key must have a value")
        return self._serialize(self._key, key, "key")

    def to_bound(self, key: K | None) -> bytes | None:
        """The bytes of a range's end; None leaves it open."""
        return None if key is None else self.to_key(key)

    def to_value(self, value: V | None) -> bytes | None:
        """The bytes of a value; None stays None."""
        return None if value is None else self._serialize(self._value, value, "value")

    def from_key(self, data: bytes) -> K:
        """The key of stored bytes."""
        key: K = self._deserialize(self._key, data, "key")
        return key

    def from_value(self, data: bytes) -> V:
        """The value of stored bytes."""
        value: V = self._deserialize(self._value, data, "value")
        return value

    def _serialize(self, serde: Any, item: Any, what: str) -> bytes:
        try:
            data = serde.serialize(item)
        except Exception as error:
            raise SerializationError(f"store {self.store}: {serde!r} cannot serialize the {what} {item!r}") from error
        if not isinstance(data, bytes):
            raise TypeError(
                f"store {self.store}: the {what} is a {type(data).__name__} ({data!r:.80}); wanted: bytes, "
                f"or give the store a serde ({what}=...)"
            )
        return data

    def _deserialize(self, serde: Any, data: bytes, what: str) -> Any:
        try:
            return serde.deserialize(data)
        except Exception as error:
            raise SerializationError(
                f"store {self.store}: {serde!r} cannot deserialize the stored {what} {data[:32]!r}"
            ) from error


class StateStore:
    """A store of a task. Its own reads are the writer's: they see the open transaction."""

    persistent = True
    transactional = True
    manages_offsets = True
    _flush_has_warned = False

    def __init__(self, task: Task, builder: StoreBuilder) -> None:
        """Made by the task."""
        self._task = task
        self._builder = builder

    @property
    def name(self) -> str:
        """The store's name in its task."""
        return self._builder.name

    @property
    def is_open(self) -> bool:
        """Whether the task is open."""
        return self._task.is_open

    def flush(self) -> None:
        """Deprecated, does nothing: commits need no flush, and `close` flushes by itself."""
        if not StateStore._flush_has_warned:
            StateStore._flush_has_warned = True
            _log.warning("StateStore.flush is deprecated and does nothing; call commit")

    def commit(self, changelog_offsets: Mapping[tuple[str, int], int | None] | None = None) -> None:
        """Commits the whole task, as `Task.commit` does: all its stores go together."""
        self._task.commit(changelog_offsets)

    def committed_offset(self, partition: tuple[str, int]) -> int | None:
        """The committed changelog offset of (topic, partition), None if there is none."""
        return self._task.committed_offset(partition)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self._task!r}>"
