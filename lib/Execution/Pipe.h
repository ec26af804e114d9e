//===- Pipe.h - a pipeline among the options --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The option `sections`, and pins such as `layers.[0-5].*:pipe=at(0)`, are no
// matter of the plan: they say what a section is and where it lies. The axis
// that pins name, or the one with the name `pipe`, is the pipe axis, which the
// plan does not see.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_EXECUTION_PIPE_H
#define TANDEM_LIB_EXECUTION_PIPE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Support/Options.h"
#include "tandem_rt/program.h"
#include <optional>

namespace tandem {

struct Pipe {
  std::string axis;
  int64_t points = 0;
  /// The mesh with the pipe axis, as the user wrote it, and with an axis of one
  /// point where there is no other one.
  std::string given, mesh;
  /// `layers.[0-5].*:0;layers.[6-9].*:1`, or `2@0,1`: of equal FLOPs.
  std::string sections;
  /// The name of an order, or of what `rows` are read from.
  std::string order;
  /// Of an order without a name, each with a line end.
  std::string rows;
  /// Whether the order is searched: it starts at `rows`, or else at `order`.
  bool isSearched = false;
  /// Microbatches of the order, and on how many of the step each action works.
  int64_t accumulate = 1, strands = 1;
  /// Points that run the backward pass of a microbatch as one action: so they
  /// hold nothing of it for W.
  std::vector<int64_t> joined = {};
  /// Bytes of a piece of a section's sum of gradients; 0: whole sums, -1: not
  /// given.
  int64_t sumPiece = -1;
};

/// Takes sections, their lines in a plan file, their pins and the pipe axis out
/// of `options`. None without a pipe axis, or with one line in `error`.
std::optional<Pipe> takePipe(Options &options, std::string &error);

/// What IR behind the stage `accumulate` says of its pipeline; none of other
/// IR. `mesh` gets that of the plan, where it is empty.
std::optional<Pipe> readPipe(mlir::ModuleOp module, std::string &mesh);

/// Adds what a pipeline needs in front of a stage: forms, in front of
/// `localize`. Axes send parts where that is faster on the cluster of the file,
/// if one is named.
void addPassesBefore(mlir::OpPassManager &manager, const Pipe &pipe,
                     llvm::StringRef stage, const std::string &cluster);

/// Adds what it needs behind a stage: sections behind `accumulate`, actions
/// behind `localize`.
void addPassesBehind(mlir::OpPassManager &manager, const Pipe &pipe,
                     llvm::StringRef stage);

/// The text of a plan with the pipeline that `module` is cut into.
std::string addPipe(const Pipe &pipe, mlir::ModuleOp module,
                    llvm::StringRef plan);

/// What each rank of a pipeline may hold, in bytes: what is asked for, or else
/// the memory of a cluster that is named. Empty for no limit, or with one line
/// in `error`.
std::vector<int64_t> getLimits(const Options &options, int64_t numRanks,
                               std::string &error);

/// One line about the point of the rank that exceeds its limit most, with the
/// pass from which on it has the most microbatches, what it `held` and the
/// `limit`, in bytes; else nothing. `program` is what was made of `module`.
std::string describeExcess(mlir::ModuleOp module, const rt::Program &program,
                           llvm::ArrayRef<int64_t> limits, int64_t &held,
                           int64_t &limit);

/// The points that run I and W apart, and whose ranks exceed their limits.
/// `program` is what was made of `module`.
std::vector<int64_t> findJoinable(mlir::ModuleOp module,
                                  const rt::Program &program,
                                  llvm::ArrayRef<int64_t> limits);

/// Whether the stage runs on each action alone.
bool isOfActions(llvm::StringRef stage);

} // namespace tandem

#endif // TANDEM_LIB_EXECUTION_PIPE_H
