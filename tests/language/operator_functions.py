"""The operators of Python as functions: helpers that a kernel calls, and meanings beside it."""


def add(a, b):
    return a + b


def subtract(a, b):
    return a - b


def multiply(a, b):
    return a * b


def divide(a, b):
    return a / b


def floor_divide(a, b):
    return a // b


def modulo(a, b):
    return a % b


def power(a, b):
    return a**b


def bit_and(a, b):
    return a & b


def bit_or(a, b):
    return a | b


def bit_xor(a, b):
    return a ^ b


def shift_left(a, b):
    return a << b


def shift_right(a, b):
    return a >> b


def equal(a, b):
    return a == b


def not_equal(a, b):
    return a != b


def less(a, b):
    return a < b


def less_equal(a, b):
    return a <= b


def greater(a, b):
    return a > b


def greater_equal(a, b):
    return a >= b


def negative(a):
    return -a


def positive(a):
    return +a


def inverted(a):
    return ~a


def magnitude(a):
    return abs(a)
