"""Databases: opening one, and the open database."""

from holdfast._database.database import Database
from holdfast._database.open import open  # noqa: A004

__all__ = ["Database", "open"]
