"""Figures are drawn to every format, the same each time, with their numbers beside them."""

import re
from contextlib import nullcontext
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from iclflow.numerics.dynamics.storage import load_results
from iclflow.verify.claims import formulas
from iclflow.verify.cli.main import main
from iclflow.verify.cli.parser import build
from iclflow.verify.experiments.staircase import DEFAULT
from iclflow.verify.figures.gallery import FIGURES, Drawing, canvas, draw, load, rendered, save
from iclflow.verify.figures.style import DARK, LIGHT, SERIES


def test_staircase_is_saved_with_its_caption(tmp_path):
    caption = save("staircase", tmp_path / "s.png")
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "s.png").stat().st_size < 150_000
    assert (tmp_path / "s.txt").read_text() == caption + "\n"
    losses = formulas.plateau_losses(DEFAULT.task)
    assert ", ".join(f"{loss:.4f}" for loss in losses) in caption


def test_theory_flow_and_training_are_all_drawn():
    axes = draw("staircase").figure.axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert [label.split()[0] for label in labels] == ["theory:", "gradient", "PyTorch,"]
    levels = sorted({line.get_ydata()[0] for line in axes.lines if len(line.get_ydata()) == 2}, reverse=True)
    assert levels == pytest.approx(formulas.plateau_losses(DEFAULT.task))


@pytest.mark.parametrize(("extension", "start"), [(".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_vector_formats_are_reproducible(extension, start):
    first, second = rendered("staircase", extension)[0], rendered("staircase", extension)[0]
    assert first.startswith(start)
    assert first == second
    assert rendered("staircase", extension, DARK)[0] != first


def test_the_weights_move(tmp_path):
    from PIL import Image, ImageSequence

    caption = save("weights", tmp_path / "w.gif")
    assert (tmp_path / "w.gif").stat().st_size < 2_000_000
    with Image.open(tmp_path / "w.gif") as animation:
        frames = [frame.convert("L").tobytes() for frame in ImageSequence.Iterator(animation)]
    assert len(frames) == 64
    assert len(set(frames)) > 40
    assert ", ".join(f"{v:.4f}" for v in formulas.learned_value_weights(DEFAULT.task)) in caption
    with pytest.raises(ValueError, match="this figure does not move"):
        save("staircase", tmp_path / "s.gif")
    assert not (tmp_path / "s.gif").exists()


def test_svg_refers_to_nothing_outside():
    text = rendered("staircase", ".svg")[0].decode()
    assert all(link.startswith("#") for link in re.findall(r'href="([^"]+)"', text))


def test_unknown_figure_and_format_are_named(tmp_path):
    with pytest.raises(ValueError, match="did you mean staircase"):
        save("staircas", tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"must end in one of .png, .pdf, .svg, .gif"):
        save("staircase", tmp_path / "a.bmp")
    assert list(tmp_path.iterdir()) == []
    assert "staircase" in FIGURES


def test_colours_differ_in_lightness_or_hue():
    """No two colours of a series coincide for a reader without red or green receptors (Viénot's projection)."""
    rgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in SERIES[:6]]) / 255
    linear = rgb**2.2
    deuteranope = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])
    protanope = np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]])
    for view in (deuteranope, protanope):
        seen = np.clip(linear @ view.T, 0, 1) ** (1 / 2.2)
        distance = np.linalg.norm(seen[:, None] - seen[None], axis=-1) + np.eye(len(seen))
        assert distance.min() > 0.1


PAPER = {"1", "3a", "3b", "3c", "4", "5", "6", "8", "9", "10"}


def test_every_figure_of_the_paper_can_be_asked_for():
    assert {"staircase", "scale", "softmax"} | PAPER <= set(load())


# Minutes in all: networks are trained for each, and rank 8 at D = 8 has 1,161 weights.
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(load()))
def test_figure_is_drawn_with_numbers_in_its_caption(name, tmp_path):
    caption = save(name, tmp_path / "figure.png", replace(LIGHT, quick=True))
    assert len(re.findall(r"\d\.\d", caption)) >= 2
    assert not re.search(r"\b(Left|Right|Middle|Above|Below|on the right)\b|\((left|middle|right|above|below)\)", caption)
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.fixture
def small(monkeypatch):
    """The name of a figure of two panels and a colour bar that costs nothing."""

    def draw_small(theme):
        picture, (left, right) = canvas(theme, ncols=2)
        left.plot([0, 1, 2], [3, 2, 1], label="curve")
        left.vlines([0.5, 1.5], 0, 1)
        left.plot([1], [2], "o")
        left.set(xlabel="time", title="left")
        image = right.imshow([[1.0, 2.0], [3.0, float("nan")]])
        picture.colorbar(image)
        right.scatter([1, 2], [3, 4])
        return Drawing(picture, "1.0 and 2.0" + ", quick" * theme.quick)

    monkeypatch.setitem(FIGURES, "small", draw_small)
    return "small"


def test_panels_have_letters_and_colour_bars_none(small):
    letters = [[text.get_text() for text in axes.texts] for axes in draw(small).figure.axes]
    assert letters == [["(a)"], ["(b)"], []]
    assert not draw("staircase").figure.axes[0].texts[-1].get_text().startswith("(a)")


def test_a_figure_has_the_size_the_dots_and_the_style_that_were_asked_for(small, tmp_path, capsys):
    from PIL import Image

    options = ["--size", "3,2", "--dpi", "50", "--style", "ggplot", "--quick"]
    target = tmp_path / "s.png"
    assert save(small, target, replace(LIGHT, quick=True), size=(3, 2), dpi=50, style="ggplot") == "1.0 and 2.0, quick"
    with Image.open(target) as image:
        assert image.size == (150, 100)
    plain = draw(small).figure.axes[0].get_facecolor()
    assert draw(small, style="ggplot").figure.axes[0].get_facecolor() != plain
    assert mpl.rcParams["axes.facecolor"] == "white"
    with pytest.raises(ValueError, match="style must be the name or the file of a matplotlib style, got 'gplot'"):
        draw(small, style="gplot")
    with pytest.raises(ValueError, match="size must be a positive width and height"):
        draw(small, size=(3, 0))
    assert build().parse_args(["figure", "4", "--output", "a.png", *options]).size == (3.0, 2.0)
    for wrong in (["--size", "3"], ["--size", "3,99"], ["--dpi", "x"], ["--dpi", "1"], ["--data", "d.txt"]):
        with pytest.raises(SystemExit) if wrong[0] != "--data" else nullcontext():
            assert main(["figure", "weights", "--output", str(tmp_path / "w.png"), *wrong]) == 2
        assert "must" in capsys.readouterr().err


def test_what_is_drawn_is_kept_as_data(small, tmp_path):
    save(small, tmp_path / "s.png", data=tmp_path / "s.nc")
    data = load_results(tmp_path / "s.nc")
    assert data["a_1_x"].values.tolist() == [0, 1, 2]
    assert data["a_1_y"].values.tolist() == [3, 2, 1]
    assert data["a_1_y"].attrs == {"panel": "left", "xlabel": "time", "label": "curve"}
    assert data["a_3_points"].values.tolist() == [[0.5, 0], [0.5, 1], [1.5, 0], [1.5, 1]]
    assert data["b_1_image"].values[0].tolist() == [1.0, 2.0]
    assert np.isnan(data["b_1_image"].values[1, 1])
    assert data["b_2_points"].values.tolist() == [[1, 3], [2, 4]]
    assert data.attrs == {"figure": "small", "caption": "1.0 and 2.0"}
