"""A line of what was measured, and whether it is within its limits."""

import math


def record(
    what: str, value: float, form: str, least: float = -math.inf, most: float = math.inf
) -> bool:
    """Print a value in a form that has its unit, as in "{:.1f} s", beside its limits; whether it
    keeps to them.
    """
    limits = {">=": least, "<=": most}
    told = " ".join(f"{sign} {form.format(x)}" for sign, x in limits.items() if math.isfinite(x))
    print(f"{what:<56}  {form.format(value):>20}  {told}".rstrip(), flush=True)
    return least <= value <= most
