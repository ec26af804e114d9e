"""What `make bench-overlap` measures: communication that is hidden behind computation, on emulated hosts."""
