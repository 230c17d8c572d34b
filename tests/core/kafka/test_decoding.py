"""What may be said about the records of a topic, and what is refused, each time with field, value and fix."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import BackfillError, InvalidSpec
from airflow_backfill.core.kafka.decoding import Decoding, Format
from airflow_backfill.core.values.document import fingerprint
from airflow_backfill.core.values.options import MAX_BYTES

CANARY = "wJalrXUtnFEMIcanary"
FULL = {"key": "json:id BIGINT", "value": "decoder:orders", "undecodable": "dead_letters:s3a://lake/dead/orders"}


def refused(**options: Any) -> InvalidSpec:
    with pytest.raises(InvalidSpec) as raised:
        Decoding.parse(options)
    return raised.value


def test_what_is_left_out_has_a_default() -> None:
    assert Decoding.parse({}) == Decoding(Format("bytes"), Format("bytes"), None)
    assert Decoding.parse({}).to_json() == {"key": "bytes", "value": "bytes", "undecodable": "stop"}


def test_everything_that_can_be_said() -> None:
    decoding = Decoding.parse(FULL)
    assert decoding.key == Format("json", "id BIGINT") and decoding.value == Format("decoder", "orders")
    assert decoding.dead_letters == "s3a://lake/dead/orders"
    assert Decoding.parse({"key": "string", "value": "bytes"}) == Decoding(Format("string"), Format("bytes"))


SIDES = st.one_of(
    st.sampled_from(["bytes", "string", "decoder:a", "decoder:orders-avro.v2", "json:id BIGINT, at TIMESTAMP"]),
    st.from_regex(r"json: {0,2}[a-z]{1,9} STRUCT<a: INT, b: ARRAY<STRING>>\n?", fullmatch=True),
)
DECODINGS = st.fixed_dictionaries(
    {}, optional={"key": SIDES, "value": SIDES, "undecodable": st.sampled_from(["stop", "dead_letters:/a/b"])}
)


@given(DECODINGS, DECODINGS)
def test_a_decoding_survives_its_json_and_two_are_equal_if_their_fingerprints_are(one: Any, other: Any) -> None:
    first, second = Decoding.parse(one), Decoding.parse(other)
    assert Decoding.parse(json.loads(json.dumps(first.to_json()))) == first
    assert (first == second) == (fingerprint(first.to_json()) == fingerprint(second.to_json()))


def test_space_around_a_word_says_nothing() -> None:
    assert Decoding.parse({"value": " json : id INT "}) == Decoding.parse({"value": "json:id INT"})


@pytest.mark.parametrize(
    ("options", "field", "says"),
    [
        ({"valu": "bytes"}, "valu", "did you mean 'value'"),
        ({"xyzzy": 1}, "xyzzy", "known: key, value, undecodable"),
        ({"value": "jsn:id INT"}, "value", "did you mean 'json'"),
        ({"key": "avro"}, "key", "must be one of bytes, string, json, decoder"),
        ({"key": "JSON:id INT"}, "key", "must be one of"),
        ({"value": "json"}, "value", "json needs a schema, as in 'json:id BIGINT"),
        ({"value": "json: "}, "value", "json needs a schema"),
        ({"key": "string:id INT"}, "key", "string takes no argument"),
        ({"key": "bytes:"}, "key", "bytes takes no argument"),
        ({"value": "decoder"}, "value", "needs the name of a registered decoder"),
        ({"value": "decoder:a b"}, "value", "must be a decoder's name"),
        ({"value": "decoder:os/path"}, "value", "must be a decoder's name"),
        ({"value": "decoder:os:system"}, "value", "must be a decoder's name"),
        ({"value": "json:id {{ kind }}"}, "value", "unrendered template"),
        ({"value": "json:id\x00 INT"}, "value", "control characters"),
        ({"undecodable": "ignore"}, "undecodable", "must be one of stop, dead_letters"),
        ({"undecodable": "stop:/a"}, "undecodable", "stop takes no argument"),
        ({"undecodable": "dead_letter:/a"}, "undecodable", "did you mean 'dead_letters'"),
        ({"undecodable": "dead_letters"}, "undecodable", "needs the location of a table"),
        ({"undecodable": "dead_letters:dead"}, "undecodable", "absolute path"),
        ({"undecodable": "dead_letters:/a/../b"}, "undecodable", "'..'"),
        ({"undecodable": "dead_letters:{{ var }}"}, "undecodable", "unrendered template"),
        ({"undecodable": f"dead_letters:s3a://AK:{CANARY}@b/x"}, "undecodable", "credentials"),
    ],
)
def test_what_is_wrong_is_said_with_its_field(options: dict[str, Any], field: str, says: str) -> None:
    error = refused(**options)
    assert error.data["field"] == (f"topic.{field}" if field in ("key", "value", "undecodable") else field)
    assert str(error).startswith(f"[SPEC_INVALID] {error.data['field']}: ") and says in str(error)
    assert CANARY not in json.dumps(error.to_json())


@pytest.mark.parametrize("field", ["key", "value", "undecodable"])
@pytest.mark.parametrize("value", [None, "", " ", "None", 0, True, b"bytes", ["bytes"], {"json": "id INT"}], ids=repr)
def test_every_option_is_a_text(field: str, value: Any) -> None:
    refused(**{field: value})


@pytest.mark.parametrize("options", [None, [], "bytes", 1, [("key", "bytes")]], ids=repr)
def test_a_decoding_is_a_mapping(options: Any) -> None:
    with pytest.raises(InvalidSpec, match="must be a dict"):
        Decoding.parse(options)


def test_a_decoding_that_is_too_large_is_refused_by_its_size() -> None:
    assert "at most" in str(refused(value="json:" + "x" * MAX_BYTES))


def test_broken_unicode_is_refused() -> None:
    assert "not plain JSON" in str(refused(value="json:\ud800 INT"))


PIECES: tuple[Any, ...] = (
    None, 1, "", ":", "::", "bytes", "string", "json", "json:", "json:a INT", "decoder:", "decoder:x", "decoder:../x",
    "stop", "dead_letters:", "dead_letters:/", "dead_letters:/a", "dead_letters:s3://b/x?y", f"json:{{% {CANARY} %}}",
    f"dead_letters:s3://u:{CANARY}@b", "x" * 5_000, [], {}, b"x", float("nan"), {1, 2}, "a:" * 1_000, "\ud800", "{#",
)  # fmt: skip


def test_twenty_thousand_random_decodings_give_a_decoding_or_a_coded_error() -> None:
    rng = random.Random(7)
    taken = 0
    for _ in range(20_000):
        names = rng.sample(["key", "value", "undecodable", "keys", 3, None], rng.randrange(4))
        options = {name: rng.choice(PIECES) for name in names}
        try:
            assert Decoding.parse(options) == Decoding.parse(Decoding.parse(options).to_json())
            taken += 1
        except BackfillError as error:
            assert error.code == "SPEC_INVALID" and len(str(error)) < 2_000
            assert f"u:{CANARY}" not in json.dumps(error.to_json())
    assert taken > 1_000
