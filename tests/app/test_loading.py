"""Modules are loaded without a look for garbage in between."""

import gc

import pytest

from app.loading import loading


def test_garbage_is_looked_for_again_when_all_is_loaded_and_what_is_loaded_is_left_out() -> None:
    with loading():
        assert not gc.isenabled()
        loaded = [[each] for each in range(1000)]
    assert gc.isenabled()
    assert not {id(each) for each in loaded} & {id(each) for each in gc.get_objects()}


def test_garbage_is_looked_for_again_when_something_cannot_be_loaded() -> None:
    with pytest.raises(ImportError), loading():
        raise ImportError
    assert gc.isenabled()
