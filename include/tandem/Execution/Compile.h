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

#include "tandem_rt/program.h"
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

/// The names of the stages, in order: `import` to `lower`.
std::vector<std::string> getStageNames();

struct CompileOptions {
  /// The stage that the text has left, as `stopAfter` gives it, edited by hand
  /// or not: the verifier of its exit looks at it, and the stages behind it
  /// run. What stages up to it read of these options is not read then. Empty:
  /// the text is a step as `python -m tandem export` writes it.
  std::string from;
  /// Space axes: `data=4,model=2`. Empty: one device. `auto`: the best for the
  /// devices of the cluster.
  std::string mesh;
  /// Points of the time axis.
  int64_t micro = 1;
  /// Into how many iterations of a loop the batch is cut; each is cut into
  /// microbatches.
  int64_t accumulate = 1;
  /// Plan preset: `data-parallel`, `zero`, `tensor-parallel`,
  /// `expert-parallel`. Empty: `data-parallel`.
  std::string preset;
  /// Each `GLOB:axis=form,...`.
  std::vector<std::string> pins;
  /// How the store that the Program is for has parameters: `NAME:DIM:ROW,...`
  /// each (tandem-take-apart-parameters).
  std::vector<std::string> storedParts;
  /// A plan file to apply in place of a preset. Empty: none.
  std::string planFile;
  /// Algorithm that finds the plan: `tandem`, `hidup`, `ilp`, `exhaustive`.
  /// Empty: the preset.
  std::string search;
  /// Cluster file that prices plans. Empty: a laptop, for a search.
  std::string cluster;
  /// Seconds after which a search gives the best plan so far, and after which
  /// an explanation estimates what it has not searched; 0: no limit.
  double searchTimeLimit = 0;
  /// A plan file that a search starts from, and is no worse than. Empty: none.
  std::string start;
  /// A search is no worse than any preset; without, it knows none of them.
  bool usesPresets = true;
  /// What to compile for: `cpu`. Empty: what the module names, else a CPU.
  std::string device;
  /// What code of `device` is made for: `sm_90`, `emulated`. Empty: the
  /// device's default.
  std::string architecture;
  /// Let the backward pass make cheap values again instead of holding them.
  bool recompute = false;
  /// Where the search problem is written. Empty: nowhere.
  std::string problemOut;
  /// Say what the plan costs even if it is not searched.
  bool costsPlan = false;
  /// Say why the plan is as it is.
  bool explains = false;
  /// Tensors of more bytes that are left whole on all devices are an error;
  /// negative: none.
  int64_t failOnReplicate = -1;
  /// A plan file to compare that of `planFile` with. Empty: none.
  std::string compareWith;
  /// Say how long the scheduled steps take with the durations of the plan.
  bool timeline = false;
  /// Stages after which the IR is kept in `CompiledProgram::ir`.
  std::vector<std::string> printAfter;
  /// Keep source locations in printed IR. An error behind a stage that is
  /// entered by text without them names a line of that text.
  bool printLocations = true;
  /// The last stage to run, behind `from`; empty: all of them and emit.
  std::string stopAfter;
  /// The first Ctrl-C ends a search with the best plan so far, and what an
  /// explanation searches, the second one the process. For tools: the handler
  /// of the process is replaced while plans are made.
  bool takesInterrupts = false;
  /// Asked while a search goes on, between passes and between kernels, by the
  /// thread that compiles; true ends the compilation with an error. Empty:
  /// nobody asks.
  std::function<bool()> isCancelled;
  /// Told when a stage begins (its name, 0, 0), and between kernels how many
  /// are done of how many ("kernels"), by the same thread. May be empty.
  std::function<void(std::string_view what, size_t done, size_t all)> progress;
  /// Look on the disk for what an equal compilation has found, and keep what
  /// this one finds (README, *Caches*).
  bool usesCache = false;
};

struct CompiledProgram {
  /// The bytes of a .tdm file; empty with `stopAfter`.
  std::string bytes;
  /// What is split how, which collectives with how many bytes: for people.
  std::string planTable;
  /// The plan as a text that `planFile` reads.
  std::string plan;
  /// With `explains`: for people and as JSON; with `compareWith`: where the
  /// plans differ.
  std::string explanation, explanationJson, comparison;
  /// (stage, printed IR) for each of `printAfter` and for `stopAfter`.
  std::vector<std::pair<std::string, std::string>> ir;
  /// Warnings and remarks, one line each: `file.py:12: warning: ...`.
  std::vector<std::string> remarks;
  /// (stage, seconds), with `emit` last; only `cache` where all was found
  /// there.
  std::vector<std::pair<std::string, double>> seconds;
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
