"""Modules are loaded without a look for garbage in between."""

import gc
import subprocess
import sys

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


def test_httpx_is_loaded_without_its_command_line() -> None:
    code = """if True:
        import sys
        from app.loading import loading
        with loading():
            import httpx
        assert not {"rich", "httpx._main"} & sys.modules.keys()
        import httpx._main
        with loading():
            pass
        assert sys.modules["httpx._main"] is httpx._main
        """
    subprocess.run([sys.executable, "-c", code], check=True)
