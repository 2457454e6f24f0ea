"""Addresses: one trial, or one sentence with the nearest right name."""

import pytest

from sweeps.engine.store.address import TrialAddress, find_trial

STORED = [
    TrialAddress(sweep, scale, cell, seed, data_seed, f"{number:016x}")
    for number, (sweep, scale, cell, seed, data_seed) in enumerate(
        [
            ("depth", "laptop", "coupling, 1 layer", 0, 0),
            ("depth", "laptop", "coupling, 1 layer", 1, 1),
            ("depth", "laptop", "half/half", 0, 0),
            ("depth", "paper", "coupling, 1 layer", 1, 0),
            ("depth", "paper", "coupling, 1 layer", 1, 1),
            ("heads~model.d_ff=64", "laptop", "2 heads", 0, 0),
        ],
        start=0xA0,
    )
]


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("00000000000000a3", 3),
        ("depth/half/half", 2),
        ("depth/half/half/seed 0", 2),
        ("depth [laptop]/coupling, 1 layer/seed 1", 1),
        ("depth[laptop]/coupling, 1 layer/seed 1", 1),
        ("depth/coupling, 1 layer/seed 0", 0),
        ("depth [paper]/coupling, 1 layer/seed 1, data seed 0", 3),
        ("heads~model.d_ff=64/2 heads", 5),
    ],
)
def test_an_address_is_one_trial(text, index):
    assert find_trial(text, STORED) == STORED[index].trial_id


@pytest.mark.parametrize("one", STORED)
def test_the_address_that_is_printed_leads_back(one):
    assert find_trial(one.text, STORED) == one.trial_id


def test_ids_in_no_sweep_are_found_too():
    assert find_trial("beef", STORED, ["beef" * 4]) == "beef" * 4
