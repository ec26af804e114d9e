//===- GenerateGpuCode.cpp - PTX, and code of the emulated GPU ------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Codegen/LowerToLLVM.h"
#include "Gpu/GpuCode.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/Internalize.h"
#include <mutex>

using namespace mlir;
using namespace tandem;

static std::unique_ptr<llvm::TargetMachine> createMachine(StringRef cpu,
                                                          std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple(kPtxTriple);
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, cpu, "", llvm::TargetOptions(), std::nullopt, std::nullopt,
      llvm::CodeGenOptLevel::Default));
  if (!machine)
    error = "no code generator for " + cpu.str();
  return machine;
}

//===----------------------------------------------------------------------===//
// Functions of the C library
//===----------------------------------------------------------------------===//

/// What the back end has no instruction for, by the C library's name.
static StringRef getFunctionName(llvm::Intrinsic::ID id) {
  switch (id) {
  case llvm::Intrinsic::sin:
    return "sin";
  case llvm::Intrinsic::cos:
    return "cos";
  case llvm::Intrinsic::tan:
    return "tan";
  case llvm::Intrinsic::exp:
    return "exp";
  case llvm::Intrinsic::exp2:
    return "exp2";
  case llvm::Intrinsic::log:
    return "log";
  case llvm::Intrinsic::log2:
    return "log2";
  case llvm::Intrinsic::log10:
    return "log10";
  case llvm::Intrinsic::pow:
    return "pow";
  case llvm::Intrinsic::acos:
    return "acos";
  case llvm::Intrinsic::asin:
    return "asin";
  case llvm::Intrinsic::atan:
    return "atan";
  case llvm::Intrinsic::atan2:
    return "atan2";
  case llvm::Intrinsic::cosh:
    return "cosh";
  case llvm::Intrinsic::sinh:
    return "sinh";
  case llvm::Intrinsic::tanh:
    return "tanh";
  default:
    return "";
  }
}

constexpr llvm::StringLiteral kLibdevicePrefix = "__nv_";

/// Calls `__nv_sinf` for `llvm.sin.f32` and `sinf`.
static void callLibdevice(llvm::Module &module) {
  for (llvm::Function &function : llvm::make_early_inc_range(module)) {
    // Those that are made here come behind.
    if (!function.isDeclaration() || function.use_empty() ||
        function.getName().starts_with(kLibdevicePrefix))
      continue;
    std::string name = function.getName().str();
    if (function.isIntrinsic()) {
      StringRef known = getFunctionName(function.getIntrinsicID());
      if (known.empty())
        continue;
      name = known.str();
      if (function.getReturnType()->isFloatTy())
        name += "f";
    }
    llvm::FunctionCallee callee = module.getOrInsertFunction(
        (kLibdevicePrefix + name).str(), function.getFunctionType());
    for (llvm::User *user : llvm::make_early_inc_range(function.users()))
      if (auto *call = llvm::dyn_cast<llvm::CallInst>(user))
        call->setCalledFunction(callee);
    function.eraseFromParent();
  }
}

/// That of the CUDA toolkit; a variable names another one, or none.
static std::string findLibdevice() {
  if (const char *path = std::getenv("TANDEM_LIBDEVICE"))
    return llvm::sys::fs::exists(path) ? path : "";
  std::vector<std::string> folders = {"/usr/local/cuda", "/opt/cuda"};
  for (const char *name : {"CUDA_PATH", "CUDA_HOME"})
    if (const char *folder = std::getenv(name))
      folders.insert(folders.begin(), folder);
  for (const std::string &folder : folders) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, "nvvm", "libdevice", "libdevice.10.bc");
    if (llvm::sys::fs::exists(path))
      return std::string(path);
  }
  return "";
}

static bool linkLibdevice(llvm::Module &module, std::string &error) {
  callLibdevice(module);
  std::string needed;
  for (llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        !function.use_empty())
      needed = function.getName().str();
  if (needed.empty())
    return true;
  std::string path = findLibdevice();
  if (path.empty()) {
    error = "the kernel calls " + needed +
            ", which is of libdevice, expected the CUDA toolkit at "
            "/usr/local/cuda, or where CUDA_HOME says, or "
            "libdevice.10.bc where TANDEM_LIBDEVICE says";
    return false;
  }
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> library =
      llvm::parseIRFile(path, diagnostic, module.getContext());
  if (!library) {
    error = path + ": " + diagnostic.getMessage().str();
    return false;
  }
  library->setTargetTriple(module.getTargetTriple());
  library->setDataLayout(module.getDataLayout());
  auto internalize = [](llvm::Module &linked, const llvm::StringSet<> &names) {
    llvm::internalizeModule(linked, [&](const llvm::GlobalValue &value) {
      return !value.hasName() || !names.contains(value.getName());
    });
  };
  if (llvm::Linker::linkModules(module, std::move(library),
                                llvm::Linker::LinkOnlyNeeded, internalize)) {
    error = path + " cannot be linked";
    return false;
  }
  module.addModuleFlag(llvm::Module::Override, "nvvm-reflect-ftz", 0u);
  for (llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        function.getName().starts_with(kLibdevicePrefix) &&
        !function.use_empty()) {
      error = "the kernel calls " + function.getName().str() + ", which " +
              path + " does not have";
      return false;
    }
  return true;
}

/// What is a module's own has no name in common with other kernels'.
static void nameLocals(llvm::Module &module) {
  std::string prefix;
  for (llvm::Function &function : module)
    if (function.getCallingConv() == llvm::CallingConv::PTX_Kernel)
      prefix = function.getName().str() + "_";
  for (llvm::GlobalValue &value : module.global_values())
    if (value.hasLocalLinkage() && !value.getName().starts_with("tandem_"))
      value.setName(prefix + value.getName());
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

std::optional<std::string> tandem::generatePtx(ModuleOp module,
                                               StringRef architecture,
                                               std::string &error) {
  registerNVVMDialectTranslation(*module.getContext());
  auto finish = [&](llvm::Module &code, llvm::TargetMachine &machine) {
    if (!linkLibdevice(code, error))
      return false;
    optimize(code, machine);
    nameLocals(code);
    return true;
  };
  return generateCode(createMachine(architecture, error), module,
                      llvm::CodeGenFileType::AssemblyFile, finish, error);
}

/// The lines that say version, target and width of addresses come first, once.
std::string tandem::joinPtx(llvm::ArrayRef<std::string> texts) {
  std::string joined;
  for (StringRef text : texts) {
    constexpr StringRef kLast = ".address_size 64";
    size_t end = text.find(kLast);
    if (!joined.empty() && end != StringRef::npos)
      text = text.drop_front(end + kLast.size());
    joined += text.str();
  }
  return joined;
}

std::optional<std::string> tandem::generateEmulated(ModuleOp module,
                                                    std::string &error) {
  registerNVVMDialectTranslation(*module.getContext());
  auto finish = [](llvm::Module &code, llvm::TargetMachine &machine) {
    simplify(code, machine);
    emulateKernels(code);
    setHostFeatures(code, machine);
    return true;
  };
  return generateCode(createHostMachine(error), module,
                      llvm::CodeGenFileType::ObjectFile, finish, error);
}
