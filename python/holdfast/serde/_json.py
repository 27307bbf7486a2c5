"""JSON."""

from __future__ import annotations

import json
from typing import Any

from holdfast.serde._typed import NamedSerde


class JsonSerde(NamedSerde[Any]):
    """What the `json` module takes, as compact text."""

    def serialize(self, value: Any, /) -> bytes:
        """The text. Raises `TypeError` for what is no JSON, `ValueError` for NaN and infinity."""
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()

    def serialize_value(self, value: Any, /) -> bytes:
        """The same."""
        return self.serialize(value)

    def deserialize(self, data: bytes, /) -> Any:
        """What the text says. Raises `ValueError` for what is no JSON."""
        return json.loads(data)
