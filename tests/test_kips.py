"""`docs/kips.md` names only what is there."""

from __future__ import annotations

import inspect
import re
from functools import reduce
from pathlib import Path

import pytest

import holdfast as hf

TABLE = (Path(__file__).parents[1] / "docs/kips.md").read_text()
NAMES = sorted(set(re.findall(r"`(hf\.[\w.]+(?:\(\w+=\))?)`", TABLE)))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_table_exists(name):
    path, _, argument = name.removesuffix("=)").partition("(")
    found = reduce(getattr, path.split(".")[1:], hf)
    if argument:
        assert argument in inspect.signature(found).parameters
