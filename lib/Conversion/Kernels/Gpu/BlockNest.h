//===- BlockNest.h - a nest of loops on a GPU -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where nothing is reduced, or sums over rows are too large for blocks to have
// their own, each element is a thread's, or the neighbours that make an access
// of 16 bytes. Else a row is a *team*'s, a block's or a part of
// one where rows are short, whose threads add up by shuffles, and its warps in
// shared memory. A thread's elements of a row are in registers where they are
// few, so that each is read and evaluated once; else each level goes over the
// columns again. With sums over rows, and over everything, there are fewer
// teams than rows, each adds up its own, and a second launch adds up those of
// the teams, in their order. So every sum is taken in an order that depends on
// sizes alone, and on whether buffers begin at multiples of 16 bytes, as those
// of the arena do.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_BLOCKNEST_H
#define TANDEM_LIB_CONVERSION_KERNELS_BLOCKNEST_H

#include "Gpu/GpuKernel.h"
#include "Nest/NestEmitter.h"

namespace tandem {

/// Of a value in shared memory, in bytes.
inline constexpr int64_t kSharedSlot = 8;

/// The nest with loops that can be divided among teams.
Nest splitWhole(const Nest &nest);

/// Emits the parts of a nest.
void emitByBlocks(GpuKernelEmitter &kernel, const Nest &nest);

class BlockNestEmitter : public NestEmitter {
public:
  BlockNestEmitter(GpuKernelEmitter &kernel, const Nest &nest)
      : NestEmitter(kernel, nest), kernel(kernel) {}

  bool hasPartials() const { return numTeams > 1 && !partials.empty(); }
  /// Adds up what the teams have, in a part of its own.
  void emitCombination();

private:
  /// Sums over rows of one member, which each team has for itself.
  struct Partial {
    unsigned member;
    llvm::SmallVector<int64_t> offsets; ///< in the scratch, per result
    /// Where each thread has its own elements in registers until all rows are
    /// done: of each result, in the order of the thread's elements.
    std::vector<llvm::SmallVector<mlir::Value>> registers;
  };

  void chooseColumns() override;
  /// Threads evaluate again.
  void findBuffered() override { buffered.clear(); }
  /// They are started by each team.
  void initializeAccumulators() override {}
  void emitLoops() override;
  void emitPhase(int level, const Factors &columns) override;
  void storeRowValue(mlir::Value value, mlir::Value scalar) override;
  void endLevel(int level) override;

  mlir::Value loadElement(mlir::Value value, const LinearIndex &at) override;

  /// What is read across the nest's innermost loop, and along another one: a
  /// square of it is read along that into shared memory.
  struct Tile {
    mlir::Value value;
    LinearIndex at;
    int64_t begin; ///< in shared memory, in bytes
  };
  void chooseTiles();
  bool canTile() const;
  int findLoopAlong(const LinearIndex &at) const;
  void emitTiles();
  void fillTiles(mlir::Value line, mlir::Value column, mlir::Value lane,
                 mlir::Value row);
  void emitTileElements(mlir::Value line, mlir::Value column, mlir::Value lane,
                        mlir::Value row);
  mlir::Value beginTileElement(mlir::Value line, mlir::Value column,
                               mlir::Value inLine, mlir::Value inColumn);
  void forRowsOfTile(mlir::Value row,
                     llvm::function_ref<void(mlir::Value)> body);
  mlir::Value getTileMemory(const Tile &tile, mlir::Value place);

  void findPartials();
  void divideWhole();
  void chooseTeams();
  /// The thread's number in its team, and that of the team.
  mlir::Value getMember();
  mlir::Value getTeam();
  void startPartials();
  void beginRows();
  mlir::Value getPartial(mlir::OpResult result);
  bool fitsRegisters(const Partial &partial) const;
  void beginRegisters();
  void endRegisters();
  void emitArray(unsigned member, const Factors &columns);
  void emitElements(llvm::ArrayRef<unsigned> scalars,
                    llvm::ArrayRef<mlir::Value> roots, const Factors &columns);
  llvm::SmallVector<mlir::Value> emitElement(llvm::ArrayRef<unsigned> scalars,
                                             llvm::ArrayRef<mlir::Value> roots,
                                             mlir::ValueRange sofar);
  void storePending();
  void addToPartial(unsigned member, mlir::ValueRange totals);
  llvm::SmallVector<mlir::Value> combineTeams(const Partial &partial,
                                              mlir::Value at, mlir::Value warp);
  llvm::SmallVector<mlir::Value> combineWarps(mlir::linalg::GenericOp op,
                                              mlir::ValueRange values,
                                              mlir::Value lane,
                                              mlir::Value warp);
  void emitRows();
  int64_t getMaxWidth() const;
  int64_t getMaxWidth(llvm::ArrayRef<int> loops) const;
  bool canBeWide() const;
  bool fitsRegisters(int64_t total) const;
  using Element =
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)>;
  llvm::SmallVector<mlir::Value>
  emitNeighbours(llvm::ArrayRef<int> loops, int64_t width, mlir::Value chunk,
                 mlir::ValueRange inits, Element inner);
  llvm::SmallVector<mlir::Value> emitInRegisters(llvm::ArrayRef<int> loops,
                                                 int64_t total,
                                                 mlir::ValueRange inits,
                                                 Element inner);
  llvm::SmallVector<mlir::Value> emitThreadLoop(llvm::ArrayRef<int> loops,
                                                mlir::ValueRange inits,
                                                Element inner);
  llvm::SmallVector<mlir::Value> reduceWarp(mlir::linalg::GenericOp op,
                                            mlir::ValueRange values);
  llvm::SmallVector<mlir::Value> reduceBlock(mlir::linalg::GenericOp op,
                                             mlir::ValueRange values);
  mlir::Value isFirstThread();
  bool storesColumns(int level) const;
  llvm::SmallVector<int> getLoops(const Factors &columns) const;

  GpuKernelEmitter &kernel; ///< as the one of `NestEmitter`
  bool isElementwise = false;
  /// Whether the buffers are known to begin at multiples of 16 bytes.
  bool isWide = false;
  int64_t numTeams = 1, numThreads = 1, teamsPerBlock = 1;
  /// Whether there is an element, where some threads have none; else null. What
  /// they would store is stored behind a chunk of elements.
  mlir::Value isThere;
  struct Pending {
    mlir::Value root, scalar;
    llvm::DenseMap<int, mlir::Value> inductions;
  };
  std::vector<Pending> pending;
  /// By the loops: what is known of each of a thread's elements of the row.
  std::map<std::vector<int>, std::vector<std::map<Key, mlir::Value>>> registers;
  /// What is read in memory, and at which index, in the order of reading.
  std::vector<std::pair<mlir::Value, LinearIndex>> loads;
  std::vector<Tile> tiles;
  int lines = 0;         ///< The loop along which tiles are read.
  mlir::Value tilePlace; ///< Of the present element in them, else null.
  std::vector<Partial> partials;
  llvm::DenseMap<mlir::Value, mlir::Value> partialMemory;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_BLOCKNEST_H
