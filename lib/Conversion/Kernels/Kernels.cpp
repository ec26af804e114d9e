//===- Kernels.cpp - code of fused kernels --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/Kernels/Kernels.h"
#include "Codegen/LowerToLLVM.h"
#include "Nest/KernelEmitter.h"
#include "Target.h"
#include "Version.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "tandem/Conversion/Kernels/Cache.h"
#include "tandem/Conversion/Kernels/Passes.h"
#include "tandem/Conversion/NNToLinalg/NNToLinalg.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include "tandem/Dialect/Sched/Sched.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Threading.h"
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

using namespace mlir;
using namespace tandem;

std::vector<std::string> tandem::getKernelAxes(func::FuncOp kernel) {
  std::vector<std::string> axes;
  auto add = [&](StringRef axis) {
    if (!llvm::is_contained(axes, axis))
      axes.push_back(axis.str());
  };
  kernel.walk([&](Operation *op) {
    if (auto coordinate = dyn_cast<spmd::CoordinateOp>(op))
      add(coordinate.getAxis());
    if (!isa<spmd::LocalSliceOp, spmd::KeepFirstOp>(op))
      return;
    for (auto axis :
         op->getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>())
      add(axis.getValue());
  });
  // The order must not depend on how far the kernel has been lowered.
  llvm::sort(axes);
  return axes;
}

void tandem::registerKernelDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect,
                  linalg::LinalgDialect, LLVM::LLVMDialect, math::MathDialect,
                  scf::SCFDialect, tensor::TensorDialect>();
  registerTargetDialects(registry);
}

//===----------------------------------------------------------------------===//
// One kernel
//===----------------------------------------------------------------------===//

/// What decides a kernel's code, one operator per line: the function without
/// name, locations and discardable attributes, in a module with the mesh. Takes
/// out the ordinals, so that kernels that draw alike have the same text.
static std::string getText(func::FuncOp kernel,
                           std::vector<int64_t> &ordinals) {
  MLIRContext *context = kernel.getContext();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  auto parent = kernel->getParentOfType<ModuleOp>();
  auto inherit = [&](StringRef name) {
    if (Attribute attr = parent ? parent->getAttr(name) : Attribute())
      (*module)->setAttr(name, attr);
  };
  inherit(sched::kDeviceAttrName);
  if (!getKernelAxes(kernel).empty())
    inherit(spmd::kMeshAttrName);
  auto clone = cast<func::FuncOp>(kernel->clone());
  module->push_back(clone);
  clone.setName("kernel");
  clone.setPublic();
  ordinals = numberOrdinals(clone);
  clone->setDiscardableAttrs(ArrayRef<NamedAttribute>());
  clone.removeArgAttrsAttr();
  clone.removeResAttrsAttr();
  for (Operation &op : clone.front())
    op.setDiscardableAttrs(ArrayRef<NamedAttribute>());
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(
      stream, OpPrintingFlags().enableDebugInfo(false).elideLargeElementsAttrs(
                  INT64_MAX));
  return text;
}

namespace {

/// The code of one kernel, and how it is launched.
struct KernelCode {
  std::string object;
  KernelParts parts;
};

/// A context of its own, so that kernels can be compiled on several threads and
/// inside a pass.
class Worker {
public:
  Worker() : context(getRegistry(), MLIRContext::Threading::DISABLED) {
    context.loadAllAvailableDialects();
  }

  /// The object of the kernel with this text. On failure the first error, and
  /// the line of the text that it is about.
  std::optional<KernelCode> compile(const KernelTarget &target, StringRef text,
                                    StringRef symbol, std::string &error,
                                    unsigned &line) {
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      if (!error.empty())
        return;
      error = diagnostic.str();
      if (auto place = dyn_cast<FileLineColLoc>(diagnostic.getLocation()))
        line = place.getLine();
    });
    OwningOpRef<ModuleOp> source = toLinalg(text);
    if (!source)
      return std::nullopt;
    auto kernel = source->lookupSymbol<func::FuncOp>("kernel");
    OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
    auto emitter = target.createEmitter(kernel, *module, symbol);
    emitter->emit();
    return finish(target, *module, emitter->takeParts(), error);
  }

  /// That of a kernel that calls others. `texts` has those whose code it holds,
  /// by symbol.
  std::optional<KernelCode>
  compile(const KernelTarget &target, ArrayRef<KernelCall> calls,
          const std::map<std::string, std::string> &texts, StringRef symbol,
          std::string &error) {
    std::vector<OwningOpRef<ModuleOp>> sources;
    llvm::StringMap<func::FuncOp> kernels;
    for (const auto &[callee, text] : texts) {
      sources.push_back(toLinalg(text));
      if (!sources.back())
        return std::nullopt;
      kernels[callee] = sources.back()->lookupSymbol<func::FuncOp>("kernel");
    }
    OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
    KernelParts parts = target.emitCalls(calls, kernels, *module, symbol);
    return finish(target, *module, std::move(parts), error);
  }

private:
  /// A module with the function `kernel`; null after an error.
  OwningOpRef<ModuleOp> toLinalg(StringRef text) {
    OwningOpRef<ModuleOp> source = parseSourceString<ModuleOp>(text, &context);
    if (!source)
      return nullptr;
    auto kernel = *source->getOps<func::FuncOp>().begin();
    decomposeNN(kernel);
    if (failed(convertNNToLinalg(kernel)))
      return nullptr;
    return source;
  }

  /// The code of loops.
  static std::optional<KernelCode> finish(const KernelTarget &target,
                                          ModuleOp module, KernelParts parts,
                                          std::string &error) {
    setFastMath(module);
    target.prepareMath(module);
    if (failed(approximateMath(module)) || failed(lowerToLLVM(module)))
      return std::nullopt;
    std::optional<std::string> object = target.generate(module, error);
    if (!object)
      return std::nullopt;
    return KernelCode{std::move(*object), std::move(parts)};
  }

  static DialectRegistry getRegistry() {
    DialectRegistry registry;
    registerKernelDialects(registry);
    registry.insert<func::FuncDialect, nn::NNDialect, spmd::SPMDDialect,
                    sched::SchedDialect>();
    registerBuiltinDialectTranslation(registry);
    registerLLVMDialectTranslation(registry);
    return registry;
  }
  MLIRContext context;
};

/// A kernel that several functions may share.
struct Job {
  func::FuncOp function; ///< the first one
  const KernelTarget *target;
  std::string text, symbol, path, error;
  std::vector<KernelCall> calls; ///< in place of operators
  /// What the calls call, if the code holds it: texts by symbol.
  std::map<std::string, std::string> callees;
  KernelParts parts;
  unsigned line = 0;
  bool isCached = false, isTemporary = false;

  /// Whether its code rests on what that of other kernels needs.
  bool isBehindOthers() const {
    return !calls.empty() && !target->holdsCallees();
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// All kernels
//===----------------------------------------------------------------------===//

/// Behind the object's hash: how it is launched.
static std::string getPartsName(const Job &job) {
  return job.symbol + "-parts";
}

static bool storeParts(const Job &job, const FileCache &cache) {
  return job.isBehindOthers() ||
         cache.store(getPartsName(job), printParts(job.parts));
}

static bool lookup(Job &job, const FileCache &cache) {
  auto path = cache.lookup(job.symbol);
  if (!path)
    return false;
  if (!job.isBehindOthers()) {
    auto partsPath = cache.lookup(getPartsName(job));
    auto text = partsPath ? readObject(*partsPath) : std::nullopt;
    if (!text || !parseParts(*text, job.parts))
      return false;
  }
  job.path = *path;
  return job.isCached = true;
}

static std::optional<KernelCode> compile(Job &job, Worker &worker) {
  if (job.calls.empty())
    return worker.compile(*job.target, job.text, job.symbol, job.error,
                          job.line);
  return worker.compile(*job.target, job.calls, job.callees, job.symbol,
                        job.error);
}

static void compileJob(Job &job, Worker &worker, const FileCache &cache,
                       bool useCache) {
  if (useCache && lookup(job, cache))
    return;
  std::optional<KernelCode> code = compile(job, worker);
  if (!code) {
    if (job.error.empty())
      job.error = "the kernel cannot be compiled";
    return;
  }
  if (!job.isBehindOthers())
    job.parts = std::move(code->parts);
  std::optional<std::string> path;
  if (useCache && storeParts(job, cache))
    path = cache.store(job.symbol, code->object);
  if (!path) {
    path = writeTemporaryObject(code->object);
    job.isTemporary = true;
  }
  if (path)
    job.path = *path;
  else
    job.error = "the kernel's code cannot be written to a file";
}

static size_t countThreads(const KernelOptions &options, size_t numJobs) {
  size_t cores = options.threads;
  if (cores == 0)
    // Those of the process' affinity.
    cores = llvm::hardware_concurrency().compute_thread_count();
  return std::min(cores, numJobs);
}

/// Those from `first` to `end`, which have nothing in common, so that their
/// results do not depend on who does which. False if it was told to end before
/// all were done.
static bool compileJobs(std::vector<Job> &jobs, size_t first, size_t end,
                        const KernelOptions &options) {
  FileCache cache(options.cacheDir.empty() ? getDefaultCacheDirectory()
                                           : options.cacheDir,
                  ".o");
  std::atomic<size_t> next = first, done = first;
  std::atomic<bool> ends = false;
  auto work = [&](bool tells) {
    Worker worker;
    for (size_t index; !ends && (index = next++) < end; ++done) {
      if (tells && options.progress && !options.progress(done, jobs.size()))
        ends = true;
      else
        compileJob(jobs[index], worker, cache, options.useCache);
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1, count = countThreads(options, end - first); i < count; ++i)
    threads.emplace_back(work, /*tells=*/false);
  if (first < end)
    work(/*tells=*/true);
  for (std::thread &thread : threads)
    thread.join();
  return !ends;
}

/// Moves those that rest on others behind all that do not, each in their order.
/// How many do not.
static size_t moveToEnd(std::vector<Job> &jobs) {
  std::vector<Job> first, behind;
  for (Job &job : jobs)
    (job.isBehindOthers() ? behind : first).push_back(std::move(job));
  size_t numFirst = first.size();
  std::move(behind.begin(), behind.end(), std::back_inserter(first));
  jobs = std::move(first);
  return numFirst;
}

/// First those that rest on no other; then it is known what these need.
static bool compileJobs(std::vector<Job> &jobs, const KernelOptions &options) {
  size_t numFirst = moveToEnd(jobs);
  if (!compileJobs(jobs, 0, numFirst, options))
    return false;
  llvm::StringMap<int64_t> scratchOf;
  for (Job &job : jobs) {
    for (KernelCall &call : job.calls) {
      int64_t bytes = scratchOf.lookup(call.symbol);
      call.hasScratch = bytes > 0;
      job.parts.scratchBytes = std::max(job.parts.scratchBytes, bytes);
    }
    scratchOf[job.symbol] = job.parts.scratchBytes;
  }
  return compileJobs(jobs, numFirst, jobs.size(), options);
}

/// Reports at the operator, which stands on a line of its own behind those of
/// the module and of the function.
static void reportError(Job &job) {
  constexpr unsigned kFirstLine = 3;
  Operation *place = job.function;
  if (job.line >= kFirstLine) {
    auto at = job.function.front().begin();
    for (unsigned i = kFirstLine; i < job.line; ++i)
      if (std::next(at) != job.function.front().end())
        ++at;
    place = &*at;
  }
  emitError(place->getLoc()) << job.error;
}

/// Adds the kernel of `function` to `kernels`. `texts` has those before by
/// symbol.
static FailureOr<Job> makeJob(const KernelTarget &target, func::FuncOp function,
                              llvm::StringMap<CompiledKernel> &kernels,
                              llvm::StringMap<std::string> &texts) {
  const HostTarget &host = HostTarget::get();
  auto calls = getKernelCalls(function, kernels);
  if (failed(calls))
    return failure();
  Job job;
  job.function = function;
  job.target = &target;
  job.calls = std::move(*calls);
  CompiledKernel kernel;
  job.text = job.calls.empty() ? ::getText(function, kernel.ordinals)
                               : printCalls(job.calls);
  job.symbol =
      "tandem_" + hashText({job.text, host.cpu, host.features, kKernelVersion});
  texts[job.symbol] = job.text;
  if (target.holdsCallees())
    for (const KernelCall &call : job.calls)
      job.callees[call.symbol] = texts.at(call.symbol);
  kernel.symbol = job.symbol;
  kernel.axes = getKernelAxes(function);
  kernels[function.getName()] = std::move(kernel);
  return job;
}

std::string tandem::describeHostTarget() {
  const HostTarget &host = HostTarget::get();
  return host.cpu + " " + host.features;
}

int64_t tandem::getMaxBuffers(const Device &device) {
  return getKernelTarget(device).getMaxBuffers();
}

/// Kernels that others call, and nobody else.
static llvm::StringSet<> findOnlyCalled(ModuleOp module,
                                        const llvm::StringSet<> &launched) {
  llvm::StringSet<> called;
  module.walk([&](func::CallOp call) {
    if (!launched.contains(call.getCallee()))
      called.insert(call.getCallee());
  });
  return called;
}

FailureOr<CompiledKernels>
tandem::compileKernels(ModuleOp module, const KernelOptions &options) {
  const KernelTarget &target = getKernelTarget(sched::getDevice(module));
  CompiledKernels result;
  CodeFormat format = target.getFormat();
  result.kind = format.kind;
  result.triple = format.triple;
  result.cpu = format.cpu;
  result.features = format.features;
  std::vector<Job> jobs;
  llvm::StringSet<> known;
  llvm::StringMap<std::string> texts;
  llvm::StringSet<> withoutCode = target.holdsCallees()
                                      ? findOnlyCalled(module, options.launched)
                                      : llvm::StringSet<>();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    auto job = makeJob(target, function, result.kernels, texts);
    if (mlir::failed(job))
      return failure();
    if (!withoutCode.contains(function.getName()) &&
        known.insert(job->symbol).second)
      jobs.push_back(std::move(*job));
  }
  bool isDone = compileJobs(jobs, options);

  std::vector<std::string> objects;
  bool failed = !isDone;
  for (Job &job : jobs) {
    if (!job.error.empty()) {
      reportError(job);
      failed = true;
      continue;
    }
    objects.push_back(job.path);
    ++(job.isCached ? result.numCached : result.numCompiled);
  }
  std::string error;
  std::optional<std::string> object;
  if (!failed)
    object = target.link(objects, error);
  for (Job &job : jobs)
    if (job.isTemporary && !job.path.empty())
      llvm::sys::fs::remove(job.path);
  if (!isDone)
    return module.emitError("interrupted while kernels were compiled");
  if (failed)
    return failure();
  if (!object)
    return module.emitError() << error;
  result.object = std::move(*object);
  llvm::StringMap<const KernelParts *> partsOf;
  for (const Job &job : jobs)
    partsOf[job.symbol] = &job.parts;
  for (auto &kernel : result.kernels) {
    const KernelParts *parts = partsOf.lookup(kernel.second.symbol);
    if (!parts)
      continue;
    kernel.second.parts = parts->parts;
    kernel.second.scratchBytes = parts->scratchBytes;
  }
  return result;
}
