//===- CpuKernel.h - the functions of one kernel on a CPU -------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_CPUKERNEL_H
#define TANDEM_LIB_CONVERSION_KERNELS_CPUKERNEL_H

#include "Calls.h"
#include "Nest/NestEmitter.h"

namespace tandem {

/// `symbol`, which unpacks its arguments, and bodies on pointers that do not
/// alias, in scf, arith, math and llvm. Where iterations of a loop need nothing
/// of one another, parts have ranges of them (tandem_rt/kernel.h): of a kernel
/// that is one such nest `symbol`_part does a part; else the kernel is done by
/// phases, each with a body, and what one leaves for the next lies in outputs
/// and in a scratch.
class CpuKernelEmitter final : public KernelEmitter {
public:
  CpuKernelEmitter(const KernelTarget &target, mlir::func::FuncOp kernel,
                   mlir::ModuleOp module, llvm::StringRef symbol)
      : KernelEmitter(target, kernel, module, symbol) {}
  void emit() override;

  /// On the stack where it is small.
  mlir::Value allocate(int64_t count, mlir::Type type) override;
  /// One for all iterations, which come one after the other.
  mlir::Value allocateOwn(llvm::ArrayRef<mlir::Value> indices,
                          llvm::ArrayRef<int64_t> counts, int64_t count,
                          mlir::Type type) override {
    return allocate(count, type);
  }
  void reportIndex(mlir::Value site, mlir::Value index,
                   mlir::Value bound) override;
  /// A part has a range of the first loop.
  llvm::SmallVector<mlir::Value>
  beginThreads(llvm::ArrayRef<int64_t> counts) override;
  void emitIndexSum(mlir::Operation *op) override;

private:
  /// Something that is done at once: a step, or the sum of what its `blocks`
  /// have.
  struct Piece {
    unsigned step;
    LoopShare blocks;
  };
  /// What runs between two points at which all parts have come together.
  struct Phase {
    llvm::SmallVector<Piece> pieces;
    /// Of its only piece, a step; none where one part does all.
    LoopShare share;
    mlir::LLVM::LLVMFuncOp body;

    bool isShared() const { return share.count > 0; }
  };
  /// What lies in the scratch: a value, or what blocks have of one.
  struct Room {
    mlir::Value value;
    bool isOfBlocks;
    int64_t offset;
  };
  void analyzeNests();
  LoopShare findOwnLoopShare(mlir::Operation *op);
  LoopShare findShare(unsigned step);
  void formPhases();
  void addPhase(unsigned step, const LoopShare &share);
  void addAlone(Piece piece);
  void reserveRooms();
  void reserveRoom(mlir::Value value, int64_t blocks);
  void beginBody(llvm::StringRef name, bool isShared);
  void emitPhase(Phase &phase, llvm::StringRef name);
  void emitPiece(const Piece &piece, const LoopShare &share);
  void bindRooms();
  mlir::LLVM::LLVMFuncOp createEntry(llvm::StringRef name, unsigned numNumbers);
  void callPhase(const Phase &phase, llvm::ArrayRef<mlir::Value> arguments,
                 std::pair<mlir::Value, mlir::Value> part);
  void createWhole();
  void createPart();
  void createPhases();
  std::pair<mlir::Value, mlir::Value>
  getShareOfPart(const LoopShare &share, mlir::Value part, mlir::Value parts);
  llvm::SmallVector<mlir::Value> loadArguments(mlir::Block *entry);
  void freeMemory();
  void copy(mlir::Value to, mlir::Value from,
            mlir::RankedTensorType type) override;
  mlir::LLVM::GlobalOp createHook();
  void createReport();
  mlir::LLVM::LLVMFuncOp declare(llvm::StringRef name, mlir::Type result,
                                 llvm::ArrayRef<mlir::Type> arguments);

  llvm::SmallVector<mlir::Value> toFree;
  std::vector<std::unique_ptr<NestEmitter>> nests; ///< by step
  std::vector<Phase> phases;
  std::vector<Room> rooms;
};

/// Writes the kernel `symbol` of calls into `module`, and `symbol`_part, which
/// passes parts on; part 0 does all of what has none.
void emitCpuCalls(llvm::ArrayRef<KernelCall> calls, mlir::ModuleOp module,
                  llvm::StringRef symbol);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_CPUKERNEL_H
