#!/usr/bin/env bash
# math-verify 0.9.0: `parse` reads 2.5e3 as 2.5, 4.2×10^3 as 4.2 and 4.2 x 10^3 as 1,000, each without a warning, so that right answers
# written in powers of ten are wrong. What it takes for a number has no exponent, and needs no end: "m" of "100m2" is left
# aside, and so is "e3". The letter x is no operator, the sign × is one, but what is found with it does not parse, and the
# first number in it is taken. In LaTeX, $2.5e3$ is 2.5 times Euler's number times 3; only \times and * are right.
# Seen: 2500 against 2.5e3 is False.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet "math-verify[antlr4_13_2]==0.9.0" latex2sympy2_extended==1.11.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import math

from math_verify import parse, verify

for text, right, expected in (
    ("2.5e3", 2500, 2.5),
    ("The answer is 1e-7.", 1e-7, 1),
    ("4.2×10^3", 4200, 4.2),
    ("4.2 x 10^3", 4200, 1000),
    ("$2.5e3$", 2500, 2.5 * math.e * 3),
    (r"$4.2\times10^3$", 4200, 4200),
    ("4.2*10^3", 4200, 4200),
    ("2,500", 2500, 2500),
):
    found = parse(text)
    print(f"{text}: {found[0]} instead of {right}" if right != expected else f"{text}: {found[0]}")
    assert math.isclose(float(found[0].evalf()), expected)
    assert verify(parse(str(right) if right > 1 else "0.0000001"), found) == (right == expected)
PYTHON
