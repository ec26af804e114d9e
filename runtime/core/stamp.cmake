# stamp.cmake: writes OUTPUT, a header with the hash of the headers of core and of include/, which tells builds
# apart whose classes differ.
file(GLOB headers ${SOURCE}/core/*.h ${SOURCE}/include/tandem_rt/*.h)
list(SORT headers)
set(hashes)
foreach(header ${headers})
  file(SHA256 ${header} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 stamp "${hashes}")
file(WRITE ${OUTPUT} "#define TANDEM_RT_STAMP \"${stamp}\"\n")
