from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill.core.errors import BackfillError, InvalidSpec
from airflow_backfill.core.model.spec import BackfillSpec, difference
from airflow_backfill.core.values.options import MAX_BYTES, masked, normal, parsed
from airflow_backfill.core.values.proof_kind import ProofKind

CANARY = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYcanary"
GOOD: dict[str, Any] = {"name": "orders", "source": "s3://lake/shop/orders", "target": "/marts/orders", "key": ["id"]}
FULL = {**GOOD, "select": ["id", "amount * 2 AS double"], "where": "amount > 0", "new_columns": "ignore"}


def refused(**changes: Any) -> InvalidSpec:
    options = {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}
    with pytest.raises(InvalidSpec) as raised:
        BackfillSpec.parse(options)
    return raised.value


def test_what_is_left_out_has_a_default() -> None:
    spec = BackfillSpec.parse(GOOD)
    assert spec == BackfillSpec("orders", "s3://lake/shop/orders", "/marts/orders", ("id",))
    assert (spec.strategy, spec.new_columns, spec.select, spec.where) == ("snapshot", "stop", None, None)


def test_a_spec_survives_its_json_and_keeps_its_fingerprint() -> None:
    for options in (GOOD, FULL):
        spec = BackfillSpec.parse(options)
        again = BackfillSpec.parse(json.loads(json.dumps(spec.to_json())))
        assert again == spec and again.fingerprint == spec.fingerprint


@pytest.mark.parametrize("key", [..., None, [], ()], ids=str)
def test_only_a_chain_may_be_without_a_key(key: Any) -> None:
    keyless = {name: value for name, value in {**GOOD, "key": key}.items() if value is not ...}
    for strategy in ("chain", "auto"):
        spec = BackfillSpec.parse({**keyless, "strategy": strategy})
        assert spec.key == () and BackfillSpec.parse(spec.to_json()) == spec
    for strategy in ("snapshot", "arrangement"):
        assert refused(key=key, strategy=strategy).data["field"] == "key"
    assert refused(key=[""], strategy="chain").data["field"] == "key"


def test_an_incremental_proof_needs_a_strategy_that_reads_every_row_once() -> None:
    for strategy in ("snapshot", "chain", "auto"):
        spec = BackfillSpec.parse({**GOOD, "strategy": strategy, "proof": "incremental"})
        assert BackfillSpec.parse(spec.to_json()) == spec and spec.proof is ProofKind.INCREMENTAL
        assert spec.fingerprint != BackfillSpec.parse({**GOOD, "strategy": strategy}).fingerprint
    error = refused(strategy="arrangement", proof="incremental")
    assert error.data["field"] == "proof" and "use strategy snapshot or chain" in error.message
    with pytest.raises(InvalidSpec, match="strategy arrangement reads rows of different epochs"):
        spec.with_strategy("arrangement")
    assert refused(proof="some").data["field"] == "proof"


def test_a_sampled_proof_needs_ranges_of_a_key() -> None:
    for strategy in ("snapshot", "arrangement", "chain", "auto"):
        spec = BackfillSpec.parse({**GOOD, "strategy": strategy, "proof": "sampled"})
        assert BackfillSpec.parse(spec.to_json()) == spec
    assert refused(strategy="chain", key=None, proof="sampled").data["field"] == "proof"


def test_a_target_is_clustered_by_the_key_that_a_build_has() -> None:
    spec = BackfillSpec.parse({**GOOD, "clustering": "key"})
    assert BackfillSpec.parse(spec.to_json()) == spec
    assert spec.fingerprint != BackfillSpec.parse(GOOD).fingerprint
    assert refused(strategy="chain", key=None, clustering="key").data["field"] == "clustering"
    assert refused(clustering="date").data["field"] == "clustering"


def test_a_spec_of_the_first_version_keeps_its_fingerprint() -> None:
    spec = BackfillSpec.parse({**GOOD, "proof": "full", "clustering": "none"})
    assert not {"proof", "functions", "clustering"} & spec.to_json().keys()


def test_the_order_of_options_does_not_matter_and_every_value_does() -> None:
    spec = BackfillSpec.parse(FULL)
    assert BackfillSpec.parse(dict(reversed(FULL.items()))).fingerprint == spec.fingerprint
    changes = {"name": "o", "source": "/s", "target": "/t", "key": ("k",), "select": None, "where": None}
    others = [replace(spec, **{name: value}) for name, value in changes.items()]
    others.append(replace(spec, new_columns="stop"))
    assert len({other.fingerprint for other in others} | {spec.fingerprint}) == 1 + len(others)


def test_the_difference_of_two_specs_names_what_changed() -> None:
    planned, asked = BackfillSpec.parse(FULL), BackfillSpec.parse({**FULL, "where": "amount > 1", "key": ["id", "p"]})
    assert difference(planned, planned) == {}
    assert difference(planned, asked) == {"where": ["amount > 0", "amount > 1"], "key": [["id"], ["id", "p"]]}


@pytest.mark.parametrize(
    ("option", "near"), [("sorce", "source"), ("wher", "where"), ("keys", "key"), ("new_column", "new_columns")]
)
def test_an_unknown_option_is_named_with_its_neighbour(option: str, near: str) -> None:
    error = refused(**{option: 1})
    assert f"did you mean {near!r}" in str(error) and error.data["field"] == option


def test_an_unknown_option_without_a_neighbour_is_named_with_all_known_ones() -> None:
    assert "known: name, source, target, key" in str(refused(xyzzy=1))


def test_an_unknown_choice_is_named_with_its_neighbour() -> None:
    assert "did you mean 'snapshot'" in str(refused(strategy="snapshots"))
    assert "must be one of stop, ignore" in str(refused(new_columns="add"))


@pytest.mark.parametrize("field", ["name", "source", "target", "key"])
@pytest.mark.parametrize(
    "value", [..., None, "", " ", "None", "null", "undefined", 0, True, b"x", {}, [], [[]]], ids=repr
)
def test_what_is_required_is_refused_when_it_is_missing(field: str, value: Any) -> None:
    refused(**{field: value})


@pytest.mark.parametrize("field", ["where", "strategy", "new_columns"])
@pytest.mark.parametrize("value", ["", " ", "None", 0, True, ["x"], {}], ids=repr)
def test_what_is_optional_is_refused_when_it_is_no_text(field: str, value: Any) -> None:
    refused(**{field: value})


@pytest.mark.parametrize("value", ["id", [], [""], [None], [1], {"a": 1}, 3, [["id"]]], ids=repr)
def test_lists_are_lists_of_texts(value: Any) -> None:
    refused(select=value)
    refused(key=value)


@pytest.mark.parametrize("field", ["name", "source", "target", "where", "strategy"])
@pytest.mark.parametrize("template", ["{{ ds }}", "/t/{{ params.x }}", "{% if a %}", "{# a #}"])
def test_a_template_that_was_not_rendered_is_refused(field: str, template: str) -> None:
    error = refused(**{field: template})
    assert error.data["field"] == field


@pytest.mark.parametrize("text", ["a\x00b", "a\x1bb", "a\x7f\x01b", "a\ud800b"], ids=ascii)
def test_control_characters_and_broken_unicode_are_refused(text: str) -> None:
    for field in ("name", "source", "where"):
        refused(**{field: text})


@pytest.mark.parametrize("name", ["a" * 101, "../x", "a/b", "a b", "-a", ".a", "ü", "a\n", "x;y", "a'"])
def test_a_name_holds_nothing_that_a_path_or_an_id_could_trip_over(name: str) -> None:
    assert refused(name=name).data["field"] == "name"


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "0", "a" * 100])
def test_plain_names_are_taken(name: str) -> None:
    assert BackfillSpec.parse({**GOOD, "name": name}).name == name


def test_a_key_names_each_column_once() -> None:
    assert "twice" in str(refused(key=["id", "part", "id"]))
    assert "twice" in str(refused(key=["id", "ID"]))


@pytest.mark.parametrize(
    "location",
    ["orders", "./orders", "lake.orders", "s3:/b/x", "/a/../b", "/a/%2e%2e/b", "s3://b/../x", "/", "//", "s3://b",
     "s3://b/", "s3:///x", "://b/x", "/a\nb", "/a`b", "/a;b", "/a'b", '/a"b', "/a\\b", "/a\tb", "s3://b/x?v=1",
     "s3://b/x#y", "s3://[b/x", "s3://b]/x", "s3://\u2100/x", "s3://b\u2047/x", "s3://AK@b/x", "s3a://AK:SK@b/x"],
    ids=ascii,
)  # fmt: skip
def test_what_is_no_location_is_refused(location: str) -> None:
    for field in ("source", "target"):
        assert refused(**{field: location}).data["field"] == field


@pytest.mark.parametrize(
    "location",
    ["/a", "/a/b c/ü", "s3://b/x", "S3A://b/x", "abfss://box@account.dfs.core.windows.net/x", "hdfs://host:8020/x",
     "file:///a/b", "file:/a/b", "gs://b/x=1/y", "/a/%20b", "/a..b/c", "/a#1", "/" + "ü" * 123],
)  # fmt: skip
def test_plain_locations_are_taken(location: str) -> None:
    assert BackfillSpec.parse({**GOOD, "source": location}).source == location


@pytest.mark.parametrize(
    ("source", "target"),
    [("/a/b", "/a/b"), ("/a/b", "/a/b/"), ("/a/b", "file:///a/b"), ("/a/b", "file:/a/b"),
     ("/a/b", "/a//b"), ("/a/b", "/a/./b"),
     ("s3://b/x", "s3a://b/x"), ("s3://b/x", "S3N://B/x/"), ("/a/ b", "/a/%20b")],
)  # fmt: skip
def test_one_table_under_two_names_is_recognised(source: str, target: str) -> None:
    for one, other in ((source, target), (target, source)):
        assert "same table" in str(refused(source=one, target=other))


@pytest.mark.parametrize("character", ["#", "?"])
def test_a_plain_path_is_literal(character: str) -> None:
    assert normal(f"/a{character}1") != normal(f"/a{character}2")
    spec = BackfillSpec.parse({**GOOD, "source": f"/a{character}1", "target": f"/a{character}2"})
    assert spec.target == f"/a{character}2"


@pytest.mark.parametrize(("field", "longest"), [("source", 255), ("target", 246)])
def test_a_name_that_no_file_system_takes_is_refused(field: str, longest: int) -> None:
    assert f"longer than {longest} bytes" in str(refused(**{field: "/a/" + "x" * (longest + 1)}))
    BackfillSpec.parse({**GOOD, field: "/a/" + "x" * longest})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{bad", "the spec is not JSON: Expecting property name"),
        ("", "the spec is not JSON: Expecting value"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"name": "a", "key": ["id"], "name": "b"}', "name: is given twice"),
        ('{"topic": {"value": "bytes", "value": "string"}}', "value: is given twice"),
    ],
    ids=["broken", "empty", "deep", "twice", "twice inside"],
)
def test_a_text_that_is_no_spec_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidSpec, match=why):
        BackfillSpec.parse(parsed(text))


@pytest.mark.parametrize(
    ("place", "why"),
    [("/lake/in", "source and dead_letters are the same"), ("/lake/out/x", "dead_letters lies inside target"),
     ("/lake", "source lies inside dead_letters")],
)  # fmt: skip
def test_dead_letters_go_to_a_table_of_their_own(place: str, why: str) -> None:
    topic = {"name": "clicks", "undecodable": f"dead_letters:{place}"}
    error = refused(source="/lake/in", target="/lake/out", strategy="source", topic=topic, key=None)
    assert why in str(error)
    assert BackfillSpec.parse({**GOOD, "strategy": "source", "topic": {**topic, "undecodable": "dead_letters:/dead"}})


@pytest.mark.parametrize(("outer", "inner"), [("/a", "/a/b"), ("s3://b/x", "s3a://b/x/y/z"), ("/a", "file:///a/b/")])
def test_a_table_inside_the_other_is_refused(outer: str, inner: str) -> None:
    assert "target lies inside source" in str(refused(source=outer, target=inner))
    assert "source lies inside target" in str(refused(source=inner, target=outer))
    BackfillSpec.parse({**GOOD, "source": outer, "target": outer.rstrip("/") + "2"})


def test_a_spec_that_is_too_large_is_refused_by_its_size() -> None:
    assert "at most" in str(refused(where="x" * MAX_BYTES))
    assert "at most" in str(refused(select=["x" * 5_000_000]))


@pytest.mark.parametrize("depth", [10, 300, 500, 900, 990, 1_500, 10_000, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    refused(select=value)
    refused(name=value)
    refused(**{"key": {"a": value}})


ODD = {"nan": float("nan"), "inf": float("inf"), "set": {1, 2}, "object": object(), "bytes": b"x", "key": {(1, 2): 3}}


@pytest.mark.parametrize("value", list(ODD.values()), ids=list(ODD))
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    refused(where=value)


@pytest.mark.parametrize("options", [None, [], "x", 1, [("name", "x")]], ids=repr)
def test_a_spec_is_a_mapping(options: Any) -> None:
    with pytest.raises(InvalidSpec, match="mapping"):
        BackfillSpec.parse(options)


SECRETS = (
    f"s3a://AKIA:{CANARY}@bucket/x",
    f"s3a://{CANARY.replace('/', '')}@bucket/x",
    f"s3://user:{CANARY}@bucket/x?y=1",
    f"s3://bucket/x?X-Amz-Signature={CANARY}",
    f"https://account.blob.core.windows.net/box/x?sv=1&sig={CANARY}",
    f"abfss://box:{CANARY}@account/x?y",
    f"s3://user:{CANARY}@bucket/..",
    f"s3://user:{CANARY}@[bucket/x",
    f"abfss://box:{CANARY}@account/x",
    f"jdbc:postgresql://host/db?password={CANARY}",
)


@pytest.mark.parametrize("secret", SECRETS, ids=range(len(SECRETS)))
@pytest.mark.parametrize("field", ["name", "source", "target", "strategy", "key", "select"])
def test_no_message_holds_a_secret(field: str, secret: str) -> None:
    values: list[Any] = [secret, [secret], {"x": secret}, f"{{{{ x }}}} {secret}", f"{secret}\x00"]
    for value in values:
        try:
            BackfillSpec.parse({**GOOD, field: value})
        except BackfillError as error:
            said = json.dumps(error.to_json()) + str(error) + repr(error)
            assert not any(part in said for part in (CANARY, *CANARY.split("/"))), said


def test_credentials_in_a_location_are_refused_however_they_are_spelled() -> None:
    for secret in SECRETS:
        assert refused(source=secret).code == "SPEC_INVALID"


@given(st.text(max_size=30))
def test_masking_leaves_plain_text_alone(text: str) -> None:
    if "://" not in text and "?" not in text:
        assert masked(text) == text


PIECES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 10**7, float("nan"), "", " ", "x", "8; rm", "None", "{{ ds }}", "../x", "a b",
    "t`; DROP TABLE x; --", "a.b.c.d", "1=1; DROP", "rand()<0.5", "/*", "\x00", "\ud800", "ü" * 300, "x" * 5_000,
    "s3://b/x", "/a/b", "s3://[x", "s3://b/x?y", "file:///", "s3a://AK:SK@b/", [], ["id"], ["id", "id"], [None],
    [["x"]], {}, {"a": {"b": []}}, b"x", (), ("id",), {"id"}, "yes", "snapshot", "stop", "ignore", *SECRETS,
)  # fmt: skip
NAMES = (*FULL, "strategy", "bukets", "sorce", "", " ", "name ", "NAME", 3, None, CANARY)


@pytest.mark.slow
def test_a_hundred_thousand_random_specs_give_a_spec_or_a_coded_error() -> None:
    rng = random.Random(11)
    taken, codes = 0, set()
    for _ in range(100_000):
        options: dict[Any, Any] = dict(GOOD) if rng.random() < 0.8 else {}
        for _ in range(rng.randrange(4)):
            options[rng.choice(NAMES)] = rng.choice(PIECES)
        if rng.random() < 0.3:
            options.pop(rng.choice(list(options)), None) if options else None
        try:
            BackfillSpec.parse(options)
            taken += 1
        except BackfillError as error:
            codes.add(error.code)
            said = json.dumps(error.to_json()) + str(error)
            if CANARY not in options:
                assert not any(part in said for part in CANARY.split("/")), (options, said)
            assert len(str(error)) < 2_000
    assert codes == {"SPEC_INVALID"}
    assert taken > 1_000


def test_texts_with_random_damage_give_a_spec_or_a_coded_error() -> None:
    rng, whole = random.Random(12), json.dumps({**FULL, "strategy": "source", "topic": {"name": "t", "value": "bytes"}})
    for _ in range(4_000):
        text = list(whole)
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(len(text))
            text[place : place + rng.randrange(3)] = rng.choice(
                ['"', "{", "[", ",", ":", "\\", "\ud800", "1e999", "x", ""]
            )
        try:
            BackfillSpec.parse(parsed("".join(text)))
        except BackfillError as error:
            assert error.code == "SPEC_INVALID" and len(str(error)) < 2_000
