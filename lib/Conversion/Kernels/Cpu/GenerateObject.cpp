//===- GenerateObject.cpp - code for this machine's CPU -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/LowerToLLVM.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include <mutex>

using namespace mlir;
using namespace tandem;

/// What kernels gain from. A Program needs what its code was made with, and the
/// runtime asks the operating system for it: features that only a CPU newer
/// than the system has must not be among them.
constexpr llvm::StringLiteral kKernelFeatures[] = {
    "avx",      "avx2",       "avx512bf16", "avx512bw",   "avx512cd",
    "avx512dq", "avx512f",    "avx512fp16", "avx512vbmi", "avx512vbmi2",
    "avx512vl", "avx512vnni", "bmi",        "bmi2",       "f16c",
    "fma",      "lzcnt",      "popcnt",     "sse3",       "sse4.1",
    "sse4.2",   "ssse3",
};

const HostTarget &HostTarget::get() {
  static const HostTarget host = [] {
    HostTarget target;
    target.cpu = llvm::sys::getHostCPUName().str();
    llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
    std::vector<std::string> enabled;
    for (llvm::StringRef feature : kKernelFeatures)
      if (features.lookup(feature))
        enabled.push_back("+" + feature.str());
    target.features = llvm::join(enabled, ",");
    return target;
  }();
  return host;
}

/// A CPU that has nothing but what all of its kind have.
static llvm::StringRef getBaseline(const llvm::Triple &triple) {
  return triple.getArch() == llvm::Triple::x86_64 ? "x86-64" : "generic";
}

static const llvm::Target *getTarget(const llvm::Triple &triple,
                                     std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  return llvm::TargetRegistry::lookupTarget(triple, error);
}

std::unique_ptr<llvm::TargetMachine>
tandem::createHostMachine(std::string &error) {
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  const llvm::Target *target = getTarget(triple, error);
  if (!target)
    return nullptr;
  const HostTarget &host = HostTarget::get();
  llvm::TargetOptions options;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, getBaseline(triple), host.features, options, llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine)
    error = "no code generator for " + triple.str();
  return machine;
}

namespace {
/// The analyses that passes need, and who knows them.
struct PassTools {
  PassTools(llvm::TargetMachine &machine,
            const llvm::PipelineTuningOptions &tuning)
      : builder(&machine, tuning) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
  }

  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
};
} // namespace

void tandem::optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = false;
  PassTools tools(machine, tuning);
  tools.builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, tools.modules);
}

void tandem::simplify(llvm::Module &module, llvm::TargetMachine &machine) {
  PassTools tools(machine, {});
  llvm::ModulePassManager passes;
  llvm::cantFail(tools.builder.parsePassPipeline(
      passes,
      "always-inline,function(sroa,early-cse,instcombine<no-verify-fixpoint>,"
      "simplifycfg,loop-mssa(licm),gvn,"
      "instcombine<no-verify-fixpoint>,simplifycfg)"));
  passes.run(module, tools.modules);
}

/// A module in the llvm dialect as LLVM IR for `machine`; null with `error`.
static std::unique_ptr<llvm::Module>
translateFor(const llvm::TargetMachine &machine, ModuleOp module,
             llvm::LLVMContext &context, std::string &error) {
  std::unique_ptr<llvm::Module> code =
      translateModuleToLLVMIR(module, context, "kernel");
  if (!code) {
    error = "the kernel cannot be translated to LLVM IR";
    return nullptr;
  }
  code->setDataLayout(machine.createDataLayout());
  code->setTargetTriple(machine.getTargetTriple());
  return code;
}

void tandem::setHostFeatures(llvm::Module &module,
                             llvm::TargetMachine &machine) {
  const HostTarget &host = HostTarget::get();
  for (llvm::Function &function : module) {
    function.addFnAttr("target-cpu", getBaseline(machine.getTargetTriple()));
    function.addFnAttr("tune-cpu", host.cpu);
    function.addFnAttr("target-features", host.features);
  }
}

static std::optional<std::string> emitCode(llvm::Module &module,
                                           llvm::TargetMachine &machine,
                                           llvm::CodeGenFileType type,
                                           std::string &error) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) {
    error = "the code generator writes no such files";
    return std::nullopt;
  }
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

std::optional<std::string> tandem::generateCode(
    std::unique_ptr<llvm::TargetMachine> machine, ModuleOp module,
    llvm::CodeGenFileType type,
    llvm::function_ref<bool(llvm::Module &, llvm::TargetMachine &)> finish,
    std::string &error) {
  if (!machine)
    return std::nullopt;
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code =
      translateFor(*machine, module, context, error);
  if (!code || !finish(*code, *machine))
    return std::nullopt;
  return emitCode(*code, *machine, type, error);
}

std::optional<std::string> tandem::generateObject(ModuleOp module,
                                                  unsigned vectorBits,
                                                  std::string &error) {
  auto finish = [&](llvm::Module &code, llvm::TargetMachine &machine) {
    setHostFeatures(code, machine);
    for (llvm::Function &function : code)
      function.addFnAttr("prefer-vector-width", std::to_string(vectorBits));
    optimize(code, machine);
    return true;
  };
  return generateCode(createHostMachine(error), module,
                      llvm::CodeGenFileType::ObjectFile, finish, error);
}
