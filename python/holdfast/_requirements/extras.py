"""The extras: the packages that a part of Holdfast needs."""


def how_to_install(extra: str) -> str:
    """Says how to install an extra. No package index has Holdfast: `pip` needs a wheel's path."""
    return f'install holdfast with the extra "{extra}": see Installation in the README'
