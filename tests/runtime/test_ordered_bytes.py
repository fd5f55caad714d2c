"""Numbers as bytes: in their order, also one behind the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.ordered_bytes import double_of, falling_double, integers_of, rising_integer
from runtime.records import ID_MAX, ID_MIN

EDGES = (0, -1, 1, 255, 256, -255, -256, -257, 65535, 65536, -65536, -65537, ID_MIN, ID_MAX)
integers = st.sampled_from(EDGES) | st.integers(ID_MIN, ID_MAX)
doubles = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-3, 3).map(float)


@given(st.lists(integers))
def test_lesser_integers_come_first(numbers: list[int]) -> None:
    assert sorted(numbers, key=rising_integer) == sorted(numbers)
    for number in numbers:
        assert len(rising_integer(number)) <= 9


@given(st.lists(doubles))
def test_greater_doubles_come_first_and_no_zero_is_negative(numbers: list[float]) -> None:
    assert [each + 0.0 for each in sorted(numbers, key=falling_double)] == [
        each + 0.0 for each in sorted(numbers, reverse=True)
    ]
    assert {len(falling_double(number)) for number in numbers} <= {8}
    assert falling_double(-0.0) == falling_double(0.0)


@given(st.lists(st.tuples(doubles, integers, integers)))
def test_several_behind_each_other_compare_one_after_the_other(places: list[tuple[float, int, int]]) -> None:
    def place(numbers: tuple[float, int, int]) -> bytes:
        return falling_double(numbers[0]) + rising_integer(numbers[1]) + rising_integer(numbers[2])

    assert [tuple(map(float, each)) for each in sorted(places, key=place)] == [
        tuple(map(float, each)) for each in sorted(places, key=lambda each: (-each[0], each[1], each[2]))
    ]


@given(doubles, st.lists(integers))
def test_numbers_are_read_back_from_their_bytes(number: float, others: list[int]) -> None:
    assert repr(double_of(falling_double(number))) == repr(number + 0.0)
    assert integers_of(b"".join(map(rising_integer, others))) == others
