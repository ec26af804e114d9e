//===- read_guard_test.cpp - mapped files that shrink ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/support.h"
#include "tandem_rt/read_guard.h"
#include "tandem_rt/safetensors.h"

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <numeric>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace tandem::rt::cts {
namespace {

std::string pathOf(const char *name) {
  return testing::TempDir() + "tandem-" + name + std::to_string(getpid());
}

/// Four pages of a file of ones.
class MappedFile {
public:
  MappedFile() : bytes(4 * size_t(sysconf(_SC_PAGESIZE))) {
    std::ofstream(path) << std::string(bytes, '\1');
    int number = open(path.c_str(), O_RDONLY);
    memory = static_cast<char *>(
        mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, number, 0));
    close(number);
  }
  ~MappedFile() {
    munmap(memory, bytes);
    std::remove(path.c_str());
  }
  void cut(size_t pages) {
    EXPECT_EQ(truncate(path.c_str(), off_t(pages * bytes / 4)), 0);
  }

  const std::string path = pathOf("mapped");
  const size_t bytes;
  char *memory;
};

int64_t sumOf(const char *memory, size_t bytes) {
  const volatile char *begin = memory; // read, whatever becomes of the sum
  return std::accumulate(begin, begin + bytes, int64_t(0));
}

TEST(ReadGuard, ReadsZerosAndSaysSo) {
  MappedFile mapped;
  ReadGuard outer(mapped.memory, mapped.bytes);
  EXPECT_EQ(sumOf(mapped.memory, mapped.bytes), int64_t(mapped.bytes));
  EXPECT_OK(outer.check());
  mapped.cut(1);
  for (int round = 0; round < 2; ++round) {
    ReadGuard inner(mapped.memory + 9, mapped.bytes - 9);
    EXPECT_OK(inner.check());
    int64_t sum = 0;
    std::thread([&] { sum = sumOf(mapped.memory, mapped.bytes); }).join();
    EXPECT_EQ(sum, int64_t(mapped.bytes / 4));
    expectError(inner.check(), "lies in a file that has become shorter");
  }
  expectError(outer.check(), "lies in a file that has become shorter");
}

/// As without a guard, once there is none any more.
TEST(ReadGuard, WhatIsMissingStaysMissing) {
  EXPECT_EXIT(
      {
        MappedFile mapped;
        mapped.cut(0);
        {
          ReadGuard guard(mapped.memory, mapped.bytes);
          sumOf(mapped.memory, mapped.bytes);
        }
        volatile char read = mapped.memory[0];
        (void)read;
      },
      testing::KilledBySignal(SIGBUS), "");
}

/// Whoever has installed a handler of its own since the first guard.
TEST(ReadGuard, ReadsWithAHandlerInItsPlace) {
  MappedFile mapped;
  {
    ReadGuard first(mapped.memory, mapped.bytes);
  }
  auto abortAtOnce = [](int) { abort(); };
  auto ours = signal(SIGBUS, abortAtOnce);
  mapped.cut(1);
  {
    ReadGuard guard(mapped.memory, mapped.bytes);
    EXPECT_EQ(sumOf(mapped.memory, mapped.bytes), int64_t(mapped.bytes / 4));
    expectError(guard.check(), "lies in a file that has become shorter");
  }
  signal(SIGBUS, ours);
}

/// To the handler before, once, and then to none.
TEST(ReadGuard, OtherSignalsAreHandedOn) {
  auto handOn = [] {
    signal(SIGBUS, [](int) { (void)!write(2, "handed on\n", 10); });
    MappedFile mapped;
    ReadGuard guard(mapped.memory, mapped.bytes);
    raise(SIGBUS);
    ReadGuard again(mapped.memory, mapped.bytes);
    signal(SIGBUS, SIG_DFL);
    raise(SIGBUS);
  };
  EXPECT_EXIT(handOn(), testing::KilledBySignal(SIGBUS), "handed on");
}

/// What was unmapped may be another's by then.
TEST(ReadGuard, TouchesNothingOnceItHasEnded) {
  MappedFile mapped;
  mapped.cut(1);
  ReadGuard guard(mapped.memory, mapped.bytes);
  sumOf(mapped.memory, mapped.bytes);
  guard.end();
  void *other = mmap(mapped.memory, mapped.bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  ASSERT_EQ(other, mapped.memory);
  guard.end();
  EXPECT_OK(guard.check());
  EXPECT_EQ(sumOf(mapped.memory, mapped.bytes), 0);
}

TEST(ReadGuard, AnArgumentThatGoesAwayIsAnError) {
  const int64_t count = 4096;
  ProgramBuilder b({{"data", 2}});
  b.addArgument({"parameter", "w", ElementType::F32, {count}, {count}});
  auto session = start(b);
  ASSERT_TRUE(session);
  MappedFile mapped;
  TensorView view{ElementType::F32, {count}, mapped.memory};
  EXPECT_OK(session->setArgument(0, view));
  mapped.cut(2);
  for (int round = 0; round < 2; ++round) {
    expectError(session->setArgument(0, view),
                "argument 'parameter/w' lies in a file that has become "
                "shorter, or cannot be read, since it was mapped");
    expectError(session->step(), "values are damaged: 'parameter/w' may be "
                                 "half read from a file");
  }
  Tensor whole(ElementType::F32, {count});
  EXPECT_OK(session->setArgument(0, whole.view()));
  EXPECT_OK(session->step());
}

TEST(ReadGuard, ASafetensorsFileIsAskedBehindEachUse) {
  std::string path = pathOf("file");
  Tensor large(ElementType::F32, {1 << 14});
  EXPECT_OK(writeSafetensors(path, {{"a", large.view()}}));
  auto read = SafetensorsFile::open(path);
  ASSERT_TRUE(read.ok());
  EXPECT_OK(read->check());
  EXPECT_EQ(truncate(path.c_str(), 4096), 0);
  const TensorView *view = read->find("a");
  sumOf(static_cast<const char *>(view->data), 1 << 16);
  expectError(read->check(), "' has become shorter, or cannot be read, since "
                             "it was opened");
  std::remove(path.c_str());
}

} // namespace
} // namespace tandem::rt::cts
