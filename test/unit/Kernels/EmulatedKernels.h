//===- EmulatedKernels.h - kernels on the emulated GPU ----------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_KERNELS_EMULATEDKERNELS_H
#define TANDEM_TEST_UNIT_KERNELS_EMULATEDKERNELS_H

#include "cuda/driver/api.h"
#include "tandem/Conversion/Kernels/Kernels.h"

namespace tandem::test {

/// Runs compiled kernels on the GPU that TANDEM_CUDA_LIBRARIES names: each
/// buffer is an allocation of its own, so that no access passes its end.
class EmulatedKernels {
public:
  /// Whether TANDEM_TEST_DEVICE is `cuda`.
  static bool areWanted();
  /// Lets a module be compiled for it.
  static void prepare(mlir::ModuleOp module);

  EmulatedKernels(const CompiledKernels &compiled, std::string &error);

  /// `buffers` are the inputs, then the outputs; those of equal begin are one.
  /// What the GPU refuses; empty if nothing.
  std::string run(const CompiledKernel &kernel,
                  llvm::ArrayRef<llvm::MutableArrayRef<char>> buffers,
                  llvm::ArrayRef<int64_t> scalars, std::string &report);

  /// Mistakes in what kernels ask for (emulator/mistakes.cpp).
  struct Mistakes {
    void (*list)() = nullptr;
    int64_t (*count)() = nullptr;
    void (*plant)(int64_t number) = nullptr;
    const char *(*name)(int64_t number) = nullptr;
  };
  const Mistakes &getMistakes() const { return mistakes; }
  /// Launches have fewer blocks from now on, each of which goes over more rows:
  /// not for kernels whose blocks leave sums each.
  void limitBlocks(uint32_t number) { maxBlocks = number; }
  /// Buffers begin so many bytes behind a multiple of 16 from now on, where
  /// kernels read and write single elements.
  void shiftBuffers(uint64_t bytes) { shift = bytes; }

private:
  void expect(int result, const char *what);
  rt::cuda::CUdeviceptr allocate(int64_t bytes);

  rt::cuda::Driver driver = {};
  Mistakes mistakes;
  uint32_t maxBlocks = UINT32_MAX;
  uint64_t shift = 0;
  std::string refusal; ///< Of the present run.
  rt::cuda::CUmodule module = nullptr;
};

} // namespace tandem::test

#endif // TANDEM_TEST_UNIT_KERNELS_EMULATEDKERNELS_H
