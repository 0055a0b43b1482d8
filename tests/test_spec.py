"""The spec grammar: what it accepts, what it prints, and the text of its errors."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotarray import spec
from aotarray.errors import SpecError
from aotarray.spec import ArraySpec, BinOp, DictSpec, ListSpec, Parameter, ScalarSpec, TupleSpec, parse

F64, F32 = np.dtype("float64"), np.dtype("float32")


def array(dtype, *dims):
    return ArraySpec(np.dtype(dtype), dims)


def one(text):
    """The single unnamed spec in `text`."""
    (parameter,) = parse(text)
    assert parameter.name is None
    assert not parameter.inout
    return parameter.spec


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f64[n, m]", array(F64, "n", "m")),
        ("f32[3, n]", array(F32, 3, "n")),
        ("f64[]", array(F64)),
        ("f64[n,]", array(F64, "n")),
        ("  f64 [ n ]  ", array(F64, "n")),
        ("f64[n - 2]", array(F64, BinOp("-", "n", 2))),
        ("f64[2*n]", array(F64, BinOp("*", 2, "n"))),
        ("f64[n // 2]", array(F64, BinOp("//", "n", 2))),
        ("f64[n % 2]", array(F64, BinOp("%", "n", 2))),
        ("f64[n - 1 - 2]", array(F64, BinOp("-", BinOp("-", "n", 1), 2))),
        ("f64[n - (1 - 2)]", array(F64, BinOp("-", "n", BinOp("-", 1, 2)))),
        ("f64[n + 2*m]", array(F64, BinOp("+", "n", BinOp("*", 2, "m")))),
        ("f64[(n + 2)*m]", array(F64, BinOp("*", BinOp("+", "n", 2), "m"))),
        ("float", ScalarSpec("float")),
        ("int", ScalarSpec("int")),
        ("bool", ScalarSpec("bool")),
        ("complex", ScalarSpec("complex")),
        ("()", TupleSpec(())),
        ("(f32[n],)", TupleSpec((array(F32, "n"),))),
        ("(f32[n], f32[n])", TupleSpec((array(F32, "n"), array(F32, "n")))),
        ("[f32[n], float]", ListSpec((array(F32, "n"), ScalarSpec("float")))),
        ("[]", ListSpec(())),
        ('{"w": f32[n, m]}', DictSpec((("w", array(F32, "n", "m")),))),
        ("{'b': float, 'a': int,}", DictSpec((("b", ScalarSpec("float")), ("a", ScalarSpec("int"))))),
        ("{}", DictSpec(())),
    ],
)
def test_accepts(text, expected):
    assert one(text) == expected


def test_parameters():
    assert parse("") == ()
    assert parse("x: inout f64[n], float, inout f32[], y: (float, int),") == (
        Parameter("x", array(F64, "n"), True),
        Parameter(None, ScalarSpec("float")),
        Parameter(None, array(F32), True),
        Parameter("y", TupleSpec((ScalarSpec("float"), ScalarSpec("int")))),
    )
    assert parse("inout: f64[n]") == (Parameter("inout", array(F64, "n")),)


@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        ("f64 f8 float64 double float", "float64"),
        ("f32 f4 float32 single", "float32"),
        ("f16 f2 float16 half", "float16"),
        ("c64 c8 complex64", "complex64"),
        ("c128 c16 complex128 complex", "complex128"),
        ("bool b1", "bool"),
        ("i8 int8", "int8"),
        ("i16 int16", "int16"),
        ("i32 int32", "int32"),
        ("i64 int64 int", "int64"),
        ("u8 uint8", "uint8"),
        ("u16 uint16", "uint16"),
        ("u32 uint32", "uint32"),
        ("u64 uint64", "uint64"),
    ],
)
def test_dtype_names(names, dtype):
    for name in names.split():
        assert one(f"{name}[n]") == array(dtype, "n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f64[n", "expected ',' or ']', found the end\n  f64[n\n       ^"),
        ("f64[n m]", "expected ',' or ']', found 'm'\n  f64[n m]\n        ^"),
        ("f64[,]", "expected a size such as n, 3 or n - 2, found ','\n  f64[,]\n      ^"),
        ("f64[n, -1]", "expected a size such as n, 3 or n - 2, found '-'\n  f64[n, -1]\n         ^"),
        ("f64[n -]", "expected a size such as n, 3 or n - 2, found ']'\n  f64[n -]\n         ^"),
        ("f64[(n]", "expected ')', found ']'\n  f64[(n]\n        ^"),
        ("f64[n / 2]", "expected ',' or ']', found '/'\n  f64[n / 2]\n        ^"),
        ("f64[2n]", "'2n' is neither a number nor a name\n  f64[2n]\n      ^"),
        ("f64[1.5]", "expected ',' or ']', found '.'\n  f64[1.5]\n       ^"),
        ("f64[99999999999999999999]", "'99999999999999999999' does not fit 64 bits\n"),
        ("f64[n // 0]", "division by zero\n  f64[n // 0]\n           ^"),
        ("f64[for]", "'for' is a word of Python, so it cannot name a size\n  f64[for]\n      ^"),
        ("if: f64[n]", "'if' is a word of Python, so it cannot name an argument's name\n  if: f64[n]\n  ^"),
        ("f64", "expected '[' after 'f64': f64[n] has one axis, f64[] none\n  f64\n     ^"),
        ("f64[n] f64[n]", "expected ',' or the end, found 'f64'\n  f64[n] f64[n]\n         ^"),
        (", f64[n]", "expected a type such as f64[n], float, (f64[n], f64[n]) or {\"w\": f64[n]}, found ','"),
        ("x:", 'expected a type such as f64[n], float, (f64[n], f64[n]) or {"w": f64[n]}, found the end'),
        ("flaot64[n]", "unknown dtype 'flaot64'; did you mean float64?\n  flaot64[n]\n  ^"),
        ("float, F64[n]", "unknown dtype 'F64'; did you mean f64?\n  float, F64[n]\n         ^"),
        ("i4[n]", "unknown dtype 'i4': integers count bits here, write i32\n"),
        ("object[n]", "unknown dtype 'object'; there are bool, i8, i16, i32, i64, u8, u16, u32, u64, f16,"),
        (">f8[n]", "arrays are in native byte order: write f64[n] without '<' or '>'\n  >f8[n]\n  ^"),
        ("(f64[n])", "a tuple of one needs a comma: (f64[n],)\n  (f64[n])\n  ^"),
        ("(float, int", "expected ',' or ')', found the end\n  (float, int\n             ^"),
        ("{w: f64[n]}", 'expected a quoted key: "w"\n  {w: f64[n]}\n   ^'),
        ("{3: f64[n]}", "expected a key in quotes or '}', found '3'\n  {3: f64[n]}\n   ^"),
        ('{"w" f64[n]}', "expected ':', found 'f64'\n  {\"w\" f64[n]}\n       ^"),
        ('{"w": int, "w": int}', 'two entries have the key "w"\n  {"w": int, "w": int}\n             ^'),
        ('{"\\x": float}', '"\\x" is no string\n'),
        ('{"w', "expected a key in quotes or '}', found '\"'\n  {\"w\n   ^"),
        ("x: f64[n], x: f64[n]", "two arguments are named 'x'\n  x: f64[n], x: f64[n]\n             ^"),
        ("x: inout float", "only arrays can be inout\n  x: inout float\n     ^"),
        ("(" * 100_000, "the spec is nested too deeply"),
        ("f64[n]\n, $", "found '$'\n  f64[n] , $\n           ^"),
    ],
)
def test_refuses(text, message):
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_examples_in_docstrings():
    assert doctest.testmod(spec).failed == 0


NAMES = st.sampled_from(["n", "m", "rows", "_", "inout", "float", "größe"])
SIZES = st.recursive(
    st.integers(0, 2**63 - 1) | NAMES,
    lambda inner: st.builds(BinOp, st.sampled_from(["+", "-", "*", "//", "%"]), inner, inner).filter(
        lambda size: size.right != 0
    ),
    max_leaves=8,
)
DTYPES = st.sampled_from(sorted(set(spec.DTYPES.values()), key=str))
ARRAYS = st.builds(ArraySpec, DTYPES, st.lists(SIZES, max_size=4).map(tuple))
SPECS = st.recursive(
    ARRAYS | st.sampled_from(["bool", "int", "float", "complex"]).map(ScalarSpec),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple).map(TupleSpec)
        | st.lists(inner, max_size=3).map(tuple).map(ListSpec)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3).map(lambda d: DictSpec(tuple(d.items())))
    ),
    max_leaves=6,
)
PARAMETERS = st.builds(Parameter, st.none() | NAMES, SPECS) | st.builds(
    Parameter, st.none() | NAMES, ARRAYS, st.just(True)
)


@given(st.lists(PARAMETERS, max_size=4, unique_by=lambda p: p.name or object()).map(tuple))
def test_text_parses_to_the_same(parameters):
    assert parse(spec.format(parameters)) == parameters


@given(st.text(alphabet='f64in[](){},:+-*/%"\\ \n', max_size=30))
def test_any_text_parses_or_raises_spec_error(text):
    try:
        parameters = parse(text)
    except SpecError:
        return
    assert parse(spec.format(parameters)) == parameters


def test_canonical_text():
    assert spec.format(parse("double[n,m] , x:inout b1[ (n-2) ], {'w':f4[2*n//3]}")) == (
        'f64[n, m], x: inout bool[n - 2], {"w": f32[2*n // 3]}'
    )
