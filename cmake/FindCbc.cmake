# Finds CBC, the integer programming solver of COIN-OR, and its C interface:
# target Cbc::Cbc. Debian: coinor-libcbc-dev.
find_path(Cbc_INCLUDE_DIR Cbc_C_Interface.h PATH_SUFFIXES coin coin-or)
find_library(Cbc_SOLVER_LIBRARY CbcSolver)
find_library(Cbc_LIBRARY Cbc)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  Cbc REQUIRED_VARS Cbc_SOLVER_LIBRARY Cbc_LIBRARY Cbc_INCLUDE_DIR)
if(Cbc_FOUND AND NOT TARGET Cbc::Cbc)
  add_library(Cbc::Cbc INTERFACE IMPORTED)
  set_target_properties(
    Cbc::Cbc PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${Cbc_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "${Cbc_SOLVER_LIBRARY};${Cbc_LIBRARY}")
endif()
mark_as_advanced(Cbc_INCLUDE_DIR Cbc_SOLVER_LIBRARY Cbc_LIBRARY)
