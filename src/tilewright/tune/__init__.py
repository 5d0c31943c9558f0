"""Choice of configurations: spaces, records of fast configurations, and the search for them.

A library function looks up its configuration, and has a default without a record:

    from tilewright.tune import Config, chosen, key_of

    DEFAULT = Config.of(BM=128, BN=128, BK=64, group=(8, 1))

    def matmul(a: tw.Tensor, b: tw.Tensor) -> tw.Tensor:
        (m, k), n = a.shape, b.shape[1]
        config = chosen("matmul", key_of(a.dtype, (m, n, k)), a.device.target) or DEFAULT
        c = tw.empty((m, n), a.dtype, device=a.device)
        out = config.walk(c.partition(config["BM"], config["BN"]))
        config.applied_to(gemm)(out, a, b, **config.arguments(gemm)).submit()
        return c
"""

from tilewright.tune.autotune import Autotuned
from tilewright.tune.config import Config, Schedule
from tilewright.tune.keys import Key, key_of
from tilewright.tune.records import (
    Provenance,
    Record,
    Records,
    chosen,
    forcing,
    remembered,
)
from tilewright.tune.space import Space
from tilewright.tune.task import Task, Trial, Tunable, poison, relative_error

__all__ = [
    "Autotuned",
    "Config",
    "Key",
    "Provenance",
    "Record",
    "Records",
    "Schedule",
    "Space",
    "Task",
    "Trial",
    "Tunable",
    "chosen",
    "forcing",
    "key_of",
    "poison",
    "relative_error",
    "remembered",
]
