"""FastDTW (Salvador and Chan, 2007), with the conventions of the ``fastdtw`` package.

Coarsen both sequences by halves (an odd last element is dropped) until one is shorter than
``radius + 2``; solve that exactly; then project the path to the next finer level, where only cells
within ``radius`` coarse cells of it are visited. Equality with the package hangs on its
conventions, which are kept: costs are compared after the addition of the local cost, and of equal
costs the step from above wins over the one from the left, and that over the diagonal.
"""

from __future__ import annotations

import numpy as np

from privaudit.similarity._compile import compiled

__all__ = ["fastdtw_pairs"]

_ABOVE, _LEFT, _DIAGONAL = 0, 1, 2


@compiled
def _band(
    x: np.ndarray,
    y: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    starts: np.ndarray,
    steps: np.ndarray,
    above: np.ndarray,
    current: np.ndarray,
    keep_steps: bool,
) -> float:
    """Return the cheapest path's cost within columns low[i]..high[i] of each row i.

    ``above`` and ``current`` are scratch rows of len(y) + 1 with column j at position j + 1. With
    ``keep_steps`` the step into cell (i, j) goes to ``steps[starts[i] + j - low[i]]``.
    """
    above[0] = 0.0
    above_high = -1
    for i in range(len(x)):
        for j in range(above_high + 1, high[i] + 1):
            above[j + 1] = np.inf
        current[low[i]] = np.inf
        left = np.inf
        value = x[i]
        offset = starts[i] - low[i]
        for j in range(low[i], high[i] + 1):
            cost = abs(value - y[j])
            best = above[j + 1] + cost
            step = _ABOVE
            candidate = left + cost
            if candidate < best:
                best = candidate
                step = _LEFT
            candidate = above[j] + cost
            if candidate < best:
                best = candidate
                step = _DIAGONAL
            left = best
            current[j + 1] = best
            if keep_steps:
                steps[offset + j] = step
        above_high = high[i]
        above, current = current, above
    return float(above[len(y)])


@compiled
def _trace(
    low: np.ndarray,
    starts: np.ndarray,
    steps: np.ndarray,
    last_column: int,
    path_low: np.ndarray,
    path_high: np.ndarray,
) -> None:
    """Follow the kept steps back and write the first and last column of the path in each row."""
    i = len(low) - 1
    j = last_column
    path_high[i] = j
    while i >= 0 and j >= 0:
        path_low[i] = j
        step = steps[starts[i] + j - low[i]]
        if step != _ABOVE:
            j -= 1
        if step != _LEFT:
            i -= 1
            if i >= 0:
                path_high[i] = j


@compiled
def _fastdtw(x: np.ndarray, y: np.ndarray, radius: int) -> float:
    """Return the approximate distance of one pair, or NaN where no path fits in the window."""
    levels = 0
    n, m = len(x), len(y)
    while n >= radius + 2 and m >= radius + 2:
        if radius == 0 and (n % 2 == 1 or m % 2 == 1):
            return np.nan  # the dropped last element is never reached again
        n //= 2
        m //= 2
        levels += 1
    # Level 0 is the finest; level l starts at x_at[l] of one flat array.
    xs = np.empty(2 * len(x))
    ys = np.empty(2 * len(y))
    x_at = np.zeros(levels + 2, np.int64)
    y_at = np.zeros(levels + 2, np.int64)
    xs[: len(x)] = x
    ys[: len(y)] = y
    x_at[1] = len(x)
    y_at[1] = len(y)
    for level in range(levels):
        n = (x_at[level + 1] - x_at[level]) // 2
        m = (y_at[level + 1] - y_at[level]) // 2
        x_at[level + 2] = x_at[level + 1] + n
        y_at[level + 2] = y_at[level + 1] + m
        for i in range(n):
            at = x_at[level] + 2 * i
            xs[x_at[level + 1] + i] = (xs[at] + xs[at + 1]) / 2
        for j in range(m):
            at = y_at[level] + 2 * j
            ys[y_at[level + 1] + j] = (ys[at] + ys[at + 1]) / 2

    low = np.empty(len(x), np.int64)
    high = np.empty(len(x), np.int64)
    starts = np.empty(len(x), np.int64)
    path_low = np.empty(len(x), np.int64)
    path_high = np.empty(len(x), np.int64)
    above = np.empty(len(y) + 1)
    current = np.empty(len(y) + 1)
    distance = np.nan
    coarse = 0
    for level in range(levels, -1, -1):
        n = x_at[level + 1] - x_at[level]
        m = y_at[level + 1] - y_at[level]
        cells = 0
        for i in range(n):
            if level == levels:
                low[i] = 0
                high[i] = m - 1
            else:
                top = max(i // 2 - radius, 0)
                bottom = min(i // 2 + radius, coarse - 1)
                low[i] = max(2 * (path_low[top] - radius), 0)
                high[i] = min(2 * (path_high[bottom] + radius) + 1, m - 1)
            starts[i] = cells
            cells += high[i] - low[i] + 1
        keep_steps = level > 0
        steps = np.empty(cells if keep_steps else 0, np.int8)
        distance = _band(
            xs[x_at[level] : x_at[level + 1]],
            ys[y_at[level] : y_at[level + 1]],
            low,
            high,
            starts,
            steps,
            above,
            current,
            keep_steps,
        )
        if keep_steps:
            _trace(low[:n], starts, steps, m - 1, path_low, path_high)
        coarse = n
    return distance


@compiled
def fastdtw_pairs(
    x: np.ndarray,
    y: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    radius: int,
    distances: np.ndarray,
) -> None:
    """Write FastDTW(x[first[p]], y[second[p]]) to ``distances[p]``; float64, rows contiguous.

    NaN marks a pair that has no path: ``radius`` 0 and a sequence that is odd at some level.
    """
    for pair in range(len(first)):
        distances[pair] = _fastdtw(x[first[pair]], y[second[pair]], radius)
