"""What may happen to the bytes of a file, drawn from a seed."""

import random


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    """One to eight bits, anywhere."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    """The beginning or the end of a file."""
    at = rng.randrange(len(data))
    return data[:at] if rng.random() < 0.5 else data[at:]


def splice(data: bytes, rng: random.Random) -> bytes:
    """A piece of the file in another place of it, or zeros, as of a bad sector."""
    start, size = rng.randrange(len(data)), rng.choice((rng.randint(1, 400), 4096))
    piece = data[start : start + size] if rng.random() < 0.5 else b"\0" * size
    at = rng.randrange(len(data))
    return data[:at] + piece + data[at + len(piece) :]


def extend(data: bytes, rng: random.Random) -> bytes:
    """Something behind the end."""
    return data + rng.randbytes(rng.randrange(1, 99))


KINDS = (flip_bits, cut, splice, extend)
