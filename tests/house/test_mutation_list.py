"""The planted faults of benchmarks/mutations.py still fit the engine: each text occurs exactly once, so the list cannot rot unseen."""

import importlib.util
from pathlib import Path


def test_every_planted_fault_fits_the_engine():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "mutations.py"
    spec = importlib.util.spec_from_file_location("engine_mutations", path)
    assert spec is not None
    assert spec.loader is not None
    mutations = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mutations)
    assert len(mutations.MUTATIONS) >= 60
    assert len({(m.module, m.old, m.new) for m in mutations.MUTATIONS}) == len(mutations.MUTATIONS)
    assert mutations.misplaced() == []
