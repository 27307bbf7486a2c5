"""The extension: the processor, the platform and the C library that it was compiled for."""

import platform
from importlib import import_module
from pathlib import Path
from typing import Final

from holdfast.errors import RequirementError

_CPU_FLAGS: Final = ("sse4_2", "pclmulqdq", "popcnt")
"""The instruction sets that `.cargo/config.toml` compiles for."""


def _missing_cpu_flags(cpuinfo: Path) -> list[str]:
    """Returns the instructions that the extension uses and the first processor lacks.

    The kernel generates the file while it is read, so this reads only the first processor's flags.
    """
    with cpuinfo.open() as lines:
        for line in lines:
            name, _, flags = line.partition(":")
            if name.strip() == "flags":
                return [flag for flag in _CPU_FLAGS if flag not in flags.split()]
    return []


def check_cpu(machine: str, cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """Raises `RequirementError` on an x86-64 processor that would end this process with SIGILL."""
    if machine != "x86_64" or not cpuinfo.exists():
        return
    missing = _missing_cpu_flags(cpuinfo)
    if missing:
        raise RequirementError(
            f"this processor has no {', '.join(missing)}: holdfast needs x86-64-v2, which "
            "processors of Intel have since 2009 and those of AMD since 2011. In a virtual machine "
            "choose the processor model of the machine itself (QEMU: -cpu host)"
        )


def check_extension() -> None:
    """Raises `RequirementError` if the extension cannot be loaded here."""
    check_cpu(platform.machine())
    try:
        import_module("holdfast._core")
    except ImportError as error:
        raise RequirementError(
            f"holdfast's extension cannot be loaded ({error}) on {platform.system()} "
            f"{platform.machine()} with {' '.join(platform.libc_ver())}: install the wheel of this "
            "platform, or build one here with `make wheel`. A wheel needs a glibc at least as new "
            "as the one it was built with, which its file name has (manylinux_2_34: glibc 2.34)"
        ) from error
