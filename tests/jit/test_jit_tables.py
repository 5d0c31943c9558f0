"""Bounded tables of what was made before."""

from tilewright.jit.plans.tables import BoundedTable


def test_it_is_bounded_and_forgets_what_was_not_used():
    table = BoundedTable(4)
    for number in range(100):
        table.put(number, str(number))
        assert table.find(0) in ("0", None)
        assert len(table) <= 8
    assert table.find(99) == "99"
    assert table.find(50) is None


def test_what_is_used_stays():
    table = BoundedTable(4)
    table.put("kept", 1)
    for number in range(50):
        table.put(number, 0)
        assert table.find("kept") == 1


def test_another_entry_under_the_same_key():
    table = BoundedTable(2)
    for value in (1, 2):
        table.put("key", value)
        assert table.find("key") == table.get("key") == value


class Meanwhile(BoundedTable):
    """Another thread forgets everything just when an entry is put."""

    is_forgetting = False

    def put(self, key, kept):
        if self.is_forgetting:
            self.clear()
        super().put(key, kept)


def test_what_was_forgotten_does_not_come_back():
    table = Meanwhile(2)
    for number in range(3):
        table.put(number, str(number))
    table.is_forgetting = True
    table.find(0)  # an old one, which is young again
    assert len(table) == 0
    table.is_forgetting = False
    table.put(1, "another")
    assert table.find(1) == "another"


class Copied(dict):
    """Another thread forgets everything just behind the copy."""

    def copy(self):
        made = super().copy()
        self.table.clear()
        return made


def test_what_was_forgotten_does_not_grow_old():
    table = BoundedTable(2)
    table.young = Copied(a=1, b=2)
    table.young.table = table
    table.put("c", 3)
    assert table.find("a") is None
    assert table.find("c") == 3
