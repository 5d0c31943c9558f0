"""How a call was found: cold, by a plan, or as a launch that is bound to its addresses."""

from tilewright.jit.plans.plan import BoundLaunch, PlanLaunch

_WAYS = {PlanLaunch: "plan", BoundLaunch: "bound"}


def way(operation):
    """The way of a built operation that is one launch."""
    return _WAYS.get(type(operation.work), "cold")


def prepare(kernel, *args, **kwargs):
    """Call a kernel until its launch is bound."""
    for _ in range(3):
        kernel(*args, **kwargs).sync()
    operation = kernel(*args, **kwargs)
    assert way(operation) == "bound"
    operation.close()
