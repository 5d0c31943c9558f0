"""Functions that a case in another file inlines."""

import tilewright as tw


def scaled(t, factor):
    return t * factor.astype(tw.f16)


def normalised(t):
    return scaled(t, tw.sum(t))
