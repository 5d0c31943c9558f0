"""`tilewright tune --export FILE` and `--import FILE`: records of searches, moved between machines.

A file names the target of its records, for which alone they are used. Every field of an imported
record is checked: the format, the key, the configuration, the provenance, and that the library has
such a kernel with such constants. A file with one wrong record is refused as a whole.
"""

from __future__ import annotations

from pathlib import Path

from tilewright.cli.options import TARGETS, target_here
from tilewright.cli.screen import BadInput, Screen
from tilewright.errors import TuneError
from tilewright.kernels.tunables import TUNABLES
from tilewright.tune import Record
from tilewright.tune.records import (
    Records,
    keep_all,
    own_file,
    own_records,
    read_records,
    target_of,
    write_records,
)

__all__ = ["export_records", "import_records"]


def export_records(screen: Screen, file: Path, target: str | None, *, as_json: bool) -> None:
    """Write the user's own records for a target, by default that of this machine's GPU."""
    chosen = target or target_here()
    records = own_records(chosen)
    if not records:
        raise BadInput(
            f"there are no records of your own for {chosen}: `tilewright tune KERNEL` makes some, "
            "and --target names another GPU"
        )
    try:
        write_records(file, chosen, records)
    except OSError as error:
        raise BadInput(f"--export {file}: {error.strerror or error}") from None
    if as_json:
        screen.answer({"target": chosen, "records": len(records), "file": str(file)})
    else:
        screen.out.print(f"{_counted(len(records))} for {chosen} written to {file}")


def import_records(screen: Screen, file: Path, target: str | None, *, as_json: bool) -> None:
    """Add the records of a file to the user's own; later ones replace those of the same key."""
    try:
        found = target_of(file)
        records = read_records(file, found)
    except OSError as error:
        raise BadInput(f"--import {file}: {error.strerror or error}") from None
    if found not in TARGETS:
        raise TuneError(f"{file}: {found} is no target; there are {', '.join(TARGETS)}")
    if target not in (None, found):
        raise BadInput(f"--import {file}: its records are for {found}, and not for {target}")
    for record in records:
        _check_kernel(file, record)
    kept = own_file(found)
    if kept is None:
        raise BadInput("records are not kept here: TILEWRIGHT_TUNED is `off`")
    before = Records(own_records(found))
    replaced = sum(before.get(one.kernel, one.key) is not None for one in records)
    keep_all(records, found)
    if as_json:
        number = len(records)
        screen.answer({"target": found, "records": number, "replaced": replaced, "file": str(kept)})
        return
    ending = f", {replaced} of them in place of earlier ones" if replaced else ""
    screen.out.print(f"{_counted(len(records))} for {found} imported into {kept}{ending}")


def _check_kernel(file: Path, record: Record) -> None:
    """Refuse a record of a kernel that the library does not have, or not with these constants."""
    if "." in record.kernel:
        return  # a user's own, by its module and name
    tunable = TUNABLES.get(record.kernel)
    if tunable is None:
        known = ", ".join(sorted(TUNABLES))
        raise TuneError(f"{file}: the library has no kernel `{record.kernel}`; it has: {known}")
    try:
        candidates = [*tunable.space(record.key)]
    except (TuneError, LookupError, TypeError, ValueError):
        text = f"{file}: `{record.kernel}` has no key such as {record.key}"
        raise TuneError(text) from None
    kinds = {name: type(value) for one in candidates for name, value in one.constants}
    for name, value in record.config.constants:
        if kinds.get(name) is not type(value):
            known = ", ".join(f"{each} ({kind.__name__})" for each, kind in kinds.items())
            raise TuneError(
                f"{file}: `{record.kernel}` has no constant {name}={value!r}; it has: {known}"
            )


def _counted(number: int) -> str:
    return "1 record" if number == 1 else f"{number} records"
