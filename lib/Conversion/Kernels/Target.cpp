//===- Target.cpp - targets by device -------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target.h"
#include "llvm/Support/ErrorHandling.h"
#include <map>
#include <mutex>

using namespace tandem;

namespace {
/// What a folder defines.
struct TargetKind {
  std::unique_ptr<KernelTarget> (*create)(const Device &);
  /// Null without dialects of its own.
  void (*registerDialects)(mlir::DialectRegistry &) = nullptr;
};
} // namespace

constexpr TargetKind kKinds[] = {{createCpuTarget},
                                 {createGpuTarget, registerGpuDialects}};

static std::unique_ptr<KernelTarget> createTarget(const Device &device) {
  for (const TargetKind &kind : kKinds)
    if (std::unique_ptr<KernelTarget> target = kind.create(device))
      return target;
  llvm::report_fatal_error("no folder of lib/Conversion/Kernels has code for "
                           "a device that lib/Device describes");
}

const KernelTarget &tandem::getKernelTarget(const Device &device) {
  static std::map<const Device *, std::unique_ptr<KernelTarget>> targets;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<KernelTarget> &target = targets[&device];
  if (!target)
    target = createTarget(device);
  return *target;
}

void tandem::registerTargetDialects(mlir::DialectRegistry &registry) {
  for (const TargetKind &kind : kKinds)
    if (kind.registerDialects)
      kind.registerDialects(registry);
}
