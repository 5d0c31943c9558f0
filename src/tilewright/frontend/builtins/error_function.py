"""Coefficients of the tail of the error function, for `special.erf`.

`TAIL` are the Chebyshev coefficients of `log(erfc(x) / t) + x²` in `t = 2 / (2 + x)`, for `x` from
`SMALLEST` to `LARGEST`; the first counts by half. A test computes them again.
"""

from __future__ import annotations

__all__ = ["LARGEST", "SMALLEST", "TAIL"]

SMALLEST = 1.0  # below it, the series around zero is more accurate
LARGEST = 6.0  # above it, the tail is below the precision of f64
# By increasing degree.
TAIL = (
    -1.4451012748122183,
    0.27430720878459447,
    0.0048938741789527045,
    -0.000749455711335077,
    -4.7304345082638056e-05,
    5.513677106379243e-06,
    4.649846842346955e-07,
    -6.245716691208546e-08,
    -4.407154307716952e-09,
    8.579689133962873e-10,
    3.0328911802669214e-11,
    -1.2114187360543218e-11,
    9.840387704217814e-14,
    1.5484347445502127e-13,
    -9.159846762507716e-15,
    -1.5223606548518827e-15,
    2.0972022267934158e-16,
)
