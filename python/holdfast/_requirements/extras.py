"""The extras: the packages that a part of Holdfast needs."""


def how_to_install(extra: str) -> str:
    """Says how to install an extra. No index has Holdfast: `pip` needs the path of a wheel."""
    return f'install holdfast with the extra "{extra}": see Installation in the README'
