"""Records of fast configurations, by architecture, which the library's kernels look up.

A library function passes its key, and has a default without a record:

    config = chosen("matmul", key_of(a.dtype, (m, n, k)), a.device.target) or DEFAULT

Records are stored in one JSON file for each target: shipped ones, overridden by the user's own. An
entry holds a key, the configuration that won, its time, and its provenance: the tool, the GPU, the
driver, tileiras, our version, the date, and a digest of the kernel's source and of the default. A
record whose digest has changed is stale: it is still a legal choice, but perhaps no longer the best
one, and `tilewright tune --check` lists it.

A key without a record gets that of the nearest shape with the same dtypes and options, if it is
near enough for the kernel (`within`): so a configuration must be *legal for every shape* of its
kernel. A record may also state that the default is the fastest choice (`UNTUNED`), so that no
farther record applies. The first lookup of a key takes some microseconds, later ones are a dict
lookup; files are read once. Making the key takes longer than that, so a library function that
chooses is `remembered`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from tilewright.errors import TuneError
from tilewright.files.private_files import Unusable, is_absent, write_private
from tilewright.files.process_lock import Taken, hold_lock
from tilewright.jit.plans.config_override import CONFIG_CACHES, CONFIG_OVERRIDE
from tilewright.runtime.devices.context import Setting
from tilewright.runtime.devices.process import ForkedLock
from tilewright.tune.config import Config
from tilewright.tune.keys import Key
from tilewright.tune.own_files import own_file, read_own_file, write_own_file

__all__ = [
    "UNTUNED",
    "Provenance",
    "Record",
    "Records",
    "add_record",
    "chosen",
    "forcing",
    "forget_tables",
    "keep",
    "keep_all",
    "own_file",
    "own_records",
    "read_records",
    "records_for",
    "remembered",
    "shipped_file",
    "target_of",
    "write_records",
]

P = ParamSpec("P")

_log = logging.getLogger("tilewright")
_FORMAT = 2
# In a record: the default was measured to be the fastest choice.
UNTUNED = Config()
_PATIENCE = 60.0  # seconds to wait for other processes that write a file
_MOST_REMEMBERED = 4096  # keys; bounds the memory of a program whose shapes never repeat


@dataclass(frozen=True)
class Provenance:
    """Provenance of a record."""

    tool: str  # the tool that searched
    gpu: str
    driver: str
    tileiras: str
    tilewright: str
    date: str  # of the measurement, as 2026-11-15
    source: str  # digest of the kernel's source, and of the default

    @property
    def machine(self) -> str:
        """Machine within which times are comparable: a GPU and an assembler."""
        return " ".join((self.gpu, self.driver, self.tileiras))


@dataclass(frozen=True)
class Record:
    """A winning configuration, and its key."""

    kernel: str
    key: Key
    config: Config
    seconds: float  # median time on that GPU
    provenance: Provenance

    @property
    def choice(self) -> str:
        """The winner, in one line."""
        return "the untuned choice" if self.config == UNTUNED else str(self.config)

    def to_json(self) -> dict[str, Any]:
        """Return data for `from_json`."""
        return {
            "kernel": self.kernel,
            "key": self.key.to_json(),
            "config": self.config.to_json(),
            "seconds": self.seconds,
            "provenance": asdict(self.provenance),
        }

    @staticmethod
    def from_json(data: Any) -> Record:
        """Return a record that `to_json` wrote; other data is a `TuneError`."""
        wanted = {field.name for field in fields(Record)}
        if not isinstance(data, dict) or data.keys() != wanted:
            raise TuneError(f"a record has {', '.join(sorted(wanted))}, not {data!r}")
        kernel, seconds = data["kernel"], data["seconds"]
        if not isinstance(kernel, str) or not _is_time(seconds):
            raise TuneError(f"a record names its kernel and a time in seconds, not {data!r}")
        return Record(
            kernel,
            Key.from_json(data["key"]),
            Config.from_json(data["config"]),
            seconds,
            _provenance(data["provenance"]),
        )


def _is_time(value: Any) -> bool:
    return isinstance(value, float) and 0 < value < math.inf


class Records:
    """The records of one target, by kernel and key."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._records = {(record.kernel, record.key): record for record in records}
        # The choice for a key, and its distance to the record.
        self._chosen: dict[tuple[str, Key], tuple[Config | None, float]] = {
            place: (_launched(record), 0.0) for place, record in self._records.items()
        }

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def __len__(self) -> int:
        return len(self._records)

    def get(self, kernel: str, key: Key) -> Record | None:
        """Return the record of exactly this key."""
        return self._records.get((kernel, key))

    def nearest(self, kernel: str, key: Key) -> Record | None:
        """Return the first record of the nearest shape with the same dtypes and options."""
        family = key.family
        near = [one for one in self if one.kernel == kernel and one.key.family == family]
        return min(near, key=lambda record: record.key.distance(key), default=None)

    def chosen(self, kernel: str, key: Key, within: float = math.inf) -> Config | None:
        """Return the configuration of the nearest record, if it is near enough; cached."""
        place = (kernel, key)
        try:
            found = self._chosen[place]
        except KeyError:
            record = self.nearest(kernel, key)
            distance = 0.0 if record is None else record.key.distance(key)
            found = (_launched(record), distance)
            if len(self._chosen) < len(self._records) + _MOST_REMEMBERED:
                self._chosen[place] = found
        return None if found[1] > within else found[0]


def _launched(record: Record | None) -> Config | None:
    return None if record is None or record.config == UNTUNED else record.config


# --- the records of this process ------------------------------------------------------------------


_tables: dict[str, Records] = {}
_changing = ForkedLock()


def forcing(kernel: str, config: Config | None) -> Setting[None]:
    """Force a configuration for every key: the tuner tries candidates this way.

    None forces the default.
    """
    return Setting(None, (CONFIG_OVERRIDE, {**(CONFIG_OVERRIDE.get() or {}), kernel: config}))


def chosen(kernel: str, key: Key, target: str, *, within: float = math.inf) -> Config | None:
    """Return the configuration to launch a library kernel with, or None without a record.

    `within` is the maximum distance in octaves to the shape of a record: 0 for a kernel that has a
    better rule for shapes without a record.
    """
    forced: Mapping[str, Config | None] | None = CONFIG_OVERRIDE.get()
    if forced is not None and kernel in forced:
        return forced[kernel]
    table = _tables.get(target)
    if table is None:
        table = records_for(target)
    return table.chosen(kernel, key, within)


def remembered(choose: Callable[P, Config]) -> Callable[P, Config]:
    """Cache a function that chooses a configuration, by its arguments.

    The cache is invalidated when records change, and bypassed while a configuration is forced.
    """
    chosen_before = _Chosen()
    known = chosen_before.known
    CONFIG_CACHES.register(chosen_before)  # lives as long as the function

    @wraps(choose)
    def choice(*args: P.args, **kwargs: P.kwargs) -> Config:
        if CONFIG_OVERRIDE.values and CONFIG_OVERRIDE.get() is not None:
            return choose(*args, **kwargs)
        place: Hashable = (args, *kwargs.items()) if kwargs else args
        found = known.get(place)
        if found is None:
            version = CONFIG_CACHES.version
            found = choose(*args, **kwargs)
            with CONFIG_CACHES.lock:  # a choice from records that have changed is not cached
                if len(known) < _MOST_REMEMBERED and version == CONFIG_CACHES.version:
                    chosen_before.known[place] = found
        return found

    return choice


class _Chosen:
    """The choices of one function, by its arguments."""

    def __init__(self) -> None:
        self.known: dict[Hashable, Config] = {}

    def forget(self) -> None:
        """Drop all choices, since records have changed."""
        self.known.clear()


def records_for(target: str) -> Records:
    """Return the records of a target, the user's own over the shipped ones; read once."""
    with _changing:
        if target not in _tables:
            _tables[target] = Records((*_usable(shipped_file(target)), *_own_usable(target)))
        return _tables[target]


def keep(record: Record, target: str) -> None:
    """Use a record from now on, and write it to the user's own file if that is kept."""
    keep_all((record,), target)


def keep_all(records: tuple[Record, ...], target: str) -> None:
    """Use some records from now on, and write them to the user's own file if that is kept."""
    with _changing:
        _tables[target] = Records((*records_for(target), *records))
        CONFIG_CACHES.invalidate()
        write_own_file(target, lambda file: add_record(file, target, *records))


def own_records(target: str) -> tuple[Record, ...]:
    """Return the user's own records for a target; raise `TuneError` if their file is damaged."""
    found = read_own_file(target)
    return () if found is None else _parsed(found.data, found.file, target)


def forget_tables() -> None:
    """Read every file again at its next use."""
    with _changing:
        _tables.clear()
        CONFIG_CACHES.invalidate()


def shipped_file(target: str) -> Path:
    """Return the path of the shipped records for a target."""
    return Path(__file__).parents[1] / "kernels" / "tuned" / f"{target}.json"


def _own_usable(target: str) -> tuple[Record, ...]:
    """Return the user's own records; a damaged file is not an error."""
    try:
        return own_records(target)
    except TuneError as error:
        _log.warning("tilewright: no tuned configurations are used: %s", error)
        return ()


# --- files ----------------------------------------------------------------------------------------


def read_records(file: Path, target: str) -> tuple[Record, ...]:
    """Return the records of a file, each checked; raise `TuneError` if it is invalid."""
    return _parsed(file.read_bytes(), file, target)


def target_of(file: Path) -> str:
    """Return the target of a file of records; raise `TuneError` if it names none."""
    try:
        found = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise TuneError(f"{file} is no file of records: {error!r}") from error
    target = found.get("target") if isinstance(found, dict) else None
    if not isinstance(target, str) or not re.fullmatch(r"sm_\d{2,3}", target):
        raise TuneError(f"{file} is no file of records: it names no target such as sm_90")
    return target


def _parsed(data: bytes, file: Path, target: str) -> tuple[Record, ...]:
    try:
        found = json.loads(data)
        if (found["format"], found["target"]) != (_FORMAT, target):
            raise TuneError(
                f"it has records for {found['target']} in format {found['format']}, and those for "
                f"{target} in format {_FORMAT} are wanted: tune again, or remove it"
            )
        return tuple(Record.from_json(entry) for entry in found["records"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TuneError(f"{file} is no file of records: {error!r}") from error
    except TuneError as error:
        raise TuneError(f"{file}: {error}") from None


def add_record(file: Path, target: str, *records: Record) -> None:
    """Add records to a file that other processes may be writing, too."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(hold_lock(file.with_suffix(".lock"), _PATIENCE))
        except Taken:
            text = f"other processes have been writing {file} for {_PATIENCE:g} s"
            raise TuneError(text) from None
        except Unusable as error:
            raise TuneError(str(error)) from None
        write_records(file, target, (*_usable(file), *records))


def write_records(file: Path, target: str, records: Iterable[Record]) -> None:
    """Write records, sorted, so that a change of one is a change of its lines; later ones win.

    The file is replaced atomically.
    """
    last = {(record.kernel, record.key): record for record in records}
    lines = [json.dumps(last[place].to_json()) for place in sorted(last, key=repr)]
    head = f'{{"format": {_FORMAT}, "target": {json.dumps(target)}, "records": ['
    text = "\n".join((head, ",\n".join(lines), "]}", ""))
    write_private(file, text.encode(), mode=0o644)


def _usable(file: Path) -> tuple[Record, ...]:
    """Return the records of a file that may be absent; a damaged one is not an error."""
    if is_absent(file):
        return ()
    try:
        return read_records(file, file.stem)
    except (TuneError, OSError) as error:
        _log.warning("tilewright: no tuned configurations are used: %s", error)
        return ()


def _provenance(data: Any) -> Provenance:
    wanted = {field.name for field in fields(Provenance)}
    if not isinstance(data, dict) or data.keys() != wanted:
        raise TuneError(f"a record comes from {', '.join(sorted(wanted))}, not {data!r}")
    if not all(isinstance(value, str) and value for value in data.values()):
        raise TuneError(f"a record says where it comes from, and leaves nothing out: {data!r}")
    return Provenance(**data)
