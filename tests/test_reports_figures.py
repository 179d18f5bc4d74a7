"""Figures: images a report can hold, with a text that tells the same figures."""

from __future__ import annotations

import base64
import io
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from reports_sample import HOSTILE, sample_report
from reports_sample_evidence import budgets, exposure, utilities

from privaudit.errors import ConfigurationError, InvalidDataError
from privaudit.reports import read_report
from privaudit.reports.figures import (
    epsilon_by_cluster_size,
    exposure_bars,
    gallery_png,
    lines,
    psnr_by_k,
)
from privaudit.reports.model import Figure, Interval, Series, Utility


def _image(png: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(png)))


def _runs(column: np.ndarray) -> list[np.ndarray]:
    """The stretches of one value that are true."""
    parts = np.split(column, np.flatnonzero(np.diff(column.astype(int))) + 1)
    return [part for part in parts if part[0]] or [column[:0]]


def _point(value: float) -> Interval:
    return Interval(value=value, low=value - 1, high=value + 1)


def _all() -> list[Figure]:
    return [
        lines(utilities()[0], id="a", caption=""),
        psnr_by_k((0.1, 1), {"as": (_point(9), _point(20))}, baseline=8, id="b", caption=""),
        epsilon_by_cluster_size(budgets(), rounds=1),
        exposure_bars(exposure()),
    ]


def test_figures_are_opaque_small_and_told_in_words() -> None:
    for figure in _all():
        picture = _image(figure.png)
        assert 600 <= picture.width <= 1000
        assert picture.convert("RGBA").getpixel((0, 0)) == (255, 255, 255, 255)
        assert len(figure.png) < 120_000
        assert len(figure.alt) > 60


def test_the_same_figure_has_the_same_bytes() -> None:
    assert [figure.png for figure in _all()] == [figure.png for figure in _all()]


def test_the_text_of_a_figure_gives_its_figures() -> None:
    alt = epsilon_by_cluster_size(budgets(), rounds=1).alt.replace("\xa0", " ")
    assert "With 4 users the bracket is 1.97 to 2.24." in alt
    assert "2.73 × 10⁵" in alt
    assert "not finite after 2" in lines(utilities()[0], id="a", caption="").alt
    bars = exposure_bars(exposure()).alt.replace("\xa0", " ")
    assert "Both servers (size 2): 0.250 % exactly, 99.8 % with noise." in bars


@pytest.mark.filterwarnings("ignore:Glyph")
def test_hostile_names_are_drawn_as_they_are() -> None:
    names = (HOSTILE, "_hidden", r"$\frac{", "$$", "a$b$c")
    series = tuple(Series(name=name, x=(0.0, 1.0), y=(0.0, 1.0)) for name in names)
    figure = lines(Utility(quantity=HOSTILE, x_label="$x", series=series), id="a", caption="")
    assert "\x1b" not in figure.alt
    rows = [row.model_copy(update={"coalition_label": HOSTILE}) for row in exposure()]
    exposure_bars(rows)


def test_values_that_are_not_finite_do_not_stop_a_figure() -> None:
    nan, inf = math.nan, math.inf
    lost = Interval(value=nan, low=nan, high=nan)
    wide = Interval(value=5, low=-inf, high=inf)
    figure = psnr_by_k((0.1, 1), {"as": (lost, wide)}, baseline=8, id="b", caption="")
    assert "not finite at k = 0.1" in figure.alt
    assert "interval −∞ to ∞, not drawn" in figure.alt
    series = (Series(name="never", x=(1.0, 2.0), y=(nan, inf)),)
    figure = lines(Utility(quantity="loss", x_label="round", series=series), id="a", caption="")
    assert "no finite value" in figure.alt


def test_a_figure_without_its_rows_is_refused_with_the_fix() -> None:
    others = [row for row in budgets() if row.role != "bracket"]
    with pytest.raises(ConfigurationError, match=r"BudgetRow\.role"):
        epsilon_by_cluster_size(others)
    with pytest.raises(ConfigurationError, match="7 rounds"):
        epsilon_by_cluster_size(budgets(), rounds=7)
    with pytest.raises(ConfigurationError, match="no exposure"):
        exposure_bars([])
    with pytest.raises(ConfigurationError, match="'as' has 1 values for 2"):
        psnr_by_k((0.1, 1), {"as": (_point(9),)}, baseline=8, id="b", caption="")


def test_the_budget_is_drawn_over_the_rounds_that_have_most_cluster_sizes() -> None:
    totals = [row for row in budgets() if row.rounds == 1 or row.cluster_size == 4]
    assert "over one round" in epsilon_by_cluster_size(totals).title
    assert "over 100 rounds" in epsilon_by_cluster_size(budgets(), rounds=100).title


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 20, 12)])
def test_a_thumbnail_is_the_image_enlarged_without_smoothing(shape: tuple[int, ...]) -> None:
    levels = np.random.default_rng(0).integers(0, 256, shape)
    shown = np.asarray(_image(gallery_png(levels / 255)))
    shown = shown[None] if shape[0] == 1 else shown.transpose(2, 0, 1)
    factor = shown.shape[1] // shape[1]
    assert 56 <= max(shown.shape[1:]) <= 96
    np.testing.assert_array_equal(shown, levels.repeat(factor, axis=1).repeat(factor, axis=2))


def test_pixels_outside_the_range_are_clipped_and_lost_ones_red() -> None:
    image = np.array([[[-3.0, 7.0], [np.nan, 0.0]]])
    picture = _image(gallery_png(image, side=2))
    assert [picture.getpixel(at) for at in ((0, 0), (1, 0), (0, 1), (1, 1))] == [
        (0, 0, 0),
        (255, 255, 255),
        (213, 0, 0),
        (0, 0, 0),
    ]


@pytest.mark.parametrize("shape", [(8, 8), (2, 8, 8), (1, 0, 8)])
def test_an_array_that_is_no_image_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidDataError, match="shape"):
        gallery_png(np.zeros(shape))


def test_reports_are_imported_without_matplotlib_or_torch() -> None:
    code = (
        "import sys, privaudit.reports, privaudit.reports.figures;"
        "print([m for m in ('matplotlib', 'torch', 'jinja2', 'PIL') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_sample_report_holds_one_of_each_figure() -> None:
    assert len({figure.id for figure in sample_report().figures}) == 4


@pytest.mark.parametrize("length", [8, 36, 120])
def test_nothing_of_a_figure_lies_beyond_its_edges(length: int) -> None:
    words = ("coalition of many parties " * 5)[:length]
    series = {f"{words} {i}": (_point(9), _point(20)) for i in range(5)}
    figure = psnr_by_k((0.1, 1), series, baseline=8, id="b", caption="")
    image = np.asarray(_image(figure.png).convert("L"))
    for edge in (image[:2], image[-2:], image[:, :2], image[:, -2:]):
        assert edge.min() > 250
    # The plot keeps its height, however high the legend is: the axis upwards is the longest line.
    upright = max(len(run) for column in (image < 60).T for run in _runs(column))
    assert upright > 0.4 * 3.3 * 170


SAMPLES = Path(__file__).parents[1] / "reports"


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no {SAMPLES}: not a checkout")
@pytest.mark.parametrize("name", ["pa-cfl", "pa-cfl-mnist", "disue", "pq-mds", "campaign"])
def test_nothing_of_a_sample_reports_figures_lies_beyond_their_edges(name: str) -> None:
    figures = read_report(SAMPLES / name).figures
    assert figures
    for figure in figures:
        image = np.asarray(_image(figure.png).convert("L"))
        for edge in (image[:2], image[-2:], image[:, :2], image[:, -2:]):
            assert edge.min() > 250, figure.title
