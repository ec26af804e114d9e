"""The progress line on a terminal: `tandem: capture 3.1 s, plan 0.2 s, kernels 12 of 58 4.0 s`.

Nothing is written if standard error is no terminal, or by processes of a job other than the first.
"""

import contextlib
import os
import sys
import threading
import time

# Seconds between two looks at the clock, and those in which nothing is shown at all.
_PAUSE = 0.25
_QUIET = 0.5
_CLEAR = "\r\x1b[K"


class Progress:
    """Parts of one piece of work, one after the other; each is shown with its seconds."""

    def __init__(self, out):
        self._out, self._lock = out, threading.Lock()
        self._done, self.what, self._detail, self._begin = [], None, "", 0.0
        self._ends, self._start = threading.Event(), time.monotonic()
        self._paused = self._shown = False
        self._thread = threading.Thread(target=self._watch, name="tandem-progress", daemon=True)
        self._thread.start()

    def begin(self, what):
        """The part before it is done. With None nothing follows for now."""
        with self._lock:
            now = time.monotonic()
            if self.what is not None:
                self._done.append(f"{self.what} {now - self._begin:.1f} s")
            self.what, self._detail, self._begin = what, "", now

    def tell(self, detail):
        """How far the part is."""
        self._detail = detail

    def pause(self, paused):
        """Somebody else writes on the terminal meanwhile."""
        with self._lock:
            self._paused = paused
            if paused and self._shown:
                self._write(_CLEAR)
                self._shown = False

    def end(self):
        self.begin(None)
        self._ends.set()
        self._thread.join()
        if self._shown:
            self._write(_CLEAR + self._line() + "\n")

    def _line(self, width=None):
        """Where that is too long for the width, what is done gives way."""
        parts = list(self._done)
        if self.what is not None:
            words = [self.what, self._detail, f"{time.monotonic() - self._begin:.1f} s"]
            parts.append(" ".join(word for word in words if word))
        line = f"tandem: {', '.join(parts)}"
        if width is None or len(line) <= width:
            return line
        return f"tandem: {parts[-1]}"[:width]

    def _watch(self):
        while not self._ends.wait(_PAUSE):
            with self._lock:
                if not self._paused and time.monotonic() - self._start >= _QUIET:
                    self._write(_CLEAR + self._line(_columns(self._out) - 1))
                    self._shown = True

    def _write(self, text):
        with contextlib.suppress(OSError, ValueError):  # the terminal has gone
            self._out.write(text)
            self._out.flush()


def _columns(out):
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


_current = None


@contextlib.contextmanager
def shown(is_first=True):
    """Within it `part` and `tell` are shown, if anything is."""
    global _current
    out = sys.stderr
    shows = is_first and _current is None and out is not None and out.isatty()
    if not shows:
        yield
        return
    _current = own = Progress(out)
    try:
        yield
    finally:
        _current = None
        own.end()


def part(what):
    """The next part of the work begins."""
    if _current is not None:
        _current.begin(what)


def tell(detail):
    """How far it is."""
    if _current is not None:
        _current.tell(detail)


@contextlib.contextmanager
def aside():
    """Within it somebody else writes lines on the terminal."""
    progress = _current
    if progress is not None:
        progress.pause(True)
    try:
        yield
    finally:
        if progress is not None:
            progress.pause(False)


def of_compiler(searches):
    """What the compiler calls as `progress(what, done, all)`; None where nothing is shown. A search shows itself."""
    progress = _current
    if progress is None:
        return None

    def told(what, done, total):
        progress.pause(what == "plan" and searches)
        if what != progress.what:
            progress.begin(what)
        if total:
            progress.tell(f"{done} of {total}")

    return told
