//===- BlockNest.h - a nest of loops on a GPU -------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where nothing is reduced each element is a thread's. Else a row is a block's,
// whose threads go over the columns and add up by a tree in shared memory; with
// sums over rows there are fewer blocks than rows, each adds up its own, and a
// second launch adds up those of the blocks, in their order. So every sum is
// taken in an order that depends on sizes alone.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_BLOCKNEST_H
#define TANDEM_LIB_CONVERSION_KERNELS_BLOCKNEST_H

#include "NestEmitter.h"

namespace tandem {

/// Emits the parts of a nest.
void emitByBlocks(KernelEmitter &kernel, const Nest &nest);

class BlockNestEmitter : public NestEmitter {
public:
  using NestEmitter::NestEmitter;

  bool hasPartials() const { return numBlocks > 1 && !partials.empty(); }
  /// Adds up what the blocks have, in a part of its own.
  void emitCombination();

private:
  /// Sums over rows of one member, which each block has for itself.
  struct Partial {
    unsigned member;
    llvm::SmallVector<int64_t> offsets; ///< in the scratch, per result
  };

  void chooseColumns() override;
  /// Threads evaluate again.
  void findBuffered() override { buffered.clear(); }
  /// They are started by each block.
  void initializeAccumulators() override {}
  void emitLoops() override;
  void emitPhase(int level, const Factors &columns) override;
  void storeRowValue(mlir::Value value, mlir::Value scalar) override;
  void endLevel(int level) override;

  void findPartials();
  void chooseBlocks();
  void startPartials();
  void beginRows();
  mlir::Value getPartial(mlir::OpResult result);
  void emitArray(unsigned member, const Factors &columns);
  void emitElements(llvm::ArrayRef<unsigned> scalars,
                    llvm::ArrayRef<mlir::Value> roots, const Factors &columns);
  void addToPartial(unsigned member, mlir::ValueRange totals);
  llvm::SmallVector<mlir::Value> emitThreadLoop(
      llvm::ArrayRef<int> loops, mlir::ValueRange inits,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)>
          inner);
  llvm::SmallVector<mlir::Value> reduceBlock(mlir::linalg::GenericOp op,
                                             mlir::ValueRange values);
  llvm::SmallVector<mlir::Value>
  combine(mlir::linalg::GenericOp op, mlir::ValueRange a, mlir::ValueRange b);
  mlir::Value isFirstThread();
  llvm::SmallVector<int> getLoops(const Factors &columns) const;

  bool isElementwise = false;
  int64_t numBlocks = 1, numThreads = 1;
  std::vector<Partial> partials;
  llvm::DenseMap<mlir::Value, mlir::Value> partialMemory;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_BLOCKNEST_H
