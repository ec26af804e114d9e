"""Ctrl-C while `python -m tandem` imports PyTorch: one line. From its begin on, `__main__` sees to that."""

import os
import signal
import sys


def _end(*_):
    os.write(sys.stderr.fileno(), b"tandem: interrupted\n")
    os._exit(128 + signal.SIGINT)


def _is_command():
    """Whether this is `python -m tandem`: until the module is found, `sys.argv` begins with -m."""
    return sys.argv[:1] == ["-m"] and "tandem" in sys.orig_argv


def end():
    """What is imported may be interrupted from here on."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
