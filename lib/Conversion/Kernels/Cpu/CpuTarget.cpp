//===- CpuTarget.cpp - kernels of a host's CPU ----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/LowerToLLVM.h"
#include "Cpu/CpuKernel.h"
#include "Target.h"

using namespace mlir;
using namespace tandem;

namespace {
/// Kernels are functions that threads call (`CpuKernelEmitter`). A kernel of
/// calls is linked with what it calls.
class CpuTarget final : public KernelTarget {
public:
  using KernelTarget::KernelTarget;

  std::unique_ptr<KernelEmitter>
  createEmitter(func::FuncOp kernel, ModuleOp module,
                StringRef symbol) const override {
    return std::make_unique<CpuKernelEmitter>(*this, kernel, module, symbol);
  }
  KernelParts emitCalls(ArrayRef<KernelCall> calls,
                        const llvm::StringMap<func::FuncOp> &kernels,
                        ModuleOp module, StringRef symbol) const override {
    emitCpuCalls(calls, module, symbol);
    return {};
  }
  CodeFormat getFormat() const override {
    const HostTarget &host = HostTarget::get();
    return {rt::CodeKind::SharedObject, "", host.cpu, host.features};
  }
  std::optional<std::string> generate(ModuleOp module,
                                      std::string &error) const override {
    return generateObject(module, device.kernels.vectorBits, error);
  }
  std::optional<std::string> link(ArrayRef<std::string> paths,
                                  std::string &error) const override {
    return linkObjects(paths, error);
  }
};
} // namespace

std::unique_ptr<KernelTarget> tandem::createCpuTarget(const Device &device) {
  if (device.getValueSpace().kind != rt::MemoryKind::Host)
    return nullptr;
  return std::make_unique<CpuTarget>(device);
}
