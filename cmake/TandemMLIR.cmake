# Finds MLIR and LLVM, and gives everything below the compiler's flags.
# Everything links the two dylibs: static MLIR libraries beside them would
# duplicate global state.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22)
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND ${LLVM_DEFINITIONS})
add_definitions(${LLVM_DEFINITIONS_LIST})
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
add_compile_options(-Wall -Wextra -fno-exceptions)
# The optimiser of GCC 12 warns of what is not there: overlapping or endless copies
# in std::string's operator+ (GCC bug 105651), reads of empty std::optionals, writes
# behind resized vectors.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict -Wno-array-bounds -Wno-maybe-uninitialized
                      -Wno-stringop-overflow)
endif()
# LLVM's headers need no -Wextra from us; the dialect sources include generated
# code, which does not use every parameter.
add_compile_options(-Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Xclang -fno-pch-timestamp)
endif()

# One precompiled header for all rooms of the compiler.
file(WRITE ${PROJECT_BINARY_DIR}/pch/anchor.cpp "")
add_library(TandemPCH OBJECT ${PROJECT_BINARY_DIR}/pch/anchor.cpp)
target_precompile_headers(TandemPCH PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch.h)

# tandem_add_library(<name> SOURCES... [LINK libs...] [DEPENDS targets...])
function(tandem_add_library name)
  cmake_parse_arguments(ARG "" "" "LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  target_precompile_headers(${name} REUSE_FROM TandemPCH)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# tandem_add_plain_library(<name> SOURCES... [LINK libs...]): the rooms that see
# no MLIR (Cost, Search, Explain). They link neither dylib, so that their tools
# start at once.
function(tandem_add_plain_library name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC ${ARG_LINK})
endfunction()

# tandem_sorts_stably(<target>): for sources that call std::stable_sort, or include
# a header that does. libstdc++ 12 marks as deprecated what it calls there itself,
# and Clang warns of that in the caller's file. On other targets uses of deprecated
# functions stay warnings.
function(tandem_sorts_stably target)
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
endfunction()

# tandem_add_tool(<name> SOURCES... LINK libs...): a short main. Without the
# precompiled header, which is made for position-independent libraries.
function(tandem_add_tool name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
endfunction()

# tandem_add_version(<name> <header> SOURCES...): a header with the constant
# <name>, the hash of the sources.
function(tandem_add_version name header)
  add_custom_command(
    OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} "-DSOURCES=${ARGN}" -DNAME=${name} -DOUTPUT=${header}
            -P ${PROJECT_SOURCE_DIR}/cmake/version.cmake
    DEPENDS ${ARGN} ${PROJECT_SOURCE_DIR}/cmake/version.cmake
    VERBATIM)
endfunction()
