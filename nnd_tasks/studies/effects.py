"""How many nats per token more the texts of one system get than texts of the others that were judged alike.

The mean log-likelihood per token of a text c of the prompt p, which people gave the judgement j, is taken to be

    score(p, c) = level(p, j) + effect(system of c) + rest

and fitted by least squares. The levels take out what the prompt and the judgement explain. Prompts are the sample: errors are
those of Bell and McCaffrey ("CR2"), with their degrees of freedom, which hold with few prompts too (Pustejovsky and Tipton,
2018, sections 2 and 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import stdtr, stdtrit

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
#: Below this a number that rounding alone keeps from 0 is taken for 0.
_ZERO = 1e-9


class Estimates(NamedTuple):
    """Contrasts between systems, in nats per token, each of shape (contrasts, columns of scores).

    Attributes:
        value: nan where the texts do not tell.
        low: lower end of the 95% interval, Student's.
        high: its upper end.
        p: two-sided, of a contrast of 0.
    """

    value: Floats
    low: Floats
    high: Floats
    p: Floats


class Effects:
    """Least squares of scores on the systems that wrote the texts, with a level of its own for each stratum.

    Args:
        prompts: of each text, shape (texts,); whatever can be compared for equality.
        strata: texts of one stratum have one prompt and one judgement, shape (texts,).
        shares: how much of a text is each system's, shape (texts, systems); rows sum to 1. A text that two systems wrote alike
            counts half for each.
        weights: of each text, shape (texts,), or one of all.
        more: further regressors, each of shape (texts, 1), such as whether the text is the better one of its pair.

    Attributes:
        counted: whether a text counts, as its stratum has texts of other systems, shape (texts,).
        groups: number of the group of each system, shape (systems,). Only systems of one group can be compared: strata link
            them, by way of others where need be.
    """

    def __init__(
        self,
        prompts: ArrayLike,
        strata: ArrayLike,
        shares: Floats,
        weights: ArrayLike = 1.0,
        more: Sequence[Floats] = (),
    ) -> None:
        self._strata, self._prompts, self._systems = _adder(strata), _adder(prompts), shares.shape[1]
        self._root = np.sqrt(np.broadcast_to(weights, len(shares)))[:, None]
        self._x = self._within(np.hstack([shares, *more]))
        self._inverse = np.linalg.pinv(self._x.T @ self._x, rcond=1e-10, hermitian=True)
        here = np.abs(self._x[:, : self._systems]) > _ZERO
        self.counted = here.any(axis=1)
        linked = (self._strata @ here > 0).astype(float)
        _, self.groups = connected_components(linked.T @ linked, directed=False)

    def _within(self, values: Floats) -> Floats:
        """Return values, shape (texts, columns), less the weighted mean of their stratum, times the root of the weight."""
        mean = (self._strata @ (values * self._root**2)) / (self._strata @ self._root**2)
        result: Floats = (values - self._strata.T @ mean) * self._root
        return result

    def against_others(self, systems: list[int]) -> Floats:
        """Return the contrast of the mean of some systems with the mean of the others, shape (systems,).

        Others are those of the same group. Systems without others do not count; where none has any, it is 0 everywhere.
        """
        others = self.groups[:, None] == self.groups
        others[:, systems] = False
        mine = [system for system in systems if others[system].any()]
        rows = np.eye(self._systems)[mine] - others[mine] / others[mine].sum(axis=1, keepdims=True)
        contrast: Floats = rows.sum(axis=0) / max(len(mine), 1)
        return contrast

    def estimate(self, scores: Floats, contrasts: Floats) -> Estimates:
        """Estimate contrasts between systems.

        Args:
            scores: mean log-likelihood per token, shape (texts, columns), a column for each model.
            contrasts: shape (contrasts, systems); each row sums to 0. A row of zeros gives nan.
        """
        y = self._within(scores)
        padded = np.pad(contrasts, [(0, 0), (0, self._x.shape[1] - self._systems)])
        fitted = self._inverse @ (self._x.T @ y)
        loads = (self._adjusted @ (self._inverse @ padded.T)).T
        rest = y - self._x @ fitted
        errors = np.sqrt([((self._prompts @ (one[:, None] * rest)) ** 2).sum(axis=0) for one in loads])
        known = np.abs(padded @ self._inverse @ (self._x.T @ self._x) - padded).max(axis=1, keepdims=True) < 1e-6
        known &= padded.any(axis=1, keepdims=True)
        value = np.where(known, padded @ fitted, np.nan)
        errors = np.where(known & (errors > _ZERO), errors, np.nan)
        degrees = np.array([[self._degrees(one)] for one in loads])
        half = stdtrit(degrees, 0.975) * errors
        return Estimates(value, value - half, value + half, 2 * stdtr(degrees, -np.abs(value / errors)))

    @cached_property
    def _adjusted(self) -> Floats:
        """The regressors of each prompt i times (1 - H_ii)^(-1/2), where H is the projection on them: CR2's adjustment."""
        adjusted = np.empty_like(self._x)
        for texts in np.split(self._prompts.indices, self._prompts.indptr[1:-1]):
            part = self._x[texts]
            values, vectors = np.linalg.eigh(np.eye(len(part)) - part @ self._inverse @ part.T)
            scale = np.where(values > 1e-8, np.maximum(values, 1e-8) ** -0.5, 0.0)
            adjusted[texts] = vectors @ (scale[:, None] * (vectors.T @ part))
        return adjusted

    def _degrees(self, loads: Floats) -> float:
        """Return the degrees of freedom of a contrast's variance, trace(G)² / sum of squares of G (Satterthwaite).

        ``loads`` is how much the rest of each text moves the contrast, shape (texts,).
        G = diag(|a_i|²) - B M B', with a_i the loads of prompt i, b_i = X_i' a_i the rows of B and M = (X'X)⁻¹.
        """
        squares, b = self._prompts @ loads**2, self._prompts @ (loads[:, None] * self._x)
        inner = ((b @ self._inverse) * b).sum(axis=1)
        product = self._inverse @ (b.T @ b)
        total = (squares**2).sum() - 2 * (squares * inner).sum() + np.trace(product @ product)
        trace = squares.sum() - inner.sum()
        return float(max(1.0, trace**2 / total)) if total > _ZERO**2 else 1.0


def _adder(names: ArrayLike) -> csr_array:
    """Return what adds up numbers of texts by name, names in ascending order, shape (names, texts)."""
    _, place = np.unique(np.asarray(names), return_inverse=True)
    return csr_array((np.ones(len(place)), (place, np.arange(len(place)))))
