"""Short words for building IR by hand, and for looking at the result."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tilewright.dtypes import Element
from tilewright.ir.arguments import Argument
from tilewright.ir.builder import Builder
from tilewright.ir.check_sites import CheckSite
from tilewright.ir.function import Function
from tilewright.ir.launch_terms import (
    BaseAddress,
    Extent,
    RecordAddress,
    ScalarArgument,
    Stride,
    TileCount,
)
from tilewright.ir.op import Block, Op, Value
from tilewright.ir.ops.control import Continue, For, If, Loop, Return, Yield
from tilewright.ir.ops.elementwise import AddI
from tilewright.ir.ops.internal import BoundsCheck, LaunchValue, Walk
from tilewright.ir.ops.memory import LoadView, MakePartitionView, MakeTensorView, StoreView
from tilewright.ir.ops.shape import Constant, Reshape
from tilewright.ir.types import (
    Padding,
    PartitionViewType,
    PtrType,
    TensorViewType,
    TileType,
    scalar,
)

I32 = scalar(Element.I32)
TILE = TileType(Element.I32, (4,))


class Sample(Builder):
    """A function in the making; tensors are of i32, cut into tiles of 4."""

    def __init__(self) -> None:
        super().__init__(Block())
        self.tensors: dict[str, int] = {}
        self.scalars: list[str] = []

    def done(self) -> Function:
        self.add(Return())
        return Function("sample", self.block)

    def arguments(self) -> tuple[Argument, ...]:
        found: list[Argument] = []
        for name, rank in self.tensors.items():
            found.append(Argument(BaseAddress(name), scalar(PtrType(Element.I32)), divisor=16))
            found.extend(Argument(Extent(name, axis), I32, lower=0) for axis in range(rank))
            found.extend(Argument(Stride(name, axis), I32, lower=0) for axis in range(rank))
        found.extend(Argument(ScalarArgument(name), I32) for name in dict.fromkeys(self.scalars))
        return *found, Argument(RecordAddress(), scalar(PtrType(Element.I32)))

    def scalar(self, name: str) -> Value:
        self.scalars.append(name)
        return self.add(LaunchValue(term=ScalarArgument(name), to=I32)).result

    def extent(self, name: str, axis: int = 0) -> Value:
        return self.add(LaunchValue(term=Extent(name, axis), to=I32)).result

    def count(self, name: str, axis: int = 0, tile: int = 4) -> Value:
        return self.add(LaunchValue(term=TileCount(name, axis, tile), to=I32)).result

    def view(self, name: str, rank: int = 1, tile: int = 4) -> Value:
        self.tensors[name] = rank
        base = LaunchValue(term=BaseAddress(name), to=scalar(PtrType(Element.I32)))
        to = TensorViewType(Element.I32, (None,) * rank, (*(None,) * (rank - 1), 1))
        strides = (LaunchValue(term=Stride(name, axis), to=I32) for axis in range(rank - 1))
        tensor = MakeTensorView(
            base=self.add(base).result,
            dynamic_shape=tuple(self.extent(name, axis) for axis in range(rank)),
            dynamic_strides=tuple(self.add(stride).result for stride in strides),
            to=to,
        )
        cut = PartitionViewType((tile,) * rank, to, tuple(range(rank)), Padding.ZERO)
        return self.add(MakePartitionView(tensor_view=self.add(tensor).result, to=cut)).result

    def load(self, view: Value, *index: Value) -> Value:
        return self.add(LoadView(view=view, index=index)).tile

    def item(self, tile: Value) -> Value:
        return self.add(Reshape(source=tile, to=I32)).result

    def store(self, tile: Value, view: Value, *index: Value) -> None:
        self.add(StoreView(tile=tile, view=view, index=index))

    def tile(self, value: int, rank: int = 1) -> Value:
        return self.constant(value, Element.I32, (4,) * rank)

    def sum(self, lhs: Value, rhs: Value) -> Value:
        return self.add(AddI(lhs=lhs, rhs=rhs)).result

    def check(self, index: Value, count: Value, is_store: bool = False) -> Value:
        site = CheckSite("x", 0, 4, is_store)
        return self.add(BoundsCheck(index=index, count=count, site=site)).result

    @contextmanager
    def loop(self, upper: Value, lower: int = 0) -> Iterator[Value]:
        """A counted loop that carries nothing."""
        counter = Value(I32)
        start, step = self.index(lower), self.index(1)
        with self.inside(Block((counter,))) as body:
            yield counter
            self.add(Continue())
        self.add(For(lower_bound=start, upper_bound=upper, step=step, body=body))

    @contextmanager
    def endless(self) -> Iterator[None]:
        """A loop left by a break inside."""
        with self.inside(Block()) as body:
            yield
            self.add(Continue())
        self.add(Loop(body=body))

    @contextmanager
    def walk(
        self,
        *counts: Value,
        group: tuple[int, int] = (1, 1),
        order: tuple[int, ...] = (),
        within: dict[int, tuple[Value, Value]] | None = None,
    ) -> Iterator[tuple[Value, ...]]:
        """A persistent walk that carries nothing; `within` are its ranges along some axes."""
        coordinates = tuple(Value(I32) for _ in counts)
        with self.inside(Block(coordinates)) as body:
            yield coordinates
            self.add(Continue())
        ends = (within or {}).values()
        starts, stops = (tuple(pair[end] for pair in ends) for end in (0, 1))
        ranges = {"ranged": tuple(within or ()), "starts": starts, "stops": stops}
        self.add(Walk(counts=counts, **ranges, group=group, order=order, outputs=("z",), body=body))

    def choose(
        self,
        condition: Value,
        then: Callable[[], Op | None] = lambda: None,
        otherwise: Callable[[], Op | None] = lambda: None,
    ) -> If:
        """An `if` without results; a branch ends in the terminator it gives, or falls through."""
        bodies = []
        for build in (then, otherwise):
            with self.inside(Block()) as body:
                self.add(build() or Yield())
            bodies.append(body)
        return self.add(If(condition=condition, then_body=bodies[0], else_body=bodies[1]))


def mnemonics(function: Function) -> list[str]:
    """The names of all ops in program order."""
    return [op.mnemonic for op in function.walk()]


def only(function: Function, kind: type[Op]) -> list[Op]:
    """All ops of one class."""
    return [op for op in function.walk() if type(op) is kind]


def text(function: Function) -> str:
    """One line for each op: `%3 = addi %1 %2`; nested ops are indented."""
    names: dict[Value, str] = {}

    def name(value: Value) -> str:
        return names.setdefault(value, f"%{len(names)}")

    def lines(block: Block, indent: str) -> Iterator[str]:
        for op in block.ops:
            results = ", ".join(map(name, op.results))
            words = [f"{results} =" if results else "", op.mnemonic, *map(name, op.operands)]
            if isinstance(op, Constant):
                words.append(str(op.value))
            yield indent + " ".join(word for word in words if word)
            for region in op.regions:
                yield f"{indent}({', '.join(map(name, region.args))}) {{"
                yield from lines(region, indent + "  ")
                yield indent + "}"

    return "\n".join(lines(function.body, ""))
