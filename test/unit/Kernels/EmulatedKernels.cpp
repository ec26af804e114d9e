//===- EmulatedKernels.cpp - kernels on the emulated GPU ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "tandem_rt/kernel.h"
#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <map>

using namespace mlir;
using namespace tandem;
using namespace tandem::test;
using namespace tandem::rt::cuda;

bool EmulatedKernels::areWanted() {
  const char *device = std::getenv("TANDEM_TEST_DEVICE");
  return device && StringRef(device) == "cuda";
}

void EmulatedKernels::prepare(ModuleOp module) {
  module.getContext()->loadDialect<sched::SchedDialect>();
  (void)sched::setDevice(module, "cuda.emulated");
}

EmulatedKernels::EmulatedKernels(const CompiledKernels &compiled,
                                 std::string &error) {
  const char *folder = std::getenv("TANDEM_CUDA_LIBRARIES");
  std::string path = std::string(folder ? folder : ".") + "/libcuda.so.1";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    error = dlerror();
    return;
  }
#define TANDEM_FIND(symbol, name, parameters)                                  \
  driver.name =                                                                \
      reinterpret_cast<decltype(driver.name)>(dlsym(library, #symbol));
  TANDEM_CUDA_DRIVER(TANDEM_FIND)
  auto find = [&](auto &function, const char *symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        dlsym(library, symbol));
  };
  find(mistakes.list, "tandemListMistakes");
  find(mistakes.count, "tandemCountMistakes");
  find(mistakes.plant, "tandemPlantMistake");
  find(mistakes.name, "tandemNameMistake");
  CUcontext context = nullptr;
  driver.primaryContextRetain(&context, 0);
  driver.contextSetCurrent(context);
  if (driver.moduleLoadData(&module, compiled.object.data()) != kSuccess)
    error = "the emulated GPU does not load the kernels";
}

void EmulatedKernels::expect(int result, const char *what) {
  const char *text = "";
  driver.getErrorString(result, &text);
  if (result != kSuccess && refusal.empty())
    refusal = std::string(what) + ": " + text;
}

CUdeviceptr EmulatedKernels::allocate(int64_t bytes) {
  CUdeviceptr address = 0;
  expect(driver.memAlloc(&address, std::max<int64_t>(bytes, 1)), "allocate");
  return address;
}

std::string EmulatedKernels::run(const CompiledKernel &kernel,
                                 ArrayRef<llvm::MutableArrayRef<char>> buffers,
                                 ArrayRef<int64_t> scalars,
                                 std::string &report) {
  refusal.clear();
  std::vector<CUdeviceptr> addresses;
  std::map<const char *, CUdeviceptr> known;
  for (llvm::MutableArrayRef<char> buffer : buffers) {
    auto [place, isNew] = known.try_emplace(buffer.data());
    if (isNew)
      place->second = allocate(buffer.size() + shift) + shift;
    addresses.push_back(place->second);
    expect(driver.memcpyHtoD(addresses.back(), buffer.data(), buffer.size()),
           "copy to the device");
  }
  CUdeviceptr scratch = allocate(kernel.scratchBytes);
  addresses.push_back(scratch);
  tandem_rt_launch_report reported = {};
  CUdeviceptr reportAddress = allocate(sizeof reported);
  expect(driver.memcpyHtoD(reportAddress, &reported, sizeof reported),
         "copy to the device");
  for (const KernelPart &part : kernel.parts) {
    std::vector<uint64_t> parameters;
    for (unsigned number : part.reads)
      parameters.push_back(addresses[number]);
    for (unsigned number : part.writes)
      parameters.push_back(addresses[number]);
    parameters.insert(parameters.end(), scalars.begin(), scalars.end());
    parameters.insert(parameters.end(), {reportAddress, 1});
    CUfunction function = nullptr;
    expect(driver.moduleGetFunction(&function, module, part.symbol.c_str()),
           "find a part");
    size_t bytes = parameters.size() * sizeof(uint64_t);
    void *extra[] = {kBufferPointer, parameters.data(), kBufferSize, &bytes,
                     kEnd};
    const auto &[grid, block, shared] = part.geometry;
    expect(driver.launchKernel(function, std::min(grid[0], maxBlocks), grid[1],
                               grid[2], block[0], block[1], block[2], shared,
                               nullptr, nullptr, extra),
           "launch a part");
  }
  expect(driver.contextSynchronize(), "run the kernel");
  for (auto [buffer, address] : llvm::zip(buffers, addresses))
    expect(driver.memcpyDtoH(buffer.data(), address, buffer.size()),
           "copy from the device");
  expect(driver.memcpyDtoH(&reported, reportAddress, sizeof reported),
         "copy from the device");
  if (reported.launch)
    report = "site " + std::to_string(reported.site) + ": " +
             std::to_string(reported.index) + " of " +
             std::to_string(reported.bound);
  for (const auto &[begin, address] : known)
    expect(driver.memFree(address - shift), "free");
  expect(driver.memFree(scratch), "free");
  expect(driver.memFree(reportAddress), "free");
  return refusal;
}
