"""`make bench-overlap`: communication hidden behind computation, on emulated hosts."""
