# Writes a header with a hash of sources under a NAME. Caches use it to ignore
# results of other versions.
set(text "")
foreach(source ${SOURCES})
  file(SHA256 ${source} hash)
  string(APPEND text ${hash})
endforeach()
string(SHA256 version "${text}")
set(content "#pragma once\nconstexpr const char *${NAME} = \"${version}\";\n")
file(WRITE ${OUTPUT} "${content}")
