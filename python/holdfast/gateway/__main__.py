"""`python -m holdfast.gateway ROOT`: a gateway in a process of its own."""

import argparse
import sys
from collections.abc import Sequence

from holdfast.errors import HoldfastError
from holdfast.gateway import LISTEN, Gateway, named_roots


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m holdfast.gateway", description="Serves the state of queries over HTTP."
    )
    parser.add_argument("roots", nargs="+", metavar="ROOT", help="a root, or NAME=ROOT")
    parser.add_argument("--listen", default=LISTEN, metavar="ADDRESS:PORT")
    parser.add_argument("--token-file", metavar="FILE", help="the secret that clients send")
    parser.add_argument("--cert", metavar="FILE", help="a certificate with its chain (PEM)")
    parser.add_argument("--key", metavar="FILE", help="the certificate's private key (PEM)")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="send tokens and rows unencrypted: something else encrypts",
    )
    parser.add_argument("--offline", choices=["auto", "never", "only"], default="never")
    parser.add_argument("--cache-dir", metavar="DIR")
    parser.add_argument("--max-requests", type=int, default=64, metavar="N")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until SIGINT or SIGTERM; 2 if the arguments are wrong, 1 for other errors."""
    given = vars(_parser().parse_args(argv))
    try:
        gateway = Gateway(named_roots(given.pop("roots")), **given)
    except (ValueError, HoldfastError) as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError) else 1
    print(f"serving at {gateway.url}", flush=True)
    gateway.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
