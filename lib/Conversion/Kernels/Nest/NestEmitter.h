//===- NestEmitter.h - the loops of one nest --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each row, the members of a nest are run in *levels*: what depends on a
// reduction of level n over columns has level n + 1. A level has one loop over
// the columns (one per set of columns), in which values are scalars. A value
// that a later level needs is evaluated again, or kept in a buffer of one row
// where that costs more.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_NESTEMITTER_H
#define TANDEM_LIB_CONVERSION_KERNELS_NESTEMITTER_H

#include "Nest/KernelEmitter.h"
#include "mlir/IR/IRMapping.h"
#include <map>
#include <set>

namespace tandem {

class NestEmitter {
public:
  NestEmitter(KernelEmitter &kernel, const Nest &nest);
  virtual ~NestEmitter() = default;
  /// At the kernel's insertion point.
  void emit() {
    analyze();
    emitNest({});
  }
  /// Chooses the loops. What it inserts is erased again.
  void analyze();
  /// Behind `analyze`, in any function with the kernel's memory: what a part
  /// has of the loop in `share`, or all, if none is shared.
  void emitNest(const LoopShare &share);

  //===--- Parts (NestParts.cpp) ------------------------------------------===//

  /// The loop that parts share; none if there is no such loop.
  LoopShare findShare() const;
  /// What is added up over the loop, by each block of it.
  llvm::SmallVector<mlir::Value> getSums(const LoopShare &share) const;
  /// Once all blocks are done: adds theirs up, in their order.
  void addUpBlocks(const LoopShare &blocks);

protected:
  using Indices = llvm::SmallVector<LinearIndex>;
  using Factors = Nest::Factors;

  //===--- Analysis (NestAnalysis.cpp) ------------------------------------===//

  struct MemberInfo {
    mlir::linalg::GenericOp generic; ///< null for a reshape
    bool isReduction = false;
    bool isRow = false; ///< elementwise, without columns
    bool isExpensive = false;
    int level = 0;
    Factors columns; ///< those of the domain, in nest order
  };
  virtual void chooseColumns();
  void analyzeMembers();
  virtual void findBuffered();
  void mergeFactors();
  bool canMerge(int major, int minor) const;
  Factors getColumns(const Factors &factors) const;
  Factors getLayout(mlir::Value value) const;
  bool isColumn(int factor) const { return column[factor]; }
  /// Whether a reduction is accumulated in memory, or in a scalar that memory
  /// starts and ends.
  bool reducesRows(mlir::Value value) const;

  //===--- Loops (NestEmitter.cpp) ----------------------------------------===//

  /// Loops are emitted more than once: what belongs to those before.
  void forget();
  void allocateBuffers(llvm::function_ref<bool(const Factors &)> isRunOver);
  virtual void emitLoops();
  /// How many neighbours an iteration of the group's loop, which is innermost,
  /// computes.
  int64_t countNeighbours(int group) const;
  /// The first and the last bound of a group's loop.
  std::pair<mlir::Value, mlir::Value> getBounds(int group);
  void emitRow();
  void emitRowMembers(int level);
  /// The columns that members of a level run over, each set once.
  std::set<Factors> getDomains(int level) const;
  virtual void emitPhase(int level, const Factors &columns);
  /// Behind all that a level of a row does.
  virtual void endLevel(int level) {}
  llvm::SmallVector<mlir::Value> emitColumnLoops(
      llvm::ArrayRef<int> groups, llvm::ArrayRef<mlir::Value> inits,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)>
          inner);
  llvm::SmallVector<mlir::Value> emitReductionStep(unsigned member,
                                                   mlir::ValueRange sofar);
  void accumulateInMemory(unsigned member);
  virtual void initializeAccumulators();
  /// Reductions of a level to a scalar, and to several of the row's columns.
  struct Reductions {
    llvm::SmallVector<unsigned> scalars, arrays;
  };
  Reductions splitReductions(int level, const Factors &columns) const;
  /// One element of each of `scalars`: what they have reduced so far, and now.
  llvm::SmallVector<mlir::Value>
  emitReductions(llvm::ArrayRef<unsigned> scalars, mlir::ValueRange sofar);
  llvm::SmallVector<unsigned> getReductions(int level,
                                            const Factors &columns) const;
  llvm::SmallVector<mlir::Value> getRoots(int level,
                                          const Factors &columns) const;
  void storeValue(mlir::Value value, mlir::Value scalar);
  /// Of a row, not of one of its columns.
  virtual void storeRowValue(mlir::Value value, mlir::Value scalar) {
    storeValue(value, scalar);
  }
  mlir::Value getStart(mlir::linalg::GenericOp op, unsigned result);

  //===--- Parts (NestParts.cpp) ------------------------------------------===//

  bool addsUpOver(const Nest::Made &info, int group) const;
  bool runsOverShared(const Factors &columns) const;
  bool canShare(int group) const;
  LoopShare shareIterations(int group) const;
  LoopShare shareBlocks(int group) const;
  void beginBlock();
  void fillOwn(mlir::Value value, mlir::Value start);
  bool endsInNumbers() const;
  /// Whether loops are of a block, which leaves them to `addUpBlocks`.
  bool leavesNumbers() const { return share.block > 0 && endsInNumbers(); }
  llvm::SmallVector<mlir::Value> loadPartials(mlir::linalg::GenericOp op,
                                              mlir::Value at);
  void addUpNumber(mlir::linalg::GenericOp op);
  void emitSum(mlir::linalg::GenericOp op, int64_t count);
  /// Where a reduction lies: where its block has it, if there are blocks.
  mlir::Value getSumMemory(mlir::Value value) const;
  /// What two ranges of elements reduce to.
  llvm::SmallVector<mlir::Value>
  combine(mlir::linalg::GenericOp op, mlir::ValueRange a, mlir::ValueRange b);

  //===--- Scalars (NestScalars.cpp) --------------------------------------===//

  mlir::Value evaluate(mlir::Value value, const Indices &indices);
  /// An element of what lies in memory.
  virtual mlir::Value loadElement(mlir::Value value, const LinearIndex &at);
  mlir::Value evaluatePlaced(mlir::Value value);
  mlir::Value evaluateFloating(mlir::Value value, const Indices &indices);
  mlir::Value evaluateReshape(mlir::Operation *op, const Indices &indices);
  llvm::SmallVector<mlir::Value> evaluateInputs(mlir::linalg::GenericOp op,
                                                const Indices &loops);
  llvm::SmallVector<mlir::Value> emitBody(mlir::linalg::GenericOp op,
                                          llvm::ArrayRef<mlir::Value> args,
                                          const Indices &loops);
  void cloneInto(mlir::Operation *op, mlir::IRMapping &mapping,
                 const Indices &loops);
  void cloneRegions(mlir::Operation *op, mlir::IRMapping &mapping,
                    const Indices &loops);
  void trackIndex(mlir::Operation *op);
  mlir::Value emitIndex(const LinearIndex &index);
  Indices getIndices(llvm::ArrayRef<Factors> dims) const;
  LinearIndex getRowOffset(const Factors &columns) const;
  mlir::Value remember(mlir::Value value, const Indices &indices,
                       mlir::Value scalar);

  KernelEmitter &kernel;
  const Nest &nest;
  mlir::OpBuilder &builder;
  mlir::Location loc;

  llvm::SmallVector<bool> column;
  std::vector<MemberInfo> infos;
  int maxLevel = 0;
  int currentLevel = 0;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers; ///< of one row
  llvm::DenseSet<mlir::Value> buffered;

  /// Factors that are one loop, in nest order.
  std::vector<Factors> groups;
  llvm::DenseMap<int, mlir::Value> inductions; ///< by group
  LoopShare share;                             ///< Of what is emitted.
  /// Of the present block: its iterations, and where its sums lie.
  std::pair<mlir::Value, mlir::Value> blockBounds;
  llvm::DenseMap<mlir::Value, mlir::Value> blockMemory;
  /// Set while indices are only recorded, to see which factors merge.
  bool recording = false;
  std::set<LinearIndex> recorded;

  using Key = std::pair<void *, std::vector<LinearIndex>>;
  static Key getKey(mlir::Value value, const Indices &indices) {
    return {value.getAsOpaquePointer(), {indices.begin(), indices.end()}};
  }
  std::vector<std::map<Key, mlir::Value>> scopes;
  llvm::DenseMap<mlir::Value, mlir::Value> rowValues;
  llvm::DenseMap<mlir::Value, LinearIndex> indexOf;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_NESTEMITTER_H
