//===- direct_test.cpp - tensors in memory of the GPU ---------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The test stands for PyTorch: it has retained the primary context of the
// emulated GPU, and has memory and a stream there.
//
//===----------------------------------------------------------------------===//

#include "cts/emulator/order.h"
#include "cts/support.h"
#include "cuda/driver/rank.h"

#include <dlfcn.h>

namespace tandem::rt::cts {
namespace {
using cuda::emulated::Order;

class Direct : public testing::Test {
protected:
  void SetUp() override {
    if (!std::getenv("TANDEM_CTS_DEVICE"))
      GTEST_SKIP() << "TANDEM_CTS_DEVICE names no device with GPUs";
    gpu = *cuda::Gpu::open(0);
    present.emplace(*gpu);
    stream = std::move(*cuda::Stream::create(gpu));
  }

  cuda::Memory allocate(size_t bytes) {
    return std::move(*cuda::Memory::allocate(gpu, int64_t(bytes)));
  }
  void expect(cuda::CUresult result) { EXPECT_OK(gpu->check(result, "go on")); }
  /// In the caller's stream, in which nothing has been done yet.
  void write(const cuda::Memory &memory, const std::vector<float> &values) {
    expect(gpu->driver.memcpyHtoDAsync(memory.address(), values.data(),
                                       values.size() * sizeof(float),
                                       stream.get()));
  }
  void clear(const cuda::Memory &memory, size_t count) {
    expect(gpu->driver.memsetD8Async(memory.address(), 0xff,
                                     count * sizeof(float), stream.get()));
  }
  DeviceTensor at(const cuda::Memory &memory, Shape shape) const {
    return {ElementType::F32, std::move(shape), memory.address(),
            reinterpret_cast<uint64_t>(stream.get())};
  }
  std::vector<float> read(const cuda::Memory &memory, size_t count) {
    std::vector<float> values(count);
    expect(gpu->driver.streamSynchronize(stream.get()));
    expect(gpu->driver.memcpyDtoH(values.data(), memory.address(),
                                  count * sizeof(float)));
    return values;
  }

  Watchdog watchdog{120};
  std::shared_ptr<cuda::Gpu> gpu;
  std::optional<cuda::Present> present;
  cuda::Stream stream;
};

/// Lives as long as what is copied from it late.
const std::vector<float> kFour = {1, 2, 3, 4};

/// A result that is a copy of an input, both in a form.
ProgramBuilder copying(const std::vector<Axis> &mesh, const Shape &shape,
                       const Form &form) {
  ProgramBuilder b(mesh);
  uint32_t x =
      b.addArgument({"input", "x", ElementType::F32, shape, {}, form, -1, {}});
  uint32_t y =
      b.addResult({"output", "y", ElementType::F32, shape, {}, form, {}, {}});
  b.add({.name = "copy"}, Copy{b.argument(x), b.result(y)});
  return b;
}

TEST_F(Direct, SlicesAreCopiedWithinTheGpu) {
  const Shape shape = {4, 6, 8};
  const size_t count = 4 * 6 * 8;
  auto first = randomValues<float>(int64_t(count), 1);
  auto second = randomValues<float>(int64_t(count), 2);
  const DimForm whole{1, {}}, data{1, {0}}, model{1, {1}}, both{1, {0, 1}},
      overTime{2, {0}};
  for (const std::vector<DimForm> &dims :
       std::vector<std::vector<DimForm>>{{whole, whole, whole},
                                         {both, whole, whole},
                                         {whole, model, data},
                                         {overTime, whole, model},
                                         {data, whole, whole}}) {
    auto session =
        start(copying({{"data", 2}, {"model", 2}}, shape, Form{dims, {}}));
    ASSERT_TRUE(session);
    EXPECT_TRUE(session->isDirectArgument(0) && session->isDirectResult(0));
    cuda::Memory in = allocate(count * 4), out = allocate(count * 4);
    cuda::Memory before = allocate(count * 4);
    write(in, first);
    EXPECT_OK(session->setArgument(0, at(in, shape)));
    clear(in, count); // what comes later in the caller's stream
    EXPECT_OK(session->step());
    EXPECT_EQ(valuesOf<float>(result(*session, "output", "y")), first);
    EXPECT_OK(session->getResult(0, at(before, shape)));
    write(in, second);
    EXPECT_OK(session->setArgument(0, at(in, shape)));
    clear(in, count);
    EXPECT_OK(session->step()); // behind the copy of the former result
    EXPECT_OK(session->getResult(0, at(out, shape)));
    EXPECT_EQ(read(before, count), first);
    EXPECT_EQ(read(out, count), second);
  }
}

/// Those of a tensor that the compiler has taken apart.
TEST_F(Direct, PartsAreTakenFromTheWhole) {
  ProgramBuilder b({{"data", 2}});
  Form rows{{{1, {0}}, {1, {}}}, {}};
  Argument part{"parameter", "w.0", ElementType::F32, {4, 2}, {}, rows, -1, {}};
  part.part = Part{"w", {4, 6}, 1, 0};
  b.addArgument(part);
  part.name = "w.1", part.globalShape = {4, 4};
  part.part->offset = 2;
  b.addArgument(part);
  auto session = start(b);
  ASSERT_TRUE(session);
  int index = session->findArgument("parameter", "w");
  ASSERT_GE(index, 0);
  auto values = randomValues<float>(24, 1);
  cuda::Memory in = allocate(96);
  write(in, values);
  EXPECT_OK(session->setArgument(uint32_t(index), at(in, {4, 6})));
  EXPECT_EQ(valuesOf<float>(argument(*session, "parameter", "w")), values);
}

/// PyTorch has the context of another GPU present, or none.
TEST_F(Direct, TheCallersContextStaysAsItIs) {
  auto other = *cuda::Gpu::open(1);
  cuda::CUcontext here = nullptr, found = nullptr;
  cuda::Present second(*other);
  expect(gpu->driver.contextGetCurrent(&here));
  cuda::Memory in;
  {
    cuda::Present first(*gpu);
    in = allocate(16);
    write(in, kFour);
  }
  for (cuda::CUcontext context : {here, cuda::CUcontext()}) {
    expect(gpu->driver.contextSetCurrent(context));
    auto session = start(copying({}, {4}, {}));
    EXPECT_OK(session->setArgument(0, at(in, {4})));
    EXPECT_OK(session->step());
    EXPECT_EQ(valuesOf<float>(result(*session, "output", "y")), kFour);
    session = nullptr;
    expect(gpu->driver.contextGetCurrent(&found));
    EXPECT_EQ(found, context);
  }
  expect(gpu->driver.contextSetCurrent(here));
}

/// The primary context is that of all who have retained it.
TEST_F(Direct, WhatTheCallerHasOutlivesTheSession) {
  cuda::Memory in = allocate(16);
  write(in, kFour);
  auto session = start(copying({}, {4}, {}));
  EXPECT_OK(session->setArgument(0, at(in, {4})));
  session = nullptr;
  EXPECT_EQ(read(in, 4), kFour);
}

TEST_F(Direct, WhatIsNoMemoryOfTheGpuIsRefused) {
  auto session = start(copying({}, {4}, {}));
  std::vector<float> values(4);
  DeviceTensor tensor{
      ElementType::F32, {4}, reinterpret_cast<uint64_t>(values.data()), 0};
  expectError(session->setArgument(0, tensor),
              "'input/x': the tensor is in no memory of a GPU");
  auto other = *cuda::Gpu::open(1);
  cuda::Present second(*other);
  cuda::Memory elsewhere = std::move(*cuda::Memory::allocate(other, 16));
  tensor.address = elsewhere.address();
  expectError(session->setArgument(0, tensor),
              "'input/x': the tensor is in memory of GPU 1, expected that of "
              "GPU 0, which this process has");
  tensor.shape = {5};
  expectError(session->setArgument(0, tensor),
              "'input/x' is f32[5], expected f32[4]");
  expectError(session->setArgument(7, tensor),
              "tensor is 7, expected less than 1");
}

TEST_F(Direct, TermsOfASumAreNot) {
  Form terms{{{1, {}}}, {0}};
  auto session = start(copying({{"data", 2}}, {4}, terms));
  EXPECT_FALSE(session->isDirectArgument(0) || session->isDirectResult(0));
  cuda::Memory memory = allocate(16);
  expectError(
      session->setArgument(0, at(memory, {4})),
      "'input/x' is in memory of the device, expected it in the host's");
  expectError(session->getResult(0, at(memory, {4})),
              "'output/y' is in memory of the device, expected it in the "
              "host's");
}

/// Each wait between the caller's stream and the step's is needed, and none is
/// missing.
TEST_F(Direct, AccessesHaveAnOrder) {
  std::string path =
      std::string(std::getenv("TANDEM_CUDA_LIBRARIES")) + "/libcuda.so.1";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto *watch = reinterpret_cast<Order *(*)(bool, int64_t)>(
      dlsym(library, "tandemWatchOrder"));
  auto *count =
      reinterpret_cast<int64_t (*)()>(dlsym(library, "tandemCountWaits"));
  ASSERT_TRUE(watch && count);
  auto session = start(copying({}, {4}, {}));
  cuda::Memory in = allocate(16), out = allocate(16);
  auto isReported = [&](int64_t leftOut) {
    Order *order = watch(true, leftOut);
    write(in, kFour);
    EXPECT_OK(session->setArgument(0, at(in, {4})));
    (void)session->step();
    EXPECT_OK(session->getResult(0, at(out, {4})));
    (void)session->step();
    expect(gpu->driver.streamSynchronize(stream.get()));
    return !order->getReports().empty();
  };
  EXPECT_OK(session->step()); // a graph is made with the first step
  EXPECT_FALSE(isReported(0));
  int64_t waits = count();
  EXPECT_GE(waits, 2);
  int64_t needed = 0;
  for (int64_t wait = 1; wait <= waits; ++wait) {
    watch(false, 0);
    needed += isReported(wait);
  }
  EXPECT_GE(needed, 2);
  watch(false, 0);
}

TEST(WithoutAGpu, NothingIsDirect) {
  if (std::getenv("TANDEM_CTS_DEVICE"))
    GTEST_SKIP() << "TANDEM_CTS_DEVICE names a device with memory of its own";
  auto session = start(copying({}, {4}, {}));
  EXPECT_FALSE(session->isDirectArgument(0) || session->isDirectResult(0));
}

} // namespace
} // namespace tandem::rt::cts
