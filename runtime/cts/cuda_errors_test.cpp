//===- cuda_errors_test.cpp - errors of the CUDA device -------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/children.h"
#include "stamp.h"

#include <iterator>

namespace tandem::rt::cts {
namespace {

/// tandem-run on an emulated GPU that lacks something.
class GpuErrors : public GpuProcessesTest {
protected:
  std::string errorWith(const std::vector<std::string> &variables,
                        const std::string &program = "p2") {
    Child child(variables, {at(program)});
    std::string error = errorOfEnd(child);
    EXPECT_EQ(error.find('\n'), error.size() - 1) << error;
    return error;
  }
  void expect(const std::vector<std::string> &variables,
              const std::string &text, const std::string &program = "p2") {
    std::string error = errorWith(variables, program);
    EXPECT_NE(error.find(text), error.npos) << error;
  }
};

std::string contentOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What a copy of tandem-run says that has `content` for the device's library,
/// or, if that is empty, none.
class GpuLibraryErrors : public GpuErrors {
protected:
  std::string errorWith(const std::string &content) {
    std::filesystem::copy_file(TANDEM_RUN, at("tandem-run"));
    library = at("libtandem-cuda.so");
    if (!content.empty())
      std::ofstream(library, std::ios::binary) << content;
    Child child({}, {at("p2")}, RLIM_INFINITY, at("tandem-run"));
    std::string error = errorOfEnd(child);
    EXPECT_EQ(error.find('\n'), error.size() - 1) << error;
    return error;
  }
  void expect(const std::string &content, const std::string &text) {
    std::string error = errorWith(content);
    EXPECT_NE(error.find(text), error.npos) << error;
  }
  std::string library;
};

TEST_F(GpuLibraryErrors, None) {
  expect("", "device 'cuda' cannot be used: no libtandem-cuda.so beside the "
             "runtime, expected it in " +
                 std::filesystem::canonical(folder).string() + ", ");
}

TEST_F(GpuLibraryErrors, AFileThatIsNoLibrary) {
  expect("no library", "cannot load " + at("libtandem-cuda.so") + ": ");
}

TEST_F(GpuLibraryErrors, OneThatIsOfNoDevice) {
  expect(contentOf(TANDEM_RT_TEST_KERNELS),
         "libtandem-cuda.so is of another build than the runtime");
}

/// Its classes may lie otherwise.
TEST_F(GpuLibraryErrors, OneOfOtherHeaders) {
  std::string content = contentOf(TANDEM_CUDA_LIBRARY);
  size_t at = content.find(TANDEM_RT_STAMP);
  ASSERT_NE(at, content.npos);
  content[at] = content[at] == 'f' ? '0' : 'f';
  expect(content, "libtandem-cuda.so is of another build than the runtime");
}

TEST(GpuLibrary, WhoNeverAsksForItHasNothingOfIt) {
  for (const char *text : {"cuGraphLaunch", "ncclCommSplit", ".target sm_80"}) {
    EXPECT_EQ(contentOf(TANDEM_RUN).find(text), std::string::npos) << text;
    EXPECT_NE(contentOf(TANDEM_CUDA_LIBRARY).find(text), std::string::npos)
        << text;
  }
}

TEST_F(GpuErrors, NoGpu) {
  std::string error = errorWith({"TANDEM_EMULATED_GPUS=0"}, "p2");
  std::string reason = "the driver finds no GPU, expected one";
  size_t at = error.find("device 'cuda' cannot be used: " + reason);
  EXPECT_NE(at, error.npos) << error;
  // Once: who lists the others leaves it out.
  EXPECT_EQ(error.rfind(reason), error.find(reason)) << error;
}

TEST_F(GpuErrors, NoDriver) {
  expect({"TANDEM_CUDA_LIBRARIES=/none"}, "cannot load libcuda.so.1");
  expect({"TANDEM_CUDA_LIBRARIES=/none"},
         ", expected NVIDIA's driver, of CUDA 13.0 or later");
}

TEST_F(GpuErrors, AnOlderDriver) {
  expect({"TANDEM_EMULATED_DRIVER=12080"},
         "the driver is of CUDA 12.8, expected 13.0 or later");
}

TEST_F(GpuErrors, AnOlderGpu) {
  ProgramBuilder b = smallStep(1);
  b.mutableProgram().target.cpu = "sm_90";
  write("new", *finish(b));
  expect({"TANDEM_EMULATED_CAPABILITY=80"},
         "program is for sm_90, but the emulated GPU is sm_80, expected one "
         "that was compiled for sm_80 or older",
         "new");
}

/// Of all that is to be allocated, not of the first part that does not fit.
TEST_F(GpuErrors, TooLittleMemory) {
  ProgramBuilder b = smallStep(2);
  b.setArena(1 << 20);
  b.addArgument(
      {"parameter", "large", ElementType::F32, {1 << 18}, {}, {}, -1, {}});
  write("large", *finish(b));
  // Of both ranks: x, w, the rate, the step, the loss; what is large; arenas.
  int64_t needed = 2 * (8 + 8 + 4 + 8 + 4 + (1 << 20) + (1 << 20));
  expect({"TANDEM_EMULATED_MEMORY=65536"},
         "a step and its values have to allocate " + std::to_string(needed) +
             " bytes on the emulated GPU: 65536 of 65536 are free, expected ",
         "large");
}

TEST_F(GpuErrors, RanksThatShareAGpuUnasked) {
  expect({"TANDEM_SHARE_GPU=0"},
         "device 'cuda' has 2 ranks and one GPU in this process, expected a "
         "process for each (torchrun --nproc-per-node=2), or "
         "TANDEM_SHARE_GPU=1");
}

TEST_F(GpuErrors, AnIllegalAccessNamesCommandAndLine) {
  ProgramBuilder b({});
  uint32_t code = b.addCodeObject("kernels", kernelImage());
  uint32_t y = b.addResult({"loss", "loss", ElementType::F32, {2}});
  b.launch({.name = "softmax", .location = "model.py:12"}, code, "stray", {},
           {b.result(y)});
  write("stray", *finish(b));
  const std::string access = "an illegal memory access was encountered";
  expect({"TANDEM_CUDA_WAIT=1"},
         "step 1, rank 0, command 0 'softmax' (model.py:12): cannot run the "
         "step's kernels: " +
             access,
         "stray");
  expect({}, access, "stray");
  expect({}, "; with TANDEM_CUDA_WAIT=1 the error names the command", "stray");
}

} // namespace
} // namespace tandem::rt::cts
