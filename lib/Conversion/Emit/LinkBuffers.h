//===- LinkBuffers.h - the buffers of a point -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_EMIT_LINKBUFFERS_H
#define TANDEM_LIB_CONVERSION_EMIT_LINKBUFFERS_H

#include "Strands.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Conversion/Lower/Placement.h"
#include "tandem/Dialect/NN/NN.h"
#include "tandem/Dialect/Sched/Points.h"
#include "tandem_rt/program_builder.h"
#include "llvm/ADT/StringMap.h"

namespace tandem {

/// Calls `visit` for each buffer of a command, and whether it is written.
void visitBuffers(rt::Command &command,
                  llvm::function_ref<void(rt::BufferRef &, bool)> visit);

/// Where the values of the function of a point lie.
class LinkBuffers {
public:
  /// Finds all places in the arena of the current rank program: of values, and
  /// of the arenas of each run. What waits on the host has an arena there.
  /// Transfers may take some room beside runs, but not at the peak of a point
  /// that is full: there copies from and to the host are beside no run.
  mlir::LogicalResult place(mlir::func::FuncOp function,
                            const ActionPrograms &actions,
                            const Listing &listing, bool isFull,
                            rt::ProgramBuilder &builder);

  rt::BufferRef get(mlir::Value value) const { return refs.lookup(value); }
  /// After how many runs the point waits for what `send` sends, to another
  /// point or to the host.
  int64_t getRuns(mlir::Operation *send) const {
    return runsOfSends.lookup(send);
  }
  /// The run beside which `receive`, of another point or of the host, may
  /// begin, if it stands before it.
  mlir::Operation *getFirstRun(mlir::Operation *receive) const {
    return firstRuns.lookup(receive);
  }
  /// Whether a receive may begin beside `run`.
  bool isAwaited(mlir::Operation *run) const { return awaited.contains(run); }
  /// Where each arena of the action of `run` begins.
  llvm::ArrayRef<int64_t> getArenas(sched::RunOp run) const {
    return arenas.find(run)->second;
  }

private:
  /// From an operation's first to its last slice.
  struct Span {
    int64_t first = 0, last = 0;
  };
  class Alive;
  int64_t findPositions(mlir::Block &block, const Listing &listing);
  unsigned addBuffer(int64_t bytes, Span span);
  void addValue(mlir::Value value, Span span);
  void use(mlir::Value value, int64_t position);
  void nameResults(sched::RunOp run, const rt::Program &program);
  void endSums(mlir::Operation *reader, int64_t position);
  void spreadHostCopies(mlir::Block &block, const Listing &listing);
  void advance(mlir::Operation *receive, const Listing &listing, Alive &alive);
  bool isOnHost(size_t number) const { return onHost.contains(number); }
  int64_t placeThose(bool areOnHost, int64_t numPositions);
  bool placeBeside(mlir::Block &block, const Listing &listing,
                   int64_t numPositions, double room);
  void prolongSends(mlir::Block &block, Alive &alive);
  void advanceReceives(mlir::Block &block, const Listing &listing,
                       Alive &alive);
  mlir::LogicalResult nameBuffers(mlir::func::FuncOp function,
                                  rt::ProgramBuilder &builder);
  void nameRow(sched::RowOp row);
  bool nameInStack(mlir::Value value, Span span);
  bool nameInSource(mlir::OpResult sum, const rt::Program &program);

  llvm::DenseMap<mlir::Value, rt::BufferRef> refs;
  /// The buffer of the arena that a value has.
  llvm::DenseMap<mlir::Value, unsigned> numbers;
  /// Bytes in front of a value in its buffer, if there are some.
  llvm::DenseMap<mlir::Value, int64_t> shifts;
  /// Of each run: numbers of the buffers of its arenas, then their offsets.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<int64_t, 2>> arenas;
  /// Sums that may run on.
  llvm::DenseSet<mlir::Operation *> openSums;
  llvm::DenseMap<mlir::Operation *, int64_t> runsOfSends;
  /// Of receives and fetches that begin early; and all such runs.
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> firstRuns;
  llvm::DenseSet<mlir::Operation *> awaited;
  /// The run that updates an argument.
  llvm::DenseMap<mlir::Value, mlir::Operation *> updaters;
  /// From 1: a slice has one, and so has each other operation.
  llvm::DenseMap<mlir::Operation *, Span> positions;
  /// Their lives are in positions of the point's function.
  std::vector<lower::Buffer> buffers;
  /// The numbers of those in the host's memory.
  llvm::DenseSet<unsigned> onHost;
  int64_t arenaBytes = 0, hostBytes = 0;
};

/// The buffers of a run in place of the action's own.
class LinkMap {
public:
  LinkMap(sched::RunOp run, const LinkBuffers &buffers);
  void apply(rt::Command &command) const;

private:
  std::vector<rt::BufferRef> arguments, results;
  llvm::ArrayRef<int64_t> arenas;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_EMIT_LINKBUFFERS_H
