"""Makes the helpers beside the tests importable (``entries``, ``expressions``): the tests are no package."""

import sys
from pathlib import Path

from hypothesis import Phase, settings

sys.path.insert(0, str(Path(__file__).parent))

# For runs that want to know only whether something fails (benchmarks/mutations.py): --hypothesis-profile=no-shrinking
settings.register_profile("no-shrinking", phases=[Phase.generate])
