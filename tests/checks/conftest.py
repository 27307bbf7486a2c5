"""The checks of `make lint` are imported as `scripts/lint` runs them: by file name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "checks"))
