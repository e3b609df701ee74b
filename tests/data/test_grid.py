"""The density filter keeps what it promises, whatever the episodes look like."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lspc.data import grid_filter

numbers = st.floats(-1e3, 1e3, allow_nan=False)
episodes = st.lists(st.tuples(numbers, st.floats(0, 200)), max_size=60)


@settings(deadline=None, max_examples=100)
@given(
    episodes=episodes,
    cost_bins=st.integers(1, 12),
    reward_bins=st.integers(1, 12),
    max_per_bin=st.integers(1, 10),
    max_cost=st.floats(0, 200),
    seed=st.integers(0, 100),
)
def test_promises(
    episodes: list[tuple[float, float]],
    cost_bins: int,
    reward_bins: int,
    max_per_bin: int,
    max_cost: float,
    seed: int,
) -> None:
    returns = [episode[0] for episode in episodes]
    costs = np.array([episode[1] for episode in episodes])

    def kept(min_per_bin: int) -> list[int]:
        return grid_filter(
            returns,
            costs,
            cost_bins=cost_bins,
            reward_bins=reward_bins,
            max_per_bin=max_per_bin,
            min_per_bin=min_per_bin,
            max_cost=max_cost,
            rng=np.random.default_rng(seed),
        ).tolist()

    chosen = kept(min_per_bin=1)
    assert chosen == sorted(set(chosen))
    assert (costs[chosen] <= max_cost).all()
    assert len(chosen) <= cost_bins * reward_bins * max_per_bin
    assert chosen == kept(min_per_bin=1), "the same generator draws the same episodes"
    affordable = int((costs <= max_cost).sum())
    assert len(chosen) >= min(affordable, 1), "with no outliers to drop, no occupied cell is emptied"
    if affordable <= max_per_bin:
        assert len(chosen) == affordable
    assert len(kept(min_per_bin=2)) <= len(chosen)


def test_by_hand() -> None:
    # Two costs by two returns: a crowded cell, a pair, and one lonely episode; the last is too costly.
    costs = [0, 0, 0, 0, 10, 10, 10, 99]
    returns = [0, 0, 0, 0, 1, 1, 0, 1]
    kept = grid_filter(
        returns,
        costs,
        cost_bins=2,
        reward_bins=2,
        max_per_bin=3,
        min_per_bin=2,
        max_cost=50,
        rng=np.random.default_rng(0),
    ).tolist()
    assert len([index for index in kept if index < 4]) == 3
    assert [index for index in kept if index >= 4] == [4, 5]


def test_seeds_draw_different_episodes() -> None:
    draws = {
        tuple(
            grid_filter(
                np.zeros(50),
                np.zeros(50),
                cost_bins=2,
                reward_bins=2,
                max_per_bin=5,
                min_per_bin=2,
                max_cost=1,
                rng=np.random.default_rng(seed),
            ).tolist()
        )
        for seed in range(5)
    }
    assert len(draws) == 5
