"""Addresses: one trial, or one sentence with the nearest right name."""

import re

import pytest

from sweeps.engine.store.address import Address, TrialAddress, find_trial, parse_address

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
        ("depth[laptop]/coupling, 1 layer/1", 1),
        ("depth/coupling, 1 layer/seed 0", 0),
        ("depth [paper]/coupling, 1 layer/seed 1, data seed 0", 3),
        ("depth/coupling, 1 layer/1x0", 3),
        ("heads~model.d_ff=64/2 heads", 5),
    ],
)
def test_an_address_is_one_trial(text, index):
    assert find_trial(text, STORED) == STORED[index].trial_id


@pytest.mark.parametrize("one", STORED)
def test_the_address_that_is_printed_leads_back(one):
    assert find_trial(one.text, STORED) == one.trial_id


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("dept/half/half", ValueError, "no sweep 'dept'. Did you mean 'depth'?"),
        ("depth [smoke]/half/half", ValueError, "no scale 'smoke' in depth. Known: laptop, paper."),
        (
            "depth/halves",
            ValueError,
            "no cell 'halves' in depth. Known: coupling, 1 layer, half/half.",
        ),
        ("depth/half/half/seed 7", ValueError, "no seed '7' of 'half/half' in depth. Known: 0."),
        (
            "f",
            ValueError,
            "no trial begins with 'f'; a trial is the first letters of an id, or SWEEP/",
        ),
        ("0", ValueError, "6 trials begin with '0': 00000000000000a0; "),
        (
            "depth [paper]/coupling, 1 layer/seed 1",
            ValueError,
            "2 trials of 'coupling, 1 layer' in depth, name one: "
            "depth [paper]/coupling, 1 layer/seed 1, data seed 0; ",
        ),
    ],
)
def test_what_is_wrong_or_ambiguous_is_one_sentence(text, kind, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        find_trial(text, STORED)
    assert type(refused.value) is kind
    assert "\n" not in str(refused.value)


def test_ids_in_no_sweep_are_found_too():
    assert find_trial("beef", STORED, ["beef" * 4]) == "beef" * 4


def test_a_cell_or_a_sweep_is_an_address_too():
    assert parse_address("depth") == Address(sweep="depth")
    assert parse_address("depth [paper]/NoPE") == Address(sweep="depth", scale="paper", cell="NoPE")
