"""The writer's changes: an endless, seeded series like the TPC-H refresh functions.

Each step changes some orders and their lineitems. New orders take keys from the gaps of the key space (RF1), whole
orders are deleted (RF2), values are changed and changed back, deleted keys are inserted again. The orders of a step are
neighbours in key order, as in many real commits, so a commit touches few files. A step depends only on the seed and the
steps before it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import islice
from operator import itemgetter
from pathlib import Path

from demo.journal import Kind, Operation, Row
from demo.tpch import BLOCK, LINEITEM, ORDERS, USED, count, rows

ACTIONS = ("insert", "update", "delete", "mix", "revert", "delete", "reinsert")
HOT_BLOCKS = 512
"""The writer changes orders of this many blocks of keys, spread evenly: at most 4,096 orders."""
CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Order:
    """An order with its lineitems."""

    head: Row
    lines: tuple[Row, ...]

    @property
    def key(self) -> int:
        return int(self.head["o_orderkey"])

    def with_values(self, head: Row, line: Row) -> Order:
        return Order({**self.head, **head}, tuple({**each, **line} for each in self.lines))


class Refresh:
    """The series of steps, and the orders after the last step."""

    def __init__(self, seed: int, size: int, orders: Iterable[Order]) -> None:
        if size < 1:
            raise ValueError(f"the size is {size}, so a step would change {size} orders; it must be at least 1")
        self._seed = seed
        self._size = size
        self._live = {order.key: order for order in orders}
        self._blocks = sorted({key // BLOCK for key in self._live})
        self._deleted: dict[int, Order] = {}
        self._updated: list[tuple[Order, Order]] = []
        self.steps = 0

    def step(self) -> list[Operation]:
        """The commits of the next step: one to orders, one to lineitem, in this order."""
        dice = random.Random(f"{self._seed}/{self.steps}")
        action = ACTIONS[self.steps % len(ACTIONS)]
        self.steps += 1
        start = dice.randrange(len(self._blocks))
        blocks = self._blocks[start:] + self._blocks[:start]
        match action:
            case "insert":
                return self._operations("append", self._new(dice, blocks, self._size))
            case "update":
                return self._update(self._pick(blocks, self._size))
            case "delete":
                return self._operations("delete", (), self._pick(blocks, self._size))
            case "mix":
                share = max(1, self._size // 3)
                picked = self._pick(blocks, 2 * share)
                repriced = [_repriced(dice, order) for order in picked[:share]]
                return self._operations("merge", [*self._new(dice, blocks, share), *repriced], picked[share:])
            case "revert":
                untouched = [before for before, after in self._updated if self._live.get(after.key) is after]
                return self._operations("merge", untouched)
            case _:
                return self._operations("append", self._come_back(dice))

    def _update(self, picked: Sequence[Order]) -> list[Operation]:
        comment = f"revised in step {self.steps}"
        head: Row = {"o_orderstatus": "P", "o_comment": comment}
        line: Row = {"l_returnflag": "R", "l_discount": Decimal("0.07"), "l_comment": comment}
        self._updated = [(order, order.with_values(head, line)) for order in picked]
        orders, lines = self._operations("update", [after for _, after in self._updated])
        return [replace(orders, assignments=head), replace(lines, assignments=line)]

    def _operations(self, kind: Kind, upserts: Sequence[Order], deletes: Sequence[Order] = ()) -> list[Operation]:
        for order in deletes:
            self._deleted[order.key] = self._live.pop(order.key)
        for order in upserts:
            self._live[order.key] = order
            self._deleted.pop(order.key, None)
        return [
            Operation(
                ORDERS.name,
                kind,
                tuple(order.head for order in upserts),
                tuple((order.key,) for order in deletes),
            ),
            Operation(
                LINEITEM.name,
                kind,
                tuple(line for order in upserts for line in order.lines),
                tuple((order.key, line["l_linenumber"]) for order in deletes for line in order.lines),
            ),
        ]

    def _pick(self, blocks: Sequence[int], wanted: int) -> list[Order]:
        keys = (block * BLOCK + offset for block in blocks for offset in range(BLOCK))
        live = (self._live[key] for key in keys if key in self._live)
        return list(islice(live, wanted))

    def _new(self, dice: random.Random, blocks: Sequence[int], wanted: int) -> list[Order]:
        gaps = (range(block * BLOCK + USED, (block + 1) * BLOCK) for block in blocks)
        free = (key for gap in gaps for key in dice.sample(gap, 4) if key not in self._live)
        return [_order(dice, key) for key in islice(free, wanted)]

    def _come_back(self, dice: random.Random) -> list[Order]:
        """The orders deleted longest ago, about half of them with other values."""
        oldest = islice(self._deleted.values(), self._size)
        return [order if dice.random() < 0.5 else _repriced(dice, order) for order in oldest]


def hot_orders(raw: Path) -> list[Order]:
    """The orders that the writer changes, in key order, with TPC-H's values."""
    blocks = -(-count(raw, ORDERS) // USED)
    hot = range(0, blocks, max(1, blocks // HOT_BLOCKS))
    keys = [block * BLOCK + offset for block in hot for offset in range(USED)]
    lines: dict[int, list[Row]] = {}
    for line in rows(raw, LINEITEM, keys):
        lines.setdefault(line["l_orderkey"], []).append(line)
    heads = sorted(rows(raw, ORDERS, keys), key=itemgetter("o_orderkey"))
    return [Order(head, tuple(lines[head["o_orderkey"]])) for head in heads]


def _repriced(dice: random.Random, order: Order) -> Order:
    price = order.head["o_totalprice"] + dice.randrange(1, 100_000) * CENT
    discount = Decimal(dice.randrange(0, 11)) * CENT
    return order.with_values(
        {"o_totalprice": price, "o_comment": f"repriced to {price}"},
        {"l_discount": discount, "l_comment": f"repriced by {discount}"},
    )


def _order(dice: random.Random, key: int) -> Order:
    ordered = date(1992, 1, 1) + timedelta(days=dice.randrange(2_400))
    lines = tuple(_line(dice, key, number, ordered) for number in range(1, dice.randrange(2, 9)))
    head = {
        "o_orderkey": key,
        "o_custkey": dice.randrange(1, 150_000),
        "o_orderstatus": "O",
        "o_totalprice": sum((line["l_extendedprice"] for line in lines), Decimal("0.00")),
        "o_orderdate": ordered,
        "o_orderpriority": dice.choice(("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")),
        "o_clerk": f"Clerk#{dice.randrange(1, 1_000):09d}",
        "o_shippriority": 0,
        "o_comment": f"new order {dice.randrange(10**9)}",
    }
    return Order(head, lines)


def _line(dice: random.Random, key: int, number: int, ordered: date) -> Row:
    quantity = dice.randrange(1, 51)
    shipped = ordered + timedelta(days=dice.randrange(1, 122))
    return {
        "l_orderkey": key,
        "l_partkey": dice.randrange(1, 200_000),
        "l_suppkey": dice.randrange(1, 10_000),
        "l_linenumber": number,
        "l_quantity": Decimal(f"{quantity}.00"),
        "l_extendedprice": quantity * dice.randrange(90_000, 110_000) * CENT,
        "l_discount": Decimal(dice.randrange(0, 11)) * CENT,
        "l_tax": Decimal(dice.randrange(0, 9)) * CENT,
        "l_returnflag": "N",
        "l_linestatus": "O",
        "l_shipdate": shipped,
        "l_commitdate": ordered + timedelta(days=dice.randrange(30, 91)),
        "l_receiptdate": shipped + timedelta(days=dice.randrange(1, 31)),
        "l_shipinstruct": dice.choice(("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")),
        "l_shipmode": dice.choice(("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")),
        "l_comment": f"new line {dice.randrange(10**9)}",
    }
