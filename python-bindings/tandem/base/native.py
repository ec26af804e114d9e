"""The compiled module, loaded when it is first needed: capture works without it."""

from ..errors import TandemError


def native():
    try:
        from .. import _tandem
    except ImportError as error:
        raise TandemError(
            f"the compiled module cannot be loaded ({error}); `make build` makes it"
        ) from error
    return _tandem
