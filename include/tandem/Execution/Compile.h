//===- Compile.h - from a training step to a Program ------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The whole compiler as one function, for Python and tandem-compile. No MLIR
// header is needed to call it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXECUTION_COMPILE_H
#define TANDEM_EXECUTION_COMPILE_H

#include "tandem/Support/Options.h"
#include "tandem_rt/program.h"
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

/// The names of the stages, in order: `import` to `lower`.
std::vector<std::string> getStageNames();

/// The options of Options.def, and what a caller in C++ asks for.
struct CompileOptions : Options {
  /// The first Ctrl-C ends a search with the best plan so far, and what an
  /// explanation searches, the second one the process. For tools: the handler
  /// of the process is replaced while plans are made.
  bool takesInterrupts = false;
  /// Whether sizes are tried of pieces of gradient sums, and of buckets of
  /// updates on the host, that are not given; else sums are whole, and a bucket
  /// has a share.
  bool triesSizes = true;
  /// Asked while a search goes on, between passes and between kernels, by the
  /// thread that compiles; true ends the compilation with an error. Empty:
  /// nobody asks.
  std::function<bool()> isCancelled;
  /// Asked behind the stage plan; true ends there, as with `stopAfter`. May be
  /// empty.
  std::function<bool()> isPlanEnough;
  /// Told when a stage begins (its name, 0, 0), and between kernels how many
  /// are done of how many ("kernels"), by the same thread. May be empty.
  std::function<void(std::string_view what, size_t done, size_t all)> progress;
  /// The mesh `auto` with the search `tandem` weighs pipelines, too: their
  /// microbatches are those of `accumulate`, which changes then.
  bool weighsPipelines = false;
  /// Look on the disk for what an equal compilation has found, and keep what
  /// this one finds (README, *Caches*).
  bool usesCache = false;
};

struct CompiledProgram {
  /// The bytes of a .tdm file; empty with `stopAfter`, or where the plan was
  /// enough.
  std::string bytes;
  /// What is split how, which collectives with how many bytes: for people.
  std::string planTable;
  /// The plan as a text that `planFile` reads.
  std::string plan;
  /// What `weighsPipelines` weighed: a heading, and a line for each layout, the
  /// fastest first; empty where nothing was weighed.
  std::string layouts;
  /// With `explain`: for people and as JSON; with `compareWith`: where the
  /// plans differ.
  std::string explanation, explanationJson, comparison;
  /// (stage, printed IR) for each of `printAfter` and for `stopAfter`.
  std::vector<std::pair<std::string, std::string>> ir;
  /// Warnings and remarks, one line each: `file.py:12: warning: ...`.
  std::vector<std::string> remarks;
  /// (stage, seconds), with `emit` last; only `cache` where all was found
  /// there.
  std::vector<std::pair<std::string, double>> seconds;
  /// Where nothing fits: by how much the Program or plan of the error exceeds
  /// its limit, in bytes; the most where that is not known.
  int64_t excess = std::numeric_limits<int64_t>::max();
};

/// What code is made for with these options, which is known before there is a
/// step: device and architecture. On failure returns false and puts one line
/// into `error`.
bool findTarget(const CompileOptions &options, rt::Target &target,
                std::string &error);

/// Compiles the text of a module with a training step,
/// `func.func @step`. `name` is what errors call the text. On failure returns
/// false and puts one line into `error`. Needs no lock; may be called from
/// several threads.
bool compile(std::string_view module, std::string_view name,
             const CompileOptions &options, CompiledProgram &result,
             std::string &error);

/// What the step of a module computes, as a number (Analysis/HashStep.h): equal
/// for what two processes have captured, wherever their files are. Fails as
/// compile() does.
bool hashModule(std::string_view module, std::string_view name,
                std::string &hash, std::string &error);

} // namespace tandem

#endif // TANDEM_EXECUTION_COMPILE_H
