"""The serde of timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast._time import Timestamp, timestamp_micros
from holdfast.serde._typed import NamedSerde

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TimestampSerde(NamedSerde[datetime]):
    """Aware datetimes, or epoch microseconds."""

    def serialize(self, value: Timestamp, /) -> bytes:
        """Returns the bytes of a timestamp."""
        return self.core.serialize(timestamp_micros(value, "moment"), True)

    def serialize_value(self, value: Timestamp, /) -> bytes:
        """Returns the bytes of a timestamp, as `serialize`."""
        return self.serialize(value)

    def deserialize(self, data: bytes, /) -> datetime:
        """Returns the timestamp in UTC.

        Raises `OverflowError` for one before the year 1 or after 9999; batches can read it.
        """
        return _EPOCH + timedelta(microseconds=self.core.deserialize(data))
