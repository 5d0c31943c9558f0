"""Bounded tables of what was made before."""

from tilewright.jit.tables import Table


def test_it_is_bounded_and_forgets_what_was_not_used():
    table = Table(4)
    for number in range(100):
        table.put(number, str(number))
        assert table.find(0) in ("0", None)
        assert len(table) <= 8
    assert table.find(99) == "99"
    assert table.find(50) is None


def test_what_is_used_stays():
    table = Table(4)
    table.put("kept", 1)
    for number in range(50):
        table.put(number, 0)
        assert table.find("kept") == 1


def test_another_entry_under_the_same_key():
    table = Table(2)
    for value in (1, 2):
        table.put("key", value)
        assert table.find("key") == table.get("key") == value
