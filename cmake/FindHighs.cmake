# Finds HiGHS, the solver of linear and integer programs, in the Python package
# highspy (scripts/setup installs the pinned one): target Highs::Highs. The
# package has the library without headers; lib/Search/Ilp/IlpSolver.cpp declares
# what it calls of the C interface.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND ${Python3_EXECUTABLE} -c
    "import importlib.util as u; print(u.find_spec('highspy').submodule_search_locations[0])"
  OUTPUT_VARIABLE Highs_FOLDER OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
find_library(Highs_LIBRARY NAMES libhighs.so.1 highs
  HINTS "${Highs_FOLDER}" NO_DEFAULT_PATH)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Highs REQUIRED_VARS Highs_LIBRARY
  REASON_FAILURE_MESSAGE "expected the Python package highspy, see scripts/setup")
if(Highs_FOUND AND NOT TARGET Highs::Highs)
  add_library(Highs::Highs SHARED IMPORTED)
  set_target_properties(Highs::Highs PROPERTIES
    IMPORTED_LOCATION "${Highs_LIBRARY}" IMPORTED_SONAME libhighs.so.1)
endif()
mark_as_advanced(Highs_LIBRARY)
