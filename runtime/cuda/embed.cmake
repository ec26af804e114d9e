# Writes the texts TEXTS as an array of C++ to OUTPUT.
set(list "")
set(count 0)
foreach(text ${TEXTS})
  file(READ ${text} content)
  string(APPEND list "R\"PTX(${content})PTX\",\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include <cstddef>
namespace tandem::rt::cuda {
extern const char *const kKernelPtx[];
extern const size_t kNumKernelPtx;
const char *const kKernelPtx[] = {
${list}nullptr};
const size_t kNumKernelPtx = ${count};
} // namespace tandem::rt::cuda
")
