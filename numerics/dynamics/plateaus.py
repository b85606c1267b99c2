r"""Plateaus and drops of a loss curve, from flow, descent, noisy training or a text file.

The curve is made monotone by isotonic regression (least squares among non-increasing curves). All else follows from
the dwell time of the loss at each level,

.. math:: \rho(\ell)\, d\ell = \text{time spent between } \ell \text{ and } \ell + d\ell.

A plateau is a peak of log rho: the curve lingers there, and passes the levels on either side at least ``contrast``
times faster. A drop lies between two consecutive plateaus. Units do not matter: scaling time or loss adds a constant to
log rho. Samples may be spaced in any way that resolves the drops.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
import scipy
from jaxtyping import Float
from scipy.optimize import brentq, isotonic_regression
from scipy.optimize.elementwise import find_root

from .._checks import between, finite_array, instance
from .results import Result, Variable, new_axes

LEVELS = 400  # cells of the loss range; noise makes them wider
QUIET = 0.001  # noise below this fraction of the range needs no running mean
WINDOWS = 60  # the running mean spans at most one in this many parts of the curve
NOISE_CELL = 7.0  # the least height of a cell, in standard deviations of the remaining noise ...
NOISE_DROP = 6.0  # ... and of a drop
SUBSTEPS = 8  # points in each step of a dense curve ...
ENOUGH = 20_000  # ... up to about this many in all
FEWER, BENT = 4, 2e-5  # of runs that go side by side: points in each step beside which the loss bends by this fraction of its range


@runtime_checkable
class DenseLoss(Protocol):
    """A trajectory that can be evaluated between its recorded times."""

    @property
    def times(self) -> np.ndarray: ...
    @property
    def loss(self) -> np.ndarray: ...
    def loss_at(self, t: object) -> float | np.ndarray: ...


@dataclass(frozen=True, eq=False, repr=False)
class Plateaus(Result):
    """M plateaus and the M - 1 drops between them, in order of time (M = 0 for a curve that lingers nowhere).

    ``levels``: the loss at which the curve lingers longest. ``starts``: when 90 % of the drop before is done; ``ends``: when
    10 % of the next is; the first starts and the last ends with the curve. ``drops``: the time at which each drop is half
    done, midway between the two levels. ``widths``: the time from 10 % to 90 % of each drop.
    """

    levels: Float[np.ndarray, " M"]
    starts: Float[np.ndarray, " M"]
    ends: Float[np.ndarray, " M"]
    drops: Float[np.ndarray, " m"]
    widths: Float[np.ndarray, " m"]
    shown = ("levels", "drops", "starts", "ends")

    @property
    def durations(self) -> Float[np.ndarray, " M"]:
        return self.ends - self.starts

    @property
    def sizes(self) -> Float[np.ndarray, " m"]:
        """By how much each drop lowers the loss."""
        return -np.diff(self.levels)

    def __len__(self) -> int:
        return len(self.levels)

    def variables(self) -> dict[str, Variable]:
        return {
            "levels": Variable(("plateau",), self.levels, "loss on the plateau"),
            "starts": Variable(("plateau",), self.starts, "beginning of the plateau", units="time"),
            "ends": Variable(("plateau",), self.ends, "end of the plateau", units="time"),
            "drops": Variable(("drop",), self.drops, "time at which the drop is half done", units="time"),
            "widths": Variable(("drop",), self.widths, "time from 10 % to 90 % of the drop", units="time"),
        }

    def plot(self, what: str = "loss", *, axes: Any = None) -> Any:
        """Draw each plateau as a line from its start to its end, and each drop as a dotted one, on new axes or ``axes``."""
        if not isinstance(what, str) or what != "loss":
            raise ValueError(f"what must be 'loss', got {what!r}")
        axes = new_axes() if axes is None else axes
        axes.hlines(self.levels, self.starts, self.ends, color="C3", lw=2)
        axes.vlines(self.drops, self.levels[1:], self.levels[:-1], color="C3", lw=1, ls=":")
        axes.set(xlabel="time", ylabel="loss L")
        return axes


@overload
def find_plateaus(times: Sequence[Any], /, *, contrast: float = ..., min_drop: float = ...) -> tuple[Plateaus, ...]: ...
@overload
def find_plateaus(times: Any, loss: Any = ..., *, contrast: float = ..., min_drop: float = ...) -> Plateaus: ...


def find_plateaus(times: object, loss: object = None, *, contrast: float = 3.0, min_drop: float = 0.01) -> Any:
    """The plateaus and drops of ``loss`` (T,) at increasing ``times`` (T,), or of a trajectory, or of each of several.

    A trajectory with ``loss_at`` is evaluated between its steps too, so that drop times have the solver's accuracy.
    ``contrast`` is how many times slower the loss must move on a plateau than beside it; ``min_drop`` the smallest drop,
    as a fraction of the range of the loss. White noise is estimated from the curve and averaged over up to a sixtieth of
    the samples; structure shorter than that is lost. A curve that does not move beyond its noise is one plateau.

    Raises ``ValueError`` for times that do not increase, unequal lengths, fewer than 3 points, and numbers that are not
    finite.
    """
    contrast, min_drop = between("contrast", contrast, 1, np.inf), between("min_drop", min_drop, 0, 1)
    if loss is None and isinstance(times, Sequence) and times and all(isinstance(run, DenseLoss) for run in times):
        return _of_each(times, contrast, min_drop)
    dense = times if loss is None and isinstance(times, DenseLoss) else None
    if dense is not None:
        times = np.union1d(dense.times, _inside(dense, SUBSTEPS))
        loss = dense.loss_at(times)
    elif loss is None:
        raise TypeError(f"loss must be given with times, unless times is a trajectory, got {times!r}")
    t = finite_array("times", times, ("T",))
    values = finite_array("loss", loss, ("T",))
    if len(t) != len(values) or len(t) < 3:
        raise ValueError(f"times and loss must have equal lengths of at least 3, got {len(t)} and {len(values)}")
    if not (np.diff(t) > 0).all():
        raise ValueError("times must increase strictly")
    found = _find(t, values, contrast, min_drop)
    return found if dense is None else _polished(dense, found, t, values)


def read_curve(path: str | PathLike[str]) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """Times and losses from a text file of two columns, separated by blanks or a comma; # starts a comment.

    A first line without a number is taken as the columns' names. Raises ``ValueError`` naming file and line.
    """
    rows: list[tuple[float, float]] = []
    named = False
    text = Path(instance("path", path, str | PathLike, "the name of a file")).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), start=1):
        fields = line.split("#", 1)[0].replace(",", " ").split()
        if not fields:
            continue
        try:
            row = [float(field) for field in fields]
        except ValueError as error:
            if not rows and not named and not any(_is_number(field) for field in fields):
                named = True
                continue
            raise ValueError(f"{path}, line {number}: needs two numbers, got {line.strip()!r}") from error
        if len(row) != 2 or not np.isfinite(row).all():
            raise ValueError(f"{path}, line {number}: needs two finite numbers, got {line.strip()!r}")
        if rows and row[0] <= rows[-1][0]:
            raise ValueError(f"{path}, line {number}: times must increase, got {row[0]!r} after {rows[-1][0]!r}")
        rows.append((row[0], row[1]))
    if len(rows) < 3:
        raise ValueError(f"{path}: needs at least 3 lines of two numbers, got {len(rows)}")
    times, loss = np.array(rows).T
    return times, loss


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _find(t: np.ndarray, values: np.ndarray, contrast: float, min_drop: float) -> Plateaus:
    smooth, noise = _monotone(values)
    height = smooth[0] - smooth[-1]
    least = np.maximum(min_drop * height, NOISE_DROP * noise)
    if height <= max(2 * NOISE_DROP * float(np.median(noise)), 1e-12 * np.abs(values).max()):
        return _assembled(t, smooth, np.array([[t[0], t[-1]]]))
    edges = _cells(smooth, noise, height)
    passed = np.append(t[0], _passage(t, smooth, edges[1:]))  # the curve may rest exactly where it starts
    cells, spacing = -np.diff(edges), np.interp(passed[:-1], t[1:], np.diff(t))
    blurred = np.minimum(NOISE_CELL * np.interp(passed[:-1], t, noise) / cells, 1.0)  # 1 for a cell as high as the noise
    dwell = np.maximum(np.maximum(np.diff(passed), blurred * spacing), 1e-12 * (t[-1] - t[0]))
    density = np.log(dwell / cells)
    peaks = _peaks(density, float(np.log(contrast)))
    spans = np.stack([passed[peaks], passed[peaks + 1]], axis=1)
    return _assembled(t, smooth, _merged(t, smooth, least, spans))


def _peaks(heights: np.ndarray, prominence: float) -> np.ndarray:
    """The maxima, flat ones at their middle, that rise at least ``prominence`` above the lowest points between them and higher ground.

    As ``scipy.signal.find_peaks``, which is slow to load, for ground at the lowest height beyond both ends.
    """
    starts = np.flatnonzero(np.append(True, np.diff(heights) != 0))
    middles = (starts + np.append(starts[1:], len(heights)) - 1) // 2
    peaks, rising, at, extreme = [], False, 0, float(heights.min())
    for i, height in zip(middles.tolist(), heights[starts].tolist(), strict=True):
        if height > extreme if rising else height < extreme:
            at, extreme = i, height
        elif abs(height - extreme) >= prominence:
            peaks += [at] * rising
            rising, at, extreme = not rising, i, height
    return np.array(peaks + [at] * rising, int)


def _monotone(values: Float[np.ndarray, " T"]) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """A non-increasing curve through ``values``, and the standard deviation of the noise left in it along the curve.

    The noise is read off second differences, which a slope does not enter, and bounded by what isotonic regression
    removes, which is exactly zero for a monotone curve, however coarse. In a slow drop isotonic regression leaves
    steps as high as the noise, so a running mean lowers the noise first, over as few samples as suffice.
    """
    monotone = np.asarray(isotonic_regression(values, increasing=False).x)
    if np.array_equal(monotone, values):
        return monotone, np.zeros(len(values))
    span = max(2 * (len(values) // 40) + 1, 21)
    removed = scipy.ndimage.median_filter(np.abs(values - monotone), size=span, mode="nearest").max()
    bends = np.pad(np.abs(np.diff(values, 2)), 1, mode="edge") / np.sqrt(6)
    noise = 1.4826 * np.minimum(scipy.ndimage.median_filter(bends, size=span, mode="nearest"), 1.5 * removed)
    height = monotone[0] - monotone[-1]
    if height == 0 or not noise.any():
        return monotone, noise
    needed = (float(np.quantile(noise, 0.9)) / (QUIET * height)) ** 2
    window = 2 * int(min(needed, len(values) / WINDOWS) / 2) + 1
    if window == 1:
        return monotone, noise
    averaged = scipy.ndimage.uniform_filter1d(values, size=window, mode="reflect")
    return np.asarray(isotonic_regression(averaged, increasing=False).x), noise / np.sqrt(window)


def _cells(smooth: np.ndarray, noise: np.ndarray, height: float) -> Float[np.ndarray, " n"]:
    """Levels from the top of the curve to its bottom, spaced by the resolution or the local noise, whichever is larger."""
    edges = [smooth[0]]
    if not noise.any():
        all_edges = np.cumsum([smooth[0], *[-height / LEVELS] * (LEVELS + 1)])
        return all_edges[: np.argmax(all_edges <= smooth[-1]) + 1]
    rising = -smooth
    while edges[-1] > smooth[-1]:
        edges.append(edges[-1] - max(height / LEVELS, NOISE_CELL * noise[rising.searchsorted(-edges[-1])]))
    return np.array(edges)


def _passage(t: np.ndarray, smooth: np.ndarray, levels: np.ndarray) -> Float[np.ndarray, " n"]:
    """The last time at which the non-increasing curve, linear between samples, is at each level."""
    after = np.searchsorted(-smooth, -np.asarray(levels), side="right")
    before = np.clip(after - 1, 0, len(t) - 1)
    after = np.clip(after, 0, len(t) - 1)
    fall = smooth[before] - smooth[after]
    part = np.divide(smooth[before] - levels, fall, out=np.zeros_like(fall), where=fall > 0)
    return t[before] + np.clip(part, 0.0, 1.0) * (t[after] - t[before])


def _merged(t: np.ndarray, smooth: np.ndarray, least: np.ndarray, spans: Float[np.ndarray, "M two"]) -> Float[np.ndarray, "M two"]:
    """Merge neighbours whose levels differ by less than ``least``, smallest drop first; the longer plateau stays."""
    while len(spans) > 1:
        middle = spans.mean(axis=1)
        levels, needed = np.interp(middle, t, smooth), np.interp(middle, t, least)
        ratio = -np.diff(levels) / np.maximum(needed[1:], needed[:-1])
        i = int(np.argmin(ratio))
        if ratio[i] >= 1:
            break
        spans = np.delete(spans, i + int(np.ptp(spans[i]) > np.ptp(spans[i + 1])), axis=0)
    return spans


def _assembled(t: np.ndarray, smooth: np.ndarray, spans: Float[np.ndarray, "M two"]) -> Plateaus:
    levels = np.interp(spans.mean(axis=1), t, smooth)
    drop = -np.diff(levels)
    near, half, far = _passage(t, smooth, levels[:-1] - np.multiply.outer((0.1, 0.5, 0.9), drop))
    first, last = (t[:1], t[-1:]) if len(spans) else (t[:0], t[:0])
    return Plateaus(levels=levels, starts=np.concatenate([first, far]), ends=np.concatenate([near, last]), drops=half, widths=far - near)


def _of_each(runs: Sequence[DenseLoss], contrast: float, min_drop: float) -> tuple[Plateaus, ...]:
    """The plateaus of every run; losses of all of them at once if the runs can give them."""
    joint = getattr(runs, "losses_of", None)
    if joint is None:
        return tuple(find_plateaus(run, contrast=contrast, min_drop=min_drop) for run in runs)
    inside = [_inside(run, FEWER, BENT) for run in runs]
    counts, times, found = [len(t) for t in inside], [], []
    losses = np.split(joint(np.repeat(np.arange(len(runs)), counts), np.concatenate(inside)), np.cumsum(counts)[:-1])
    for run, t, loss in zip(runs, inside, losses, strict=True):
        t, loss = np.append(run.times, t), np.append(run.loss, loss)
        order = np.argsort(t)
        times.append(t[order])
        found.append(_find(t[order], loss[order], contrast, min_drop))
    owners = np.repeat(np.arange(len(runs)), [len(one.drops) for one in found])
    halves = np.concatenate([(one.levels[:-1] + one.levels[1:]) / 2 for one in found])
    after = [np.clip(np.searchsorted(t, one.drops), 1, len(t) - 1) for t, one in zip(times, found, strict=True)]
    low, high = (np.concatenate([t[i - step] for t, i in zip(times, after, strict=True)]) for step in (1, 0))
    crossed = find_root(lambda t, i: joint(owners[i], t) - halves[i], (low, high), args=(np.arange(len(owners)),))
    drops = np.where(crossed.success, crossed.x, np.concatenate([one.drops for one in found]))
    ends = np.cumsum([len(one.drops) for one in found])[:-1]
    return tuple(replace(one, drops=own) for one, own in zip(found, np.split(drops, ends), strict=True))


def _inside(curve: DenseLoss, most: int, bent: float = 0.0) -> np.ndarray:
    """Times that cut steps of the curve into ``most`` parts, fewer if there are many: those beside which it bends, the first and the last.

    A line across another step misses the loss by about an eighth of ``bent`` times its range (by 1.4 of that at most in 80 random flows).
    """
    times, loss = np.asarray(curve.times), np.asarray(curve.loss)
    lengths, parts = np.diff(times), int(np.clip(ENOUGH // len(times), 1, most))
    turns = np.pad(np.abs(np.diff(np.diff(loss) / lengths)), 1, constant_values=np.inf)
    chosen = np.maximum(turns[1:], turns[:-1]) * lengths >= bent * np.ptp(loss)
    return (times[:-1][chosen, None] + lengths[chosen, None] * (np.arange(1, parts) / parts)).ravel()


def _polished(curve: DenseLoss, found: Plateaus, t: np.ndarray, loss: np.ndarray) -> Plateaus:
    """The same plateaus, with drop times found on the curve itself instead of on lines between samples."""
    drops = []
    for drop, above, below in zip(found.drops, found.levels[:-1], found.levels[1:], strict=True):
        half = (above + below) / 2
        i = int(np.clip(np.searchsorted(t, drop), 1, len(t) - 1))
        bracketed = (loss[i - 1] - half) * (loss[i] - half) < 0
        drops.append(brentq(lambda s, half=half: curve.loss_at(s) - half, t[i - 1], t[i]) if bracketed else drop)
    return replace(found, drops=np.array(drops))
