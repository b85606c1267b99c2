"""The table of parameters: every field of a setting is in it, and its four faces accept and refuse the same values."""

import importlib.util
import json
import subprocess
import sys
import tracemalloc
from dataclasses import fields
from math import inf, nan
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
from iclflow.numerics.tasks.regression import GAINS
from iclflow.verify.cli.main import main
from iclflow.verify.cli.parser import build
from iclflow.verify.experiments.kinds import CONTEXT_GAINS
from iclflow.verify.experiments.parameters import PARAMETERS, TABLE
from iclflow.verify.experiments.setting import TOKEN_LAWS, Setting
from iclflow.verify.explorer.run import SLIDERS, Exploration
from iclflow.verify.explorer.server import page, setting
from iclflow.verify.sweep.description import read_sweep

DOCS = Path(__file__).parents[3] / "docs"
MATRIX = [[1, 0.5, 0, 0], [0.5, 1.5, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]]
COVARIANCE = {
    "eigenvalues": {"1,2.5,3,4": [1, 2.5, 3, 4], "1e-3,1,1,1": [1e-3, 1, 1, 1]},
    "covariance": {"1,0.5,0,0;0.5,1.5,0,0;0,0,2,0;0,0,0,1": MATRIX},
}
# {parameter: {text: value}} of what is accepted, and of what is refused
ACCEPTED = {
    "eigenvalues": {"0.4,0.3": [0.4, 0.3], "1": [1], "1e-5,2": [1e-5, 2]},
    "context_length": {"1": 1, "31": 31, "1000000000": 10**9},
    "heads": {"4": 4, "16": 16, "10000": 10_000},
    "rank": {"1": 1, "4": 4},
    "scale": {"0.01": 0.01, "1e-6": 1e-6, "1e20": 1e20, "0.5": 0.5},
    "seed": {"0": 0, "7": 7, "9223372036854775807": 2**63 - 1},
    "duration": {"1": 1, "2.5": 2.5},
    "weight_decay": {"0": 0, "1e-3": 1e-3},
    "learning_rate": {"0.1": 0.1, "1e-3": 1e-3},
    "momentum": {"0": 0, "0.999": 0.999},
    "optimizer": {name: name for name in ("sgd", "adam", "sign")},
    "batch_size": {"1": 1, "10000000": 10**7},
    "tilt_seed": {"0": 0, "3": 3},
    "noise_variance": {"0": 0, "0.5": 0.5, "1e100": 1e100},
    "task_covariance": COVARIANCE["eigenvalues"] | COVARIANCE["covariance"],
    "number_of_tasks": {"1": 1, "1000000": 10**6},
    "task_seed": {"0": 0, "7": 7},
    "query_covariance": COVARIANCE["eigenvalues"] | COVARIANCE["covariance"],
    "context_lengths": {"8,16": [8, 16], "1-3": [1, 2, 3], "8:0.25,16:0.75": {"8": 0.25, "16": 0.75}, "5,5,6": [5, 5, 6]},
    "context_gain": {name: name for name in GAINS},
    "token_law": {name: name for name in ("gaussian", "sphere", "rademacher", "student:5", "student:1000")},
}  # fmt: skip
WHOLE = {"-1": -1, "1.5": 1.5, "x": "x", "": "", "nan": nan, "100000000000000000000": 10**20, "true": True}
NUMBER = {"-1": -1, "x": "x", "": "", "nan": nan, "inf": inf, "-inf": -inf, "1e200": 1e200, "true": True}
EIGENVALUES = {
    "0.4,-1": [0.4, -1], "0": [0], "x": ["x"], "": [], "nan,1": [nan, 1], "1,1e101": [1, 1e101],
    ",".join(["1"] * 1001): [1] * 1001,
}  # fmt: skip
REFUSED = {
    "eigenvalues": EIGENVALUES,
    "context_length": WHOLE | {"0": 0, "1000000001": 10**9 + 1},
    "heads": WHOLE | {"0": 0, "10001": 10_001},
    "rank": WHOLE | {"0": 0, "1001": 1001},
    "scale": NUMBER | {"0": 0},
    "seed": WHOLE,
    "duration": NUMBER | {"0": 0},
    "weight_decay": NUMBER,
    "learning_rate": NUMBER | {"0": 0},
    "momentum": NUMBER | {"1": 1},
    "optimizer": {"Adam": "Adam", "": "", "1": 1},
    "batch_size": WHOLE | {"0": 0},
    "tilt_seed": WHOLE,
    "noise_variance": NUMBER,
    "task_covariance": EIGENVALUES | {"1,2;x": [[1, 2], 3], "1;nan": [[1], [nan]], "1;1e101": [[1], [1e101]]},
    "number_of_tasks": WHOLE | {"0": 0, "1000001": 10**6 + 1},
    "task_seed": WHOLE,
    "query_covariance": EIGENVALUES,
    "context_lengths": {
        "0-8": [0, 8], "1-1000000000": [1] * 10_001, "8:0.5,9:0.4": {"8": 0.5, "9": 0.4}, "8:-1,9:2": {"8": -1, "9": 2},
        "x": ["x"], "": [], "8.5": [8.5], "a:1": {"a": 1}, "1000000001": [10**9 + 1], "8:0.5,8:0.5": {"8": 0.5, "08": 0.5},
    },
    "context_gain": {"mean": "mean", "": "", "1": 1},
    "token_law": {"spere": "spere", "student:9.5": "student:9.5", "student:4": 4, "student:1001": "student:1001", "student": []},
}  # fmt: skip


def cases(values):
    return [pytest.param(name, text, id=f"{name}={text[:20]}") for name in values for text in values[name]]


def option(name: str, text: str) -> str:
    """The option to write a text for: a matrix has one of its own."""
    options = [one.name for one in TABLE[name].written_as]
    return options[-1] if ";" in text else options[0]


def swept(folder: Path, name: str, value: object):
    """The value that a run of a sweep has for one of the file."""
    table = isinstance(value, dict)
    text = f"{{ {', '.join(f'{k} = {v}' for k, v in value.items())} }}" if table else json.dumps(value)
    text = text.replace("NaN", "nan").replace("Infinity", "inf")
    path = folder / "sweep.toml"
    beside = "number_of_tasks = 2\n" if name == "task_seed" else ""
    method = "descent" if name == "optimizer" else "flow"  # which steps, and which does not
    path.write_text(f'method = "{method}"\n[setting]\n{beside}{name} = {text}\n')
    _, run = next(read_sweep(path).runs())
    return getattr(run.setting, name)


def asked(name: str, text: str):
    """The value that a request of the explorer gives a run."""
    given = {slider.key: TABLE[one].kind.write(slider.start) for one, slider in SLIDERS.items()}
    given |= {"model": "separate", "moment": "0.5", "dark": "0", "narrow": "0", SLIDERS[name].key: text}
    return getattr(setting(urlencode(given))[0], name)


def test_the_table_holds_the_fields_of_a_setting():
    assert tuple(parameter.name for parameter in PARAMETERS) == tuple(field.name for field in fields(Setting))
    assert all(getattr(Setting(), parameter.name) == parameter.default for parameter in PARAMETERS)
    assert ACCEPTED.keys() == REFUSED.keys() == TABLE.keys()


def test_names_are_those_of_the_numerics():
    assert tuple(GAINS) == CONTEXT_GAINS
    assert {name.partition(":")[0] for name in TABLE["token_law"].kind.names} == set(TOKEN_LAWS)


@pytest.mark.parametrize(("name", "text"), cases(ACCEPTED))
def test_the_faces_accept_the_same_values(tmp_path, name, text):
    given = ACCEPTED[name][text]
    value = getattr(Setting(**{name: given}), name)
    assert swept(tmp_path, name, given) == value
    if TABLE[name].written_as:
        parsed = build().parse_args(["train", option(name, text), text])
        assert getattr(parsed, name) == value
        written = next(one.kind for one in TABLE[name].written_as if one.name == option(name, text))
        assert written.parse(written.write(value).strip("'")) == value
    if name in SLIDERS and SLIDERS[name].kind.takes(value):
        assert asked(name, text) == value == getattr(Exploration(**{name: given}), name)


@pytest.mark.parametrize(("name", "text"), cases(REFUSED))
def test_the_faces_refuse_the_same_values(tmp_path, capsys, name, text):
    """Each in one line that names the parameter as this face does, the value and what it must be."""
    value, faces = REFUSED[name][text], []
    with pytest.raises(ValueError, match=rf"^{name} must be .*, got ") as refusal:
        Setting(**{name: value})
    faces.append(str(refusal.value))
    with pytest.raises(ValueError, match=rf": setting\.{name}: must be .*, got ") as refusal:
        swept(tmp_path, name, value)
    faces.append(str(refusal.value))
    if TABLE[name].written_as:
        with pytest.raises(SystemExit, match="2"):
            main(["train", option(name, text), text])
        faces.append(capsys.readouterr().err[:-1])
        shown = repr(text) if len(text) < 100 else repr(text)[:100]
        assert faces[-1].startswith(f"iclflow train: error: {option(name, text)} must be ")
        assert f", got {shown}" in faces[-1]
    if name in SLIDERS:
        with pytest.raises(ValueError, match=rf"^{SLIDERS[name].key} must be .*, got ") as refusal:
            asked(name, text)
        faces.append(str(refusal.value))
    assert all("\n" not in face and len(face) < 400 for face in faces)


def test_numpy_values_become_those_of_python():
    given = Setting(eigenvalues=np.array([0.4, 0.3]), seed=np.int64(3), scale=np.float32(0.5), context_lengths=range(8, 10))
    assert given == Setting(eigenvalues=(0.4, 0.3), seed=3, scale=0.5, context_lengths=((8, 0.5), (9, 0.5)))
    assert json.loads(json.dumps(given.to_json()))["seed"] == 3


def test_sizes_are_refused_before_memory_is_allocated():
    """Each would need gigabytes."""
    tracemalloc.start()
    for name, text in (("context_lengths", "1-1000000000"), ("heads", "1000000000"), ("batch_size", "1000000000")):
        with pytest.raises(ValueError, match="must be"):
            TABLE[name].kind.parse(text)
    for values, method in (
        ({"heads": 9999, "rank": 900, "eigenvalues": (1.0,) * 1000}, "flow"),
        ({"batch_size": 10**7}, "training"),
        ({"context_length": 10**9}, "training"),
        ({"learning_rate": 1e-9}, "training"),
    ):
        with pytest.raises(ValueError, match="must be"):
            Setting(**values).check(method)
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


def test_sliders_start_and_end_at_values_of_their_kind():
    for name, slider in SLIDERS.items():
        ends = [10**end if slider.power else end for end in (slider.least, slider.most)]
        values = [slider.start, *([[end] for end in ends] if name == "eigenvalues" else ends)]
        for value in values:
            assert slider.kind.value(value) == TABLE[name].kind.value(value)
    rows = json.loads(page().decode().partition("...")[2].partition("];\n")[0])
    assert [row[0] for row in rows] == ["D"] + ["eigenvalues"] * 8 + ["N", "H", "R", "scale", "seed", "noise"]
    assert rows[0][1:] == ["dimension D", 1, 8, 1, 4, False]
    assert rows[1][1:] == ["eigenvalue λ₁", 0.01, 1, 0.01, 0.4, False]
    assert rows[-3][2:] == [-4, -0.4, 0.05, -1.7, True]


def test_the_table_loads_nothing_heavy():
    script = "import sys, iclflow.verify.cli.parser as p; p.build(); print({'numpy', 'dataclasses', 'shtab'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"


def test_the_page_of_the_docs_is_current():
    spec = importlib.util.spec_from_file_location("settings_table", DOCS / "settings_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert written == module.page(), "run: python docs/settings_table.py"
    assert all(f"`{parameter.name}`" in written for parameter in PARAMETERS)
