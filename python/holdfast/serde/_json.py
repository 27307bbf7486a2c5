"""The serde of JSON."""

from __future__ import annotations

import json
from typing import Any

from holdfast.serde._typed import NamedSerde


class JsonSerde(NamedSerde[Any]):
    """Values that the `json` module takes, as compact text."""

    def serialize(self, value: Any, /) -> bytes:
        """Returns the text; `TypeError` for other values, `ValueError` for NaN and infinity."""
        return json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()

    def serialize_value(self, value: Any, /) -> bytes:
        """Returns the text, as `serialize`."""
        return self.serialize(value)

    def deserialize(self, data: bytes, /) -> Any:
        """Returns the value of a text; `ValueError` if it is not JSON."""
        return json.loads(data)
