"""Makes the helpers of these tests (``helpers/entries.py`` and others) and the benchmarks importable: neither folder is a package."""

import sys
from pathlib import Path

from hypothesis import Phase, settings

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE / "helpers"), str(_HERE.parents[1] / "benchmarks")]

# For runs that want to know only whether something fails (benchmarks/mutations.py): --hypothesis-profile=no-shrinking
settings.register_profile("no-shrinking", phases=[Phase.generate])
