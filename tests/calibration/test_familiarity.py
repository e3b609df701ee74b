"""Familiar states: the distance by hand, and a limit that the data's own states keep."""

from dataclasses import replace

import numpy as np
from helpers.data import small_dataset

from lspc.calibration.familiarity import LANDMARKS, choose_landmarks, nearest_distance
from lspc.calibration.pipeline import share_out


def test_distance_to_the_nearest_landmark_by_hand() -> None:
    landmarks = np.array([[0.0, 0.0], [3.0, 4.0]])
    asked = np.array([[0.0, 0.0], [3.0, 0.0], [3.0, 5.0], [6.0, 8.0]])
    np.testing.assert_allclose(nearest_distance(asked, landmarks), [0.0, 3.0, 1.0, 5.0], atol=1e-6)


def test_states_like_the_datas_are_familiar_and_others_are_not() -> None:
    data = small_dataset(episodes=60)
    data = replace(data, observations=data.observations * [1, 1, 1, 50, 1, 1, 1])  # a feature in other units
    unseen = share_out(data, 5, 0.0, seed=0)[0]
    learned, held_out = data.select(np.flatnonzero(~unseen)), data.select(np.flatnonzero(unseen))
    landmarks, limit = choose_landmarks(learned, held_out, seed=0)
    assert landmarks.shape == (LANDMARKS, 7)
    assert {tuple(row) for row in landmarks.tolist()} <= {tuple(row) for row in learned.observations.tolist()}
    std = learned.statistics.observation_std

    def share_beyond(asked: np.ndarray) -> float:
        return float((nearest_distance(asked / std, landmarks / std) > limit).mean())

    assert share_beyond(held_out.observations) < 0.01
    assert share_beyond(held_out.observations + 20 * std) == 1.0
