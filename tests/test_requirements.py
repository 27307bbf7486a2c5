"""Errors for requirements that the machine does not meet, with what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import _requirements
from holdfast._requirements import extension
from holdfast.errors import HoldfastError, RequirementError


def test_a_processor_without_the_instructions_is_refused(tmp_path: Path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu sse2 pclmulqdq\n\nprocessor\t: 1\n")
    with pytest.raises(RequirementError, match="has no sse4_2, popcnt: holdfast needs x86-64-v2"):
        extension.check_cpu("x86_64", cpuinfo)
    extension.check_cpu("aarch64", cpuinfo)
    cpuinfo.write_text("flags : popcnt sse4_2 pclmulqdq\n")
    extension.check_cpu("x86_64", cpuinfo)


def test_an_extension_that_cannot_be_loaded_names_the_glibc(monkeypatch: pytest.MonkeyPatch):
    def fails(name: str) -> Any:
        raise ImportError(f"{name}: version `GLIBC_2.99' not found")

    monkeypatch.setattr(extension, "import_module", fails)
    with pytest.raises(RequirementError, match="GLIBC_2.99.*glibc at least as new") as caught:
        _requirements.check_extension()
    # `except ImportError` finds it as well.
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, HoldfastError)


def test_an_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pyspark.__version__", "3.5.6")
    with pytest.raises(RequirementError, match=r'this is 3\.5\.6: install .*extra "spark"'):
        _requirements.check_pyspark()


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ('openjdk version "17.0.15" 2025-04-15', None),
        ('openjdk version "25" 2025-09-16', None),
        ('java version "1.8.0_402"', "is Java 8"),
        ("Unrecognized option", "cannot be run"),
    ],
)
def test_an_old_java_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, found: str | None
):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if found is None:
        _requirements.check_java(is_needed=True)
        return
    with pytest.raises(RequirementError, match=f"needs Java 17 or newer, and .*{found}"):
        _requirements.check_java(is_needed=True)
    _requirements.check_java(is_needed=False)


def test_a_missing_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RequirementError, match="none on the PATH"):
        _requirements.check_java(is_needed=True)
