//===- emulator_test.cpp - the emulated GPU -------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/rank.h"

#include <cmath>
#include <fcntl.h>
#include <fstream>
#include <set>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {
using namespace cuda;

class Emulator : public testing::Test {
protected:
  void SetUp() override {
    if (!std::getenv("TANDEM_CUDA_LIBRARIES"))
      GTEST_SKIP() << "TANDEM_CUDA_LIBRARIES names no emulated GPU";
    auto opened = Gpu::open(0);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    gpu = *opened;
    present.emplace(*gpu);
    ASSERT_TRUE(gpu->isEmulated());
  }
  Memory allocate(int64_t bytes) {
    auto memory = Memory::allocate(gpu, bytes);
    EXPECT_OK(memory.status());
    return std::move(*memory);
  }
  void expect(CUresult result) { EXPECT_OK(gpu->check(result, "go on")); }
  /// A module of the kernels below, which are this file's own.
  std::unique_ptr<Code> load() {
    std::ifstream file(TANDEM_RT_EMULATED_TEST_KERNELS, std::ios::binary);
    CodeObject object{"kernels",
                      Bytes(std::istreambuf_iterator<char>(file), {})};
    auto code = Code::load(gpu, object, {});
    EXPECT_OK(code.status());
    return std::move(*code);
  }
  void launch(CUfunction function, unsigned threads, unsigned shared,
              std::vector<uint64_t> parameters) {
    size_t bytes = parameters.size() * 8;
    void *extra[] = {kBufferPointer, parameters.data(), kBufferSize, &bytes,
                     kEnd};
    expect(gpu->driver.launchKernel(function, 1, 1, 1, threads, 1, 1, shared,
                                    nullptr, nullptr, extra));
  }

  std::shared_ptr<Gpu> gpu;
  std::optional<Present> present;
};

TEST_F(Emulator, FreshMemoryIsNaN) {
  Memory memory = allocate(24);
  double values[3] = {};
  EXPECT_OK(memory.copyOut(0, values, sizeof values));
  for (double value : values)
    EXPECT_TRUE(std::isnan(value));
  float narrow[6] = {};
  EXPECT_OK(memory.copyOut(0, narrow, sizeof narrow));
  EXPECT_TRUE(std::isnan(narrow[5]));
}

TEST_F(Emulator, TheHostCannotTouchIt) {
  Memory memory = allocate(8);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  EXPECT_EQ(write(pipe[1], reinterpret_cast<void *>(memory.address()), 8), -1);
  EXPECT_EQ(errno, EFAULT);
  close(pipe[0]), close(pipe[1]);
}

TEST_F(Emulator, CopiesStayWithinAnAllocation) {
  Memory memory = allocate(8);
  char bytes[16] = {};
  expectError(memory.copyIn(0, bytes, 9), "invalid argument");
  expectError(memory.copyOut(1, bytes, 8), "invalid argument");
  EXPECT_OK(memory.copyOut(1, bytes, 7));
}

/// In pieces of 4 MiB, of which two are on their way; the device copies late.
TEST_F(Emulator, LargeCopiesGoByPieces) {
  for (size_t bytes :
       {size_t(256) << 10, (size_t(4) << 20) + 1, (size_t(13) << 20) + 7}) {
    Memory memory = allocate(int64_t(bytes) + 3);
    std::vector<unsigned char> values(bytes), found(bytes);
    for (size_t i = 0; i < bytes; ++i)
      values[i] = (unsigned char)(i * 2654435761u >> 24);
    EXPECT_OK(memory.copyIn(3, values.data(), bytes));
    EXPECT_OK(memory.copyOut(3, found.data(), bytes));
    EXPECT_TRUE(found == values) << bytes;
  }
}

/// What the byte at the end is, of two fills on two streams.
class TwoStreams : public Emulator {
protected:
  std::set<int> lastValues(bool waits) {
    Memory memory = allocate(1);
    std::set<int> seen;
    for (int i = 0; i < 64; ++i) {
      auto first = Stream::create(gpu), second = Stream::create(gpu);
      auto event = Event::create(gpu);
      expect(gpu->driver.memsetD8Async(memory.address(), 1, 1, first->get()));
      expect(gpu->driver.eventRecord(event->get(), first->get()));
      if (waits)
        expect(gpu->driver.streamWaitEvent(second->get(), event->get(), 0));
      expect(gpu->driver.memsetD8Async(memory.address(), 2, 1, second->get()));
      expect(gpu->driver.contextSynchronize());
      unsigned char value = 0;
      EXPECT_OK(memory.copyOut(0, &value, 1));
      seen.insert(value);
    }
    return seen;
  }
};

TEST_F(TwoStreams, RunInAnyOrder) {
  EXPECT_EQ(lastValues(false), (std::set<int>{1, 2}));
}
TEST_F(TwoStreams, ButForEvents) {
  EXPECT_EQ(lastValues(true), (std::set<int>{2}));
}

TEST_F(Emulator, NothingRunsBeforeSomebodyWaits) {
  Memory memory = allocate(1);
  auto stream = Stream::create(gpu);
  expect(gpu->driver.memsetD8Async(memory.address(), 7, 1, stream->get()));
  unsigned char value = 0;
  EXPECT_OK(memory.copyOut(0, &value, 1));
  EXPECT_EQ(value, 0xff);
  expect(gpu->driver.streamSynchronize(stream->get()));
  EXPECT_OK(memory.copyOut(0, &value, 1));
  EXPECT_EQ(value, 7);
}

TEST_F(Emulator, ThreadsMeetAtBarriers) {
  auto code = load();
  Memory memory = allocate(64 * 8);
  launch(*code->find("turnAround"), 64, 64 * 8, {memory.address()});
  expect(gpu->driver.contextSynchronize());
  int64_t values[64];
  EXPECT_OK(memory.copyOut(0, values, sizeof values));
  for (int64_t i = 0; i < 64; ++i)
    EXPECT_EQ(values[i], 63 - i);
}

/// An error ends everything, as on a GPU: in a process of its own.
using EmulatorDeathTest = Emulator;
TEST_F(EmulatorDeathTest, SaysWhatAKernelMayNot) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto code = load();
  Memory memory = allocate(16);
  auto run = [&](const char *kernel, unsigned threads, unsigned shared,
                 uint64_t address) {
    launch(*code->find(kernel), threads, shared, {address});
    Status status =
        gpu->check(gpu->driver.contextSynchronize(), "run the kernels");
    std::fprintf(stderr, "%s\n", status.message().c_str());
    std::_Exit(status.ok() ? 0 : 1);
  };
  EXPECT_EXIT(run("turnAround", 3, 24, memory.address()),
              testing::ExitedWithCode(1),
              "thread . writes 8 bytes at 16 of an allocation of 16");
  EXPECT_EXIT(run("turnAround", 1, 8, memory.address() + 4),
              testing::ExitedWithCode(1), "misaligned address");
  EXPECT_EXIT(run("turnAround", 2, 8, memory.address()),
              testing::ExitedWithCode(1),
              "8 bytes at 8 of 8 bytes of shared memory");
  EXPECT_EXIT(run("turnWithoutBarrier", 2, 16, memory.address()),
              testing::ExitedWithCode(1),
              "that another thread has touched since the last barrier");
  EXPECT_EXIT(run("waitAlone", 2, 0, memory.address()),
              testing::ExitedWithCode(1), "do not come to the same barriers");
}

} // namespace
} // namespace tandem::rt::cts
