"""Exact dynamic time warping of several pairs at once, one pair to a SIMD lane.

The recurrence D[r, s] = |x_r - y_s| + min(D[r-1, s], D[r, s-1], D[r-1, s-1]) has no parallelism
along a row, so `LANES` pairs run side by side and every operation works on a vector with one
element of each. A sweep takes a block of rows through all columns: the block's last column stays in
registers, and memory is read and written once a column instead of once a cell. The vector
instructions are given to LLVM as such, because its loop vectoriser does not find this form.

For an element the operations are those of the scalar recurrence: one subtraction, one absolute
value, one addition, comparisons. Results are therefore equal bit for bit to the plain programme;
min(a, b) + c and min(a + c, b + c) round to the same number, as rounding is monotone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped,unused-ignore]
from numba import types
from numba.extending import intrinsic

from privaudit.similarity._compile import compiled

__all__ = ["INT32_INFINITY", "LANES", "dtw_pairs"]

LANES = 16  # pairs at once: one AVX-512 register of int32, two of float64
BLOCK = 4  # rows a sweep; 8 is no faster (measured) and spills registers in float64
INT32_INFINITY = int(np.iinfo(np.int32).max)


class _Arithmetic:
    """The three vector operations of the recurrence, on int32 or float64 lanes."""

    def __init__(self, builder: Any, dtype: Any) -> None:
        self.builder = builder
        self.floating = dtype == types.float64
        self.element = ir.DoubleType() if self.floating else ir.IntType(32)
        self.bytes = 8 if self.floating else 4
        self.vector = ir.VectorType(self.element, LANES)
        infinity = float("inf") if self.floating else INT32_INFINITY
        self.infinity = ir.Constant(self.vector, [infinity] * LANES)

    def less(self, a: Any, b: Any) -> Any:
        if self.floating:
            return self.builder.fcmp_ordered("<", a, b)
        return self.builder.icmp_signed("<", a, b)

    def minimum(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.less(a, b), a, b)

    def add(self, a: Any, b: Any) -> Any:
        return self.builder.fadd(a, b) if self.floating else self.builder.add(a, b)

    def absolute_difference(self, a: Any, b: Any) -> Any:
        if not self.floating:
            swap = self.less(a, b)
            larger = self.builder.select(swap, b, a)
            smaller = self.builder.select(swap, a, b)
            return self.builder.sub(larger, smaller)
        integers = ir.VectorType(ir.IntType(64), LANES)
        all_but_sign = ir.Constant(integers, [2**63 - 1] * LANES)
        bits = self.builder.bitcast(self.builder.fsub(a, b), integers)
        return self.builder.bitcast(self.builder.and_(bits, all_but_sign), self.vector)


def _sweep_of(rows: int) -> Any:
    """Build ``sweep(x, y, d)``: `rows` rows of the programme, over all columns, in place.

    ``x`` is (>= rows, LANES), ``y`` is (m, LANES), ``d`` is (m + 1, LANES), all C-contiguous and
    of one type. On entry ``d`` holds the row above the block with its left border in ``d[0]``; on
    return ``d[1:]`` holds the block's last row. ``m`` is at least one.
    """

    def sweep(typing_context: Any, x: Any, y: Any, d: Any) -> tuple[Any, Callable[..., Any]]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            ops = _Arithmetic(builder, signature.args[0].dtype)
            index = ir.IntType(64)
            arrays = [
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args, arguments, strict=True)
            ]
            xs, ys, ds = (builder.bitcast(a.data, ops.vector.as_pointer()) for a in arrays)
            columns = builder.extract_value(arrays[1].shape, 0)

            def load(base: Any, position: Any) -> Any:
                return builder.load(builder.gep(base, [position]), align=ops.bytes)

            x_rows = [load(xs, ir.Constant(index, row)) for row in range(rows)]
            corner = load(ds, ir.Constant(index, 0))
            entry = builder.block
            loop = builder.append_basic_block("columns")
            done = builder.append_basic_block("done")
            builder.branch(loop)

            builder.position_at_end(loop)
            column = builder.phi(index)
            diagonal = builder.phi(ops.vector)  # row above the block, previous column
            left = [builder.phi(ops.vector) for _ in range(rows)]  # block, previous column
            following = builder.add(column, ir.Constant(index, 1))
            above = load(ds, following)
            y_column = load(ys, column)
            cells: list[Any] = []
            for row in range(rows):
                up = cells[row - 1] if row else above
                corner_cell = left[row - 1] if row else diagonal
                best = ops.minimum(ops.minimum(left[row], corner_cell), up)
                cost = ops.absolute_difference(x_rows[row], y_column)
                cells.append(ops.add(best, cost))
            store = builder.store(cells[-1], builder.gep(ds, [following]))
            store.align = ops.bytes
            column.add_incoming(ir.Constant(index, 0), entry)
            column.add_incoming(following, loop)
            diagonal.add_incoming(corner, entry)
            diagonal.add_incoming(above, loop)
            for row in range(rows):
                left[row].add_incoming(ops.infinity, entry)
                left[row].add_incoming(cells[row], loop)
            builder.cbranch(builder.icmp_signed("<", following, columns), loop, done)
            builder.position_at_end(done)
            return context.get_dummy_value()

        return types.void(x, y, d), generate

    return intrinsic(sweep)


_sweep_block = _sweep_of(BLOCK)
_sweep_row = _sweep_of(1)


@compiled
def dtw_pairs(
    x: np.ndarray,
    y: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    infinity: float,
    distances: np.ndarray,
) -> None:
    """Write DTW(x[first[p]], y[second[p]]) to ``distances[p]`` for each pair p.

    Parameters
    ----------
    x, y
        (a, n) and (b, m) sequences, both int32 or both float64, n and m at least one. With int32
        no partial sum may reach `INT32_INFINITY`: max(n, m) times the range of the values is
        smaller.
    first, second
        (P,) int64 row numbers.
    infinity
        `INT32_INFINITY` or ``inf``, of the type of ``x``.
    distances
        (P,) float64, written.
    """
    pairs = len(first)
    n = x.shape[1]
    m = y.shape[1]
    x_lanes = np.empty((n, LANES), x.dtype)
    y_lanes = np.empty((m, LANES), x.dtype)
    d = np.empty((m + 1, LANES), x.dtype)
    for start in range(0, pairs, LANES):
        for lane in range(LANES):
            pair = min(start + lane, pairs - 1)  # idle lanes repeat the last pair
            for r in range(n):
                x_lanes[r, lane] = x[first[pair], r]
            for s in range(m):
                y_lanes[s, lane] = y[second[pair], s]
        d[:] = infinity
        d[0, :] = 0
        row = 0
        while row < n:
            if row + BLOCK <= n:
                _sweep_block(x_lanes[row:], y_lanes, d)
                row += BLOCK
            else:
                _sweep_row(x_lanes[row:], y_lanes, d)
                row += 1
            d[0, :] = infinity
        for lane in range(min(LANES, pairs - start)):
            distances[start + lane] = d[m, lane]
