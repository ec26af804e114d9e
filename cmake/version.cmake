# Writes a header with the hash of sources under a NAME, so that what another
# version of them has compiled into a cache is not used.
set(text "")
foreach(source ${SOURCES})
  file(SHA256 ${source} hash)
  string(APPEND text ${hash})
endforeach()
string(SHA256 version "${text}")
set(content "#pragma once\nconstexpr const char *${NAME} = \"${version}\";\n")
file(WRITE ${OUTPUT} "${content}")
