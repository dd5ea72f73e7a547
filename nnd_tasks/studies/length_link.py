"""What tokens, and rare tokens, cost a model: learned from all prompts but one, and taken off the margins of that one.

The model is, for a test of category c, with sums of log-probabilities S, numbers of tokens n and unigram surprise U:

    S_better - S_worse = knowledge_c + f(n_better) - f(n_worse) + b (U_better - U_worse) + noise

What is left after f and b are taken off decides the adjusted test. docs/results.md says what it cannot do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]

#: A coefficient is known if its column, or a sum of columns, varies within categories by more than this share of its size,
#: squared. Rounding gives about 1e-16.
_VARIES = 1e-10
#: Share of the two sums below which what is left of a margin is rounding: sums have the seven digits of a 32-bit float.
ROUNDING = 1e-6
#: Number of knots of f. With five, and with no noise at all, all curves that were tried (powers, logarithm, 1/n, exponential,
#: a bend) leave rates within 0.02 of 0.5; straight lines miss it by up to 0.09.
KNOTS = 5


def curve(high: Floats, low: Floats) -> Floats:
    """Return the columns of f: f(n_better) - f(n_worse) is a sum of them, for any natural cubic spline f.

    A straight line is one. The knots are quantiles of the lengths; they look neither at scores nor at judgements.

    Args:
        high: tokens of the better text of each test, shape (tests,).
        low: of the worse one; not all lengths may be equal.
    """
    knots = np.unique(np.quantile(np.concatenate([high, low]), np.linspace(0, 1, KNOTS)))
    spline = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
    return np.asarray(spline(high) - spline(low))


@dataclass(frozen=True, eq=False)
class Margins:
    """The tests that a link is learned from, and applied to.

    Attributes:
        summed: log-probability of the better text less that of the worse one, in nats, shape (tests,).
        columns: the same difference of what is to be taken out, such as numbers of tokens, shape (tests, columns).
        sizes: tokens of both texts, shape (tests,).
        totals: absolute log-probabilities of both texts added up, in nats, shape (tests,).
        prompts: which prompt each test belongs to, from 0, shape (tests,).
        categories: which category, from 0, shape (tests,).
    """

    summed: Floats
    columns: Floats
    sizes: Floats
    totals: Floats
    prompts: Ints
    categories: Ints


@dataclass(frozen=True, eq=False)
class Link:
    """Coefficients of the columns, in nats per unit.

    Attributes:
        coefficients: learned from all prompts, shape (columns,); 0 where nothing can be learned.
        without: learned from all prompts but one, shape (prompts, columns).
        known: whether a column varies, so that its coefficient can be learned, shape (columns,).
    """

    coefficients: Floats
    without: Floats
    known: NDArray[np.bool_]

    @property
    def moves(self) -> Floats:
        """How far each prompt moved the coefficients, shape (prompts, columns)."""
        return self.coefficients - self.without

    @property
    def covariance(self) -> Floats:
        """Of the coefficients: the jackknife over prompts, shape (columns, columns)."""
        prompts = len(self.without)
        return np.asarray((prompts - 1) / prompts * self.moves.T @ self.moves)


def fit(margins: Margins) -> Link:
    """Fit the coefficients by weighted least squares, on all tests and without each prompt.

    A category has a constant of its own, so that what a model knows is not mistaken for a price of tokens where better texts
    are longer. A test weighs 1 / tokens of both texts, as each token adds noise to the sums.
    """
    number, columns = int(margins.prompts.max()) + 1, margins.columns.shape[1]
    weights = 1 / np.maximum(margins.sizes, 1)
    values = np.column_stack([margins.columns, margins.summed])
    size = np.sqrt((weights[:, None] * values**2).sum(axis=0))
    size[size == 0] = 1
    values = values / size
    values -= np.average(values, axis=0, weights=weights)  # the constants take it up; sums of squares stay exact
    products = (values[:, :, None] * values[:, None, :]).reshape(len(values), -1)
    squares = _sums(margins.prompts, weights[:, None] * products, number)
    groups = int(margins.categories.max()) + 1
    ones = np.column_stack([np.ones(len(values)), values])
    cells = _sums(margins.prompts * groups + margins.categories, weights[:, None] * ones, number * groups)
    cells = cells.reshape(number, groups, columns + 2)
    # The first is of all tests, the others are without a prompt.
    squares, cells = (np.concatenate([[each.sum(axis=0)], each.sum(axis=0) - each]) for each in (squares, cells))
    weight, sums = cells[..., 0], cells[..., 1:]
    # With a prompt, a whole category may be gone.
    share = np.where(weight > 1e-9 * weight[0], 1 / np.maximum(weight, 1e-300), 0)
    centred = squares.reshape(-1, columns + 1, columns + 1) - np.einsum("pgi,pgj,pg->pij", sums, sums, share)
    found, directions = np.linalg.eigh(centred[:, :columns, :columns])
    inverse = np.where(found > _VARIES, 1 / np.maximum(found, _VARIES), 0)
    solved = np.einsum("pij,pj,pkj,pk->pi", directions, inverse, directions, centred[:, :columns, columns])
    coefficients = solved * size[columns] / size[:columns]
    known = np.diagonal(centred[0])[:columns] > _VARIES
    return Link(coefficients[0], coefficients[1:], known)


def _sums(places: Ints, values: Floats, number: int) -> Floats:
    """Add up rows of ``values``, shape (rows, columns), by place: shape (number, columns)."""
    return np.stack([np.bincount(places, column, number) for column in values.T], axis=1)


def left_over(margins: Margins, link: Link) -> Floats:
    """Return what is left of each margin, with the coefficients of the other prompts, in nats, shape (tests,).

    What can only be rounding is 0.
    """
    rest = margins.summed - (margins.columns * link.without[margins.prompts]).sum(axis=1)
    return _exact(rest, margins.totals)


def _exact(values: Floats, totals: Floats) -> Floats:
    """Return nats, with 0 for those that rounding may have left of sums as large as ``totals``."""
    return np.where(np.abs(values) <= ROUNDING * totals, 0.0, values)


def won(margin: Floats) -> Floats:
    """Return 1 for each margin above 0 and a half for each that is 0: then a scorer that knows nothing has 0.5."""
    return np.heaviside(margin, 0.5)


def influence(margins: Margins, link: Link, rest: Floats, chosen: NDArray[np.bool_]) -> Floats:
    """Return how many passed tests each prompt adds by its share in the fit, shape (prompts,).

    A rate is a count of signs, so its slope over the coefficients is measured over one standard error to both sides, along
    the main axes of their covariance.

    Args:
        margins: of the tests.
        link: fitted without each prompt.
        rest: as `left_over` returns it.
        chosen: which tests the rate is over, shape (tests,).
    """
    unit = np.sqrt(np.diagonal(link.covariance))
    unit = np.where(unit > 0, unit, 1)
    variances, axes = np.linalg.eigh(link.covariance / np.outer(unit, unit))
    added = np.zeros(len(link.without))
    for variance, axis in zip(variances, axes.T, strict=True):
        if variance < _VARIES:
            continue
        step = _exact(margins.columns[chosen] @ (np.sqrt(variance) * axis * unit), margins.totals[chosen])
        slope = (won(rest[chosen] - step).sum() - won(rest[chosen] + step).sum()) / 2
        added += slope * (link.moves / unit) @ axis / np.sqrt(variance)
    return added
