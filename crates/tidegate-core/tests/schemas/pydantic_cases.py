"""Writes pydantic.json: schemas of pydantic models, and pydantic's own verdict on values.

python -m venv v && v/bin/pip install pydantic==2.12.5 && v/bin/python pydantic_cases.py
"""

import json
import pathlib
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional, Union
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError


class Size(str, Enum):
    small = "s"
    large = "l"


class Address(BaseModel):
    """Where to deliver."""

    street: str = Field(min_length=1, max_length=40)
    zip: str = Field(pattern=r"^\d{5}$", examples=["10115"])
    country: Literal["DE", "FR"] = "DE"


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")
    sku: str
    count: int = Field(ge=1, lt=100)
    price: float = Field(gt=0, multiple_of=0.01)
    size: Optional[Size] = None


class Order(BaseModel):
    id: UUID
    at: datetime
    lines: list[Line] = Field(min_length=1, max_length=3)
    to: Address
    billing: Address | None = None
    tags: set[str] = set()
    notes: dict[str, str] = {}
    pair: tuple[int, str]
    shape: tuple[int, ...] = ()


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=0, le=9)


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Home(BaseModel):
    pet: Annotated[Union[Cat, Dog], Field(discriminator="kind")]
    other: Union[Cat, Dog, int, None] = None


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []
    parent: Optional["Tree"] = None


class Odd(BaseModel):
    anything: Any = None
    by_size: dict[Size, int] = {}
    by_name: dict[Annotated[str, Field(pattern="^[a-z]+$")], int] = Field({}, max_length=2)
    day: date = date(2026, 1, 1)
    took: timedelta = timedelta(seconds=1)
    limit: Decimal = Decimal(1)
    mixed: int | str | list[int] | None = None
    flag: bool = Field(False, deprecated=True, json_schema_extra={"x-hint": "a switch"})


ORDER = {
    "id": "6d4b5e0a-9f0e-4a64-8d6e-0d6e0a9f0e4a",
    "at": "2026-11-16T12:00:00Z",
    "lines": [{"sku": "a", "count": 1, "price": 1.25, "size": "s"}],
    "to": {"street": "A 1", "zip": "10115"},
    "pair": [1, "a"],
}


def order(**changes):
    return {**ORDER, **changes}


def line(**changes):
    return order(lines=[{**ORDER["lines"][0], **changes}])


CASES = {
    "order": (Order, [
        ORDER,
        order(billing=None),
        order(billing={"street": "B", "zip": "75001", "country": "FR"}),
        order(billing={"street": "B", "zip": "75001", "country": "IT"}),
        order(billing=7),
        order(to={"street": "", "zip": "10115"}),
        order(to={"street": "A", "zip": "1011"}),
        order(to={"street": "A", "zip": "10115", "more": 1}),
        order(lines=[]),
        order(lines=ORDER["lines"] * 4),
        line(count=0), line(count=99), line(count=100), line(count=1.5), line(count="1"),
        line(price=0), line(price=0.001), line(size="m"), line(size=None), line(more=1),
        order(pair=[1]), order(pair=[1, "a", 2]), order(pair=["a", 1]),
        order(shape=[1, 2, 3]), order(shape=[1, "2"]),
        order(notes={"a": "b"}), order(notes={"a": 1}),
        order(tags=["a", "b"]), order(tags=[1]),
        {k: v for k, v in ORDER.items() if k != "to"},
        [], "order", None,
    ]),
    "home": (Home, [
        {"pet": {"kind": "cat", "lives": 9}},
        {"pet": {"kind": "cat", "lives": 10}},
        {"pet": {"kind": "dog", "name": "Rex"}},
        {"pet": {"kind": "dog", "lives": 1}},
        {"pet": {"kind": "cow"}},
        {"pet": {"kind": "cat", "lives": 1}, "other": 7},
        {"pet": {"kind": "cat", "lives": 1}, "other": {"kind": "dog", "name": "Rex"}},
        {"pet": {"kind": "cat", "lives": 1}, "other": "Rex"},
    ]),
    "tree": (Tree, [
        {"value": 1},
        {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]},
        {"value": 1, "children": [{"value": 2, "children": [{"value": "3"}]}]},
        {"value": 1, "parent": {"value": 0, "parent": None}},
        {"value": 1, "parent": {"parent": None}},
    ]),
    "odd": (Odd, [
        {}, {"anything": [1, None]},
        {"by_size": {"s": 1}}, {"by_size": {"s": "1"}}, {"by_size": {"m": 1}},
        {"by_name": {"a": 1}}, {"by_name": {"A": 1}}, {"by_name": {"a": 1, "b": 2, "c": 3}},
        {"mixed": 1}, {"mixed": "1"}, {"mixed": [1]}, {"mixed": ["1"]}, {"mixed": {}},
        {"flag": True}, {"flag": "yes"},
    ]),
}


def fits(adapter, value):
    try:
        adapter.validate_json(json.dumps(value), strict=True)
        return True
    except ValidationError:
        return False


cases = []
for name, (model, values) in CASES.items():
    adapter = TypeAdapter(model)
    verdicts = [{"value": value, "fits": fits(adapter, value)} for value in values]
    cases.append({"name": name, "schema": adapter.json_schema(), "values": verdicts})
path = pathlib.Path(__file__).with_name("pydantic.json")
path.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")
