"""Random host programs: operations built, run, chained and dropped, tensors sliced and moved."""

import random

TENSORS = ("x", "y", "z", "w")


class Program:
    """Statements that may be refused, over a few names that are bound again and again."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._tensors, self._operations = [*TENSORS], []
        self.lines = []

    def text(self, length, *, branches=False):
        """A program of some statements; with branches on `flag`, which the caller gives."""
        for _ in range(length):
            if branches and self._random.random() < 0.25:
                self._branch()
            else:
                self.lines.append(self._statement())
        return "".join(f"{line}\n" for line in self.lines)

    def _branch(self):
        before = [*self._tensors], [*self._operations]
        for head in ("if flag:", "else:"):
            self._tensors, self._operations = [*before[0]], [*before[1]]
            body = [self._statement() for _ in range(self._random.randint(1, 2))]
            self.lines += [head, *(f"    {line}" for line in body)]
        self._tensors, self._operations = before

    def _statement(self):
        kinds = [self._build, self._read, self._view, self._move, self._build, self._read]
        if self._operations:
            kinds += [self._end, self._end, self._end, self._chain, self._drop]
        return self._random.choice(kinds)()

    def _tensor(self):
        return self._random.choice(self._tensors)

    def _same(self):
        """One of the whole tensors, which have one shape."""
        return self._random.choice([one for one in self._tensors if not one.startswith("v")])

    def _new(self, names, letter):
        name = f"{letter}{self._random.randrange(4)}"
        if name not in names:
            names.append(name)
        return name

    def _operation(self):
        return self._random.choice(
            (
                lambda: f"add({self._same()}.partition(16), {self._same()}, {self._same()})",
                lambda: f"scale({self._same()}.partition(16), {self._same()}, BY=3)",
                lambda: f"tw.fill({self._tensor()}, 1)",
                lambda: f"tw.copy({self._same()}, {self._same()})",
                lambda: f"kernels.add({self._same()}, {self._same()}, out={self._same()})",
            )
        )()

    def _build(self):
        made = self._operation()
        chance = self._random.random()
        if chance < 0.15:
            return made
        if chance < 0.35:
            return f"{made}.submit()"
        return f"{self._new(self._operations, 'o')} = {made}"

    def _read(self):
        return f"{self._tensor()}.numpy()"

    def _view(self):
        low = self._random.randrange(0, 48, 16)
        whole, high = self._same(), low + self._random.choice((16, 24))
        return f"{self._new(self._tensors, 'v')} = {whole}[{low}:{high}]"

    def _move(self):
        old = self._same()
        name = old if self._random.random() < 0.5 else self._new(self._tensors, "t")
        return f"{name} = tw.move({old})"

    def _end(self):
        how = self._random.choice(("submit()", "sync()", "close()"))
        return f"{self._random.choice(self._operations)}.{how}"

    def _chain(self):
        one, other = (self._random.choice(self._operations) for _ in range(2))
        if self._random.random() < 0.5 and one != other:
            return f"{one} = tw.zip({one}, {other})"
        return f"{one} = {one}.then(lambda _: tw.fill(tw.zeros((4,), f32), 0))"

    def _drop(self):
        name = self._operations.pop(self._random.randrange(len(self._operations)))
        return f"del {name}"
