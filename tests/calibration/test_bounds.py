"""Tests for bounded means: by hand, against scipy, and by how often they would accept what is false."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from lspc.calibration import bounds

DELTA = 0.1
RUNS = 4_000
ALLOWED = DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / RUNS)
"""Three standard errors above the rate that is promised."""


def two_point(rng: np.random.Generator, mean: float, shape: tuple[int, ...]) -> np.ndarray:
    """All or nothing: the hardest case, and one where the bounds are nearly exact."""
    return (rng.random(shape) < mean).astype(float)


def beta(rng: np.random.Generator, mean: float, shape: tuple[int, ...]) -> np.ndarray:
    return rng.beta(5 * mean, 5 * (1 - mean), shape)


def heavy_at_the_bound(rng: np.random.Generator, mean: float, shape: tuple[int, ...]) -> np.ndarray:
    """Mostly a little, now and then everything: half of the mean comes from either."""
    rare = rng.random(shape) < mean / 2
    return np.where(rare, 1.0, rng.uniform(0, mean / (1 - mean / 2), shape))


DISTRIBUTIONS = [two_point, beta, heavy_at_the_bound]


@pytest.mark.parametrize("draw", DISTRIBUTIONS)
def test_the_distributions_have_the_mean_they_are_said_to_have(draw) -> None:
    assert draw(np.random.default_rng(0), 0.1, (200_000,)).mean() == pytest.approx(0.1, abs=0.003)


def test_hoeffding_bentkus_by_hand() -> None:
    """Twenty episodes without cost: (1 - 0.1)^20 by Hoeffding, and e times as much by Bentkus."""
    assert bounds.hoeffding_bentkus_p_value(np.zeros(20), 0.1) == pytest.approx(0.9**20)
    # Two of ten at the bound against a target of one half; Bentkus is e (1 + 10 + 45) / 2^10.
    hoeffding = math.exp(-10 * (0.2 * math.log(0.2 / 0.5) + 0.8 * math.log(0.8 / 0.5)))
    assert hoeffding == pytest.approx(0.1455, abs=1e-4)
    assert math.e * 56 / 1024 == pytest.approx(0.1487, abs=1e-4)
    shares = np.array([1.0, 1.0] + [0.0] * 8)
    assert bounds.hoeffding_bentkus_p_value(shares, 0.5) == pytest.approx(hoeffding)
    assert bounds.hoeffding_bentkus_p_value(np.ones(8), 0.5) == 1.0
    assert bounds.hoeffding_bentkus_p_value(np.full(8, 0.7), 0.5) == 1.0


def test_hoeffding_bentkus_against_scipy() -> None:
    """Both halves by other means: the best exponential bound by a search, the binomial tail from scipy."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        target, number = rng.uniform(0.05, 0.5), int(rng.integers(5, 80))
        shares = rng.random(number) * rng.uniform(0, 2 * target)
        mean = min(shares.mean(), target)

        def log_moment(s: float, mean: float = mean, target: float = target) -> float:
            return s * mean + math.log1p(target * math.expm1(-s))

        best = optimize.minimize_scalar(log_moment, bounds=(0, 50), method="bounded")
        tail = stats.binom(number, target).cdf(math.ceil(shares.sum()))
        wanted = min(1.0, math.exp(number * best.fun), math.e * tail)
        assert bounds.hoeffding_bentkus_p_value(shares, target) == pytest.approx(wanted, rel=1e-3)


def test_bentkus_is_the_smaller_one_somewhere() -> None:
    shares = np.array([1.0] * 40 + [0.0] * 160)
    hoeffding = math.exp(-200 * (0.2 * math.log(0.2 / 0.25) + 0.8 * math.log(0.8 / 0.75)))
    assert bounds.hoeffding_bentkus_p_value(shares, 0.25) < 0.9 * hoeffding


def test_betting_by_hand() -> None:
    """Three episodes of 0, 0.5 and 0.1 against a target of 0.2.

    Before the first nothing is known but the imagined episode: the gap is 0.2 and the stake 1 (0.2 / 0.04 is more).
    The same before the second. Then the mean is 1/6, so the gap is the least there is, 0.05; the variance is
    (1/3)^2 / 3.
    """
    shares = np.array([0.0, 0.5, 0.1])
    third = 0.05 / (1 / 27 + 0.05**2)
    assert third > 1
    np.testing.assert_allclose(bounds.place_bets(shares, 0.2), [1.0, 1.0, 1.0])
    wealth = [1.2, 1.2 * 0.7, 1.2 * 0.7 * 1.1]
    np.testing.assert_allclose(bounds.log_wealth(shares, np.ones(3), 0.2), np.log(wealth))
    assert bounds.betting_p_value(shares, 0.2) == pytest.approx(1 / 1.2)  # what was won once counts
    assert bounds.betting_p_value(np.ones(4), 0.2) == 1.0
    # An episode at the bound makes the next stake small: mean 1/2, variance (1/2)^2 / 2.
    assert bounds.place_bets(np.array([1.0, 0.0]), 0.2)[1] == pytest.approx(0.05 / (0.125 + 0.0025))


CONFSEQ = {0.05: (2.005148622087822, 265.6090934647287), 0.2: (10.001300354238008, 796.661341539214),
           0.5: (1593.3333380793852, 72.47040711271585)}  # fmt: skip
"""By confseq 0.0.11 (Waudby-Smith and Ramdas' own) for the episodes of the test below: the most money that our bets
make on a mean below the target, and on one above 0.4 of it."""


def test_money_is_what_confseq_counts() -> None:
    """`betting_mart` of 40 episodes: theta=0, trunc_scale=1, m_trunc=False below the target; above it theta=1,
    trunc_scale=1, the mean over the sizes of bets.

    confseq compiles C++ and asks for numpy before 2, so its numbers are written here and it is not needed.
    """
    rng = np.random.default_rng(20)
    for target, (below, above) in CONFSEQ.items():
        shares = np.round(rng.beta(1, 1.6 / target - 1, 40), 3)
        assert bounds.betting_p_value(shares, target) == pytest.approx(1 / below, rel=1e-9)
        assert bounds.excess_p_value(shares, 0.4 * target) == pytest.approx(1 / above, rel=1e-9)


def test_a_bet_knows_nothing_of_what_it_is_on() -> None:
    rng = np.random.default_rng(0)
    shares = rng.random((50, 30))
    for place in (0, 7, 29):
        changed = shares.copy()
        changed[:, place:] = rng.random((50, 30 - place))
        before, after = (bounds.place_bets(values, 0.3)[:, : place + 1] for values in (shares, changed))
        np.testing.assert_array_equal(before, after)
    assert (bounds.place_bets(shares, 0.3) > 0).all()
    assert (bounds.place_bets(shares, 0.3) <= 1).all()


def test_money_cannot_be_expected_to_grow_when_the_mean_is_the_target() -> None:
    """Exactly: all sequences of eight all-or-nothing episodes, each with its chance."""
    mean = 0.3
    sequences = ((np.arange(256)[:, None] >> np.arange(8)) & 1).astype(float)
    chances = np.prod(np.where(sequences > 0, mean, 1 - mean), axis=1)
    wealth = np.exp(bounds.log_wealth(sequences, bounds.place_bets(sequences, mean), mean))
    np.testing.assert_allclose(chances @ wealth, np.ones(8))


def test_the_upper_bound_fits_the_p_value() -> None:
    rng = np.random.default_rng(2)
    for target in (0.05, 0.2, 0.5):
        for number in (5, 60, 200):
            shares = rng.beta(1, 20, number)
            upper = bounds.upper_bound(shares, target, 0.9)
            assert (upper <= target + 1e-9) == (bounds.betting_p_value(shares, target) <= 0.1)
            assert upper > shares.mean()


def test_the_upper_bound_of_free_episodes_by_hand() -> None:
    """All stakes are 1: money (1 + m)^20 is 10 at m = 10^(1/20) - 1."""
    assert bounds.upper_bound(np.zeros(20), 0.2, 0.9) == pytest.approx(10 ** (1 / 20) - 1)
    assert bounds.upper_bound(np.zeros(1), 0.2, 0.9) == pytest.approx(1.0)


@pytest.mark.parametrize(("target", "needed"), [(0.05, 48), (0.2, 13), (0.5, 6)])
def test_the_fewest_episodes(target: float, needed: int) -> None:
    assert bounds.fewest_episodes(target, 0.9) == needed
    assert (
        bounds.betting_p_value(np.zeros(needed), target) <= 0.1 < bounds.betting_p_value(np.zeros(needed - 1), target)
    )


def test_how_many_more_episodes_are_needed() -> None:
    assert bounds.estimate_more_episodes(np.zeros(40), 0.05, 0.9) == 8
    assert bounds.estimate_more_episodes(np.full(10, 0.2), 0.1, 0.9) is None
    rng = np.random.default_rng(3)
    guessed, really = [], []
    for shares in rng.beta(1, 19, (200, 800)):
        have = bounds.log_wealth(shares, bounds.place_bets(shares, 0.08), 0.08)
        guessed.append(bounds.estimate_more_episodes(shares[:40], 0.08, 0.9) or 800)
        really.append(max(1, int(np.argmax(have >= math.log(10))) + 1 - 40))
    assert np.median(guessed) == pytest.approx(np.median(really), rel=0.25)


@pytest.mark.parametrize("draw", DISTRIBUTIONS)
@pytest.mark.parametrize("mean", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("number", [10, 60])
def test_hoeffding_bentkus_accepts_what_is_false_rarely_enough(draw, mean: float, number: int) -> None:
    shares = draw(np.random.default_rng(7), mean, (RUNS, number))
    # One that is true by the smallest of margins: the claim under test is that the mean is above the target.
    assert (bounds.hoeffding_bentkus_p_value(shares, mean) <= DELTA).mean() <= ALLOWED


@pytest.mark.parametrize("draw", DISTRIBUTIONS)
@pytest.mark.parametrize("mean", [0.05, 0.2, 0.5])
def test_betting_accepts_what_is_false_rarely_enough_whenever_one_stops(draw, mean: float) -> None:
    """The p-value is that of the best moment to stop among 300: nobody can choose a better one."""
    shares = draw(np.random.default_rng(8), mean, (RUNS, 300))
    assert (bounds.betting_p_value(shares, mean) <= DELTA).mean() <= ALLOWED


@pytest.mark.parametrize("draw", DISTRIBUTIONS)
def test_the_upper_bound_covers_the_mean_whatever_it_was_tuned_for(draw) -> None:
    """Bets meant for a target of 0.1, a mean that is 0.2: it is above the bound in at most a tenth of the runs."""
    shares = draw(np.random.default_rng(9), 0.2, (1_000, 120))
    bets = bounds.place_bets(shares, 0.1)
    missed = bounds.log_wealth(shares, bets, 0.2).max(axis=-1) >= math.log(1 / DELTA)
    assert missed.mean() <= DELTA + 3 * math.sqrt(DELTA * (1 - DELTA) / 1_000)
    for own, was_missed in zip(shares[:100], missed[:100], strict=True):
        assert (bounds.upper_bound(own, 0.1, 0.9) < 0.2) == was_missed


def test_hoeffding_bentkus_after_peeking_would_break_the_promise() -> None:
    """Why betting is there: the smallest of Hoeffding-Bentkus's p-values over time is no p-value."""
    shares = two_point(np.random.default_rng(10), 0.2, (RUNS, 300))
    looks = np.stack([bounds.hoeffding_bentkus_p_value(shares[:, :n], 0.2) for n in range(5, 301, 5)])
    assert (looks.min(axis=0) <= DELTA).mean() > 1.5 * DELTA


@pytest.mark.parametrize("draw", DISTRIBUTIONS)
@pytest.mark.parametrize("mean", [0.05, 0.2, 0.5, 0.9])
def test_an_excess_is_claimed_rarely_enough_whenever_one_looks(draw, mean: float) -> None:
    shares = draw(np.random.default_rng(11), mean, (RUNS, 100))
    assert (bounds.excess_p_value(shares, mean) <= DELTA).mean() <= ALLOWED
    assert (bounds.excess_bets(mean) * mean < 1).all()


def test_betting_proves_what_is_true_with_few_episodes() -> None:
    """A mean of half the target 0.2: 60 episodes suffice nearly always; one of twice the target is seen soon."""
    rng = np.random.default_rng(12)
    assert (bounds.betting_p_value(beta(rng, 0.1, (500, 60)), 0.2) <= DELTA).mean() > 0.95
    assert (bounds.excess_p_value(beta(rng, 0.4, (500, 40)), 0.2) <= DELTA).mean() > 0.95
    assert bounds.excess_p_value(np.full(4, 0.5), 0.05) < 0.01
