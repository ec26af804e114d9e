# Writes a header with the hash of the sources that decide a kernel's code, so
# that kernels cached by another version of them are not used.
set(text "")
foreach(source ${SOURCES})
  file(SHA256 ${source} hash)
  string(APPEND text ${hash})
endforeach()
string(SHA256 version "${text}")
set(content "#pragma once\nconstexpr const char *kKernelVersion = \"${version}\";\n")
file(WRITE ${OUTPUT} "${content}")
