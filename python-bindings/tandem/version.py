"""The version of the package, which is that of the build (`CMakeLists.txt`)."""

__version__ = "0.1.0"
