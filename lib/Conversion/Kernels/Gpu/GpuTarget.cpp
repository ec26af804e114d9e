//===- GpuTarget.cpp - kernels of GPUs ------------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Gpu/GpuTarget.h"
#include "Codegen/LowerToLLVM.h"
#include "Gpu/GpuCode.h"
#include "Gpu/GpuKernel.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "tandem/Conversion/Kernels/Cache.h"

using namespace mlir;
using namespace tandem;

bool tandem::addsUpInThreads(Operation *op, const Gpu &gpu) {
  if (!hasReduction(op))
    return false;
  auto generic = cast<linalg::GenericOp>(op);
  if (generic.getIteratorTypesArray().back() == utils::IteratorType::reduction)
    return false;
  int64_t bytes = 0;
  for (Value result : op->getResults())
    bytes += getStoredBytes(cast<RankedTensorType>(result.getType()));
  return bytes > kMaxPartialBytes / gpu.maxPartialBlocks;
}

bool GpuTarget::needsOwnNest(Operation *op) const {
  return addsUpInThreads(op, gpu);
}

std::unique_ptr<KernelEmitter>
GpuTarget::createEmitter(func::FuncOp kernel, ModuleOp module,
                         StringRef symbol) const {
  return std::make_unique<GpuKernelEmitter>(*this, kernel, module, symbol);
}

KernelParts GpuTarget::emitCalls(ArrayRef<KernelCall> calls,
                                 const llvm::StringMap<func::FuncOp> &kernels,
                                 ModuleOp module, StringRef symbol) const {
  return emitGpuCalls(*this, calls, kernels, module, symbol);
}

void GpuTarget::prepareMath(ModuleOp module) const { writeOutGpuMath(module); }

namespace {
/// PTX for an architecture, joined as text.
class PtxTarget final : public GpuTarget {
public:
  using GpuTarget::GpuTarget;

  CodeFormat getFormat() const override {
    return {rt::CodeKind::Ptx, kPtxTriple.str(), std::string(gpu.architecture),
            ""};
  }
  std::optional<std::string> generate(ModuleOp module,
                                      std::string &error) const override {
    return generatePtx(module, gpu.architecture, error);
  }
  std::optional<std::string> link(ArrayRef<std::string> paths,
                                  std::string &error) const override {
    std::vector<std::string> texts;
    for (const std::string &path : paths) {
      std::optional<std::string> text = readObject(path);
      if (!text) {
        error = "cannot read " + path;
        return std::nullopt;
      }
      texts.push_back(std::move(*text));
    }
    return joinPtx(texts);
  }
};

/// Code of the host that stands for a GPU's.
class EmulatedTarget final : public GpuTarget {
public:
  using GpuTarget::GpuTarget;

  CodeFormat getFormat() const override {
    return {rt::CodeKind::SharedObject, "", std::string(gpu.architecture),
            HostTarget::get().features};
  }
  std::optional<std::string> generate(ModuleOp module,
                                      std::string &error) const override {
    return generateEmulated(module, error);
  }
  std::optional<std::string> link(ArrayRef<std::string> paths,
                                  std::string &error) const override {
    return linkObjects(paths, error);
  }
};
} // namespace

void tandem::registerGpuDialects(DialectRegistry &registry) {
  registry.insert<NVVM::NVVMDialect>();
}

std::unique_ptr<KernelTarget> tandem::createGpuTarget(const Device &device) {
  const Gpu *gpu = findGpu(device);
  if (!gpu)
    return nullptr;
  if (gpu->isEmulated())
    return std::make_unique<EmulatedTarget>(device, *gpu);
  return std::make_unique<PtxTarget>(device, *gpu);
}
