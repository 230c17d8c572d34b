"""The Spark functions that an expression of a build may call.

They work row by row and always return the same value: no aggregates, windows or generators, nothing that reads a
clock, a user, a session, a file's name or a random number, nothing that loads a class. A name that is not here is
refused, so a new version of Spark adds nothing by itself.
"""

from __future__ import annotations

_CONDITIONS = "between coalesce if ifnull nanvl nullif nullifzero nvl nvl2 when zeroifnull"
_PREDICATES = "and equal_null ilike in isnan isnotnull isnull like not or regexp regexp_like rlike"
_CONVERSIONS = "bigint binary boolean cast date decimal double float int smallint string timestamp tinyint"
_NUMBERS = """abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees div
e exp expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive pow power
radians rint round sec sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract unhex
width_bucket bit_count bit_get getbit shiftleft shiftright shiftrightunsigned"""
_STRINGS = """ascii base64 bit_length btrim char char_length character_length chr concat concat_ws contains decode elt
encode endswith find_in_set format_number format_string initcap instr is_valid_utf8 lcase left len length levenshtein
locate lower lpad ltrim luhn_check make_valid_utf8 mask octet_length overlay position printf quote regexp_count
regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace reverse right rpad rtrim
soundex space split split_part startswith substr substring substring_index to_binary to_char to_number to_varchar
translate trim try_to_binary try_to_number try_validate_utf8 ucase unbase64 upper validate_utf8"""
_HASHES = "crc32 hash md5 sha sha1 sha2 xxhash64"
_TIMES = """add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour
last_day make_date make_timestamp make_timestamp_ltz make_timestamp_ntz minute month monthname months_between next_day
quarter second timestamp_micros timestamp_millis timestamp_seconds to_date to_timestamp to_timestamp_ltz
to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_timestamp try_make_timestamp_ltz
try_make_timestamp_ntz try_to_date try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp
weekday weekofyear year"""
_NESTED = """aggregate array array_append array_compact array_contains array_distinct array_except array_insert
array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat array_size
array_sort array_union arrays_overlap arrays_zip cardinality element_at exists filter flatten forall get map map_concat
map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with named_struct
reduce sequence size slice sort_array str_to_map struct transform transform_keys transform_values try_element_at
zip_with"""
_DOCUMENTS = """from_csv from_json get_json_object is_valid_variant is_variant_null json_array_length json_object_keys
parse_json parse_url schema_of_variant to_csv to_json to_variant_object try_parse_json try_parse_url try_url_decode
try_variant_get url_decode url_encode variant_get"""

ALLOWED = frozenset(
    " ".join((_CONDITIONS, _PREDICATES, _CONVERSIONS, _NUMBERS, _STRINGS, _HASHES, _TIMES, _NESTED, _DOCUMENTS)).split()
)
"""SQL names in lower case."""
