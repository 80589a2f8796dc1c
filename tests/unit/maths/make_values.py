#!/usr/bin/env python3
"""Writes values.tsv: arguments of the elementary functions and their values, by mpmath 1.3.

Columns: function, x, y (of pow, else 0), the value rounded to a double, and what that lacks, in units of
its last place. Odd rows have an x that a float holds. Random numbers are the same in each run.

    tests/unit/maths/make_values.py > tests/unit/maths/values.tsv
"""
import math
import random
import struct

import mpmath

mpmath.mp.prec = 300
RANDOM = random.Random(56)
ROWS = 96  # of each function, beside the chosen ones


def as_float(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def spread(low, high, signed=False):
    """A number whose logarithm is uniform."""
    x = 2 ** RANDOM.uniform(math.log2(low), math.log2(high))
    return -x if signed and RANDOM.random() < 0.5 else x


def uniform(low, high):
    return RANDOM.uniform(low, high)


# Ranges: usual arguments, where the value is near a limit, and where a table's entries meet.
FUNCTIONS = {
    "exp": (mpmath.exp, [lambda: uniform(-20, 10), lambda: uniform(-88, 88), lambda: uniform(-745, 709),
                         lambda: spread(1e-18, 1, True), lambda: uniform(-744, -708)]),
    "exp2": (lambda x: mpmath.mpf(2) ** x, [lambda: uniform(-16, 0), lambda: uniform(-1074, 1023),
                                            lambda: spread(1e-18, 1, True), lambda: uniform(-1073, -1022)]),
    "log": (mpmath.log, [lambda: uniform(0.98, 1.02), lambda: uniform(0.5, 2), lambda: spread(1, 1e6),
                         lambda: spread(1e-37, 1e38), lambda: spread(5e-324, 1e308)]),
    "log1p": (mpmath.log1p, [lambda: uniform(0, 1), lambda: uniform(-0.99, 0), lambda: spread(1e-18, 1, True),
                             lambda: spread(1e-3, 1e17)]),
    "sin": (mpmath.sin, [lambda: uniform(-0.8, 0.8), lambda: uniform(-10, 10), lambda: uniform(0, 4096),
                         lambda: uniform(0, 1 << 21), lambda: spread(1, 1e308, True), lambda: spread(1e-18, 1)]),
    "cos": (mpmath.cos, [lambda: uniform(-0.8, 0.8), lambda: uniform(-10, 10), lambda: uniform(0, 4096),
                         lambda: uniform(0, 1 << 21), lambda: spread(1, 1e308, True), lambda: spread(1e-18, 1)]),
    "erf": (mpmath.erf, [lambda: uniform(-1, 1), lambda: uniform(-4, 4), lambda: uniform(4, 6.5),
                         lambda: spread(1e-30, 1), lambda: RANDOM.randrange(1, 190) / 64 * (1 + 1e-9)]),
    "tanh": (mpmath.tanh, [lambda: uniform(-1, 1), lambda: uniform(-9, 9), lambda: uniform(9, 20),
                           lambda: spread(1e-30, 1), lambda: RANDOM.randrange(1, 600) / 64 * (1 + 1e-9)]),
    "pow": (None, [lambda: (spread(1e3, 1e7), -uniform(0, 1)), lambda: (spread(1e-300, 1e300), uniform(-2, 2)),
                   lambda: (1 + uniform(-1e-3, 1e-3), uniform(-6e5, 6e5)),
                   lambda: (-float(RANDOM.randrange(1, 1000)), float(RANDOM.randrange(-40, 40)))]),
}
# The double nearest to a multiple of pi/2 (2^-62), angles at both ends of a reduction, and squares.
CHOSEN = {
    "sin": [6381956970095103.0 * 2.0**797, 1048575.875, 1048576.0, 0.7853981633974483, 3.141592653589793],
    "cos": [6381956970095103.0 * 2.0**797, 1048575.875, 1048576.0, 0.7853981633974483, 1.5707963267948966],
    "log": [1 - 2.0**-53, 1 + 2.0**-52, 2.0**-1074, 0.70710678118654746, 0.70710678118654757],
    "exp": [709.782712893384, -745.1332191019411, -708.3964185322641],
    "pow": [(-3.0, 2.0), (2.0, -1074.0), (10000.0, -0.5)],
}


def row(name, function, x, y):
    """The line of a value; none where it overflows."""
    value = mpmath.mpf(x) ** mpmath.mpf(y) if function is None else function(mpmath.mpf(x))
    head = float(value)
    if math.isinf(head):
        return None
    units = (value - mpmath.mpf(head)) / mpmath.mpf(math.ulp(head))
    return "\t".join([name, x.hex(), y.hex(), head.hex(), f"{float(units):.6f}"])


def show(line):
    if line:
        print(line)


for name, (function, ranges) in FUNCTIONS.items():
    for i in range(ROWS):
        argument = ranges[i // 2 % len(ranges)]()
        x, y = argument if function is None else (argument, 0.0)
        show(row(name, function, as_float(x) if i % 2 and 1e-45 < abs(x) < 3e38 else x, y))
    for argument in CHOSEN.get(name, []):
        x, y = argument if function is None else (argument, 0.0)
        show(row(name, function, x, y))
