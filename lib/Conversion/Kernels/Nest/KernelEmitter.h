//===- KernelEmitter.h - loops of one kernel --------------------*- C++ -*-===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_KERNELS_KERNELEMITTER_H
#define TANDEM_LIB_CONVERSION_KERNELS_KERNELEMITTER_H

#include "Nest/KernelPlan.h"
#include "Nest/LinearIndex.h"
#include "Parts.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "tandem/Dialect/NN/NN.h"

namespace tandem {

/// How parts share a step: ranges of what there is `count` of, in multiples of
/// `unit`. These are iterations of a loop, or, where sums are added up over it,
/// blocks of `block` iterations, each with sums of its own.
struct LoopShare {
  int64_t count = 0, unit = 1;
  int64_t block = 0;
  int loop = -1; ///< of a nest, by place

  /// Of how many parts each would have something.
  int64_t countPieces() const { return (count + unit - 1) / unit; }
};

/// The functions of one kernel in a module. How a kernel is divided into
/// functions, and what these take, is the device's (`KernelTarget`).
class KernelEmitter {
public:
  virtual ~KernelEmitter() = default;
  virtual void emit() = 0;
  /// Once emitted: its launches on a device that has any, and its scratch.
  KernelParts takeParts() { return {std::move(parts), scratchBytes}; }

  //===--- What the emitters of steps use ---------------------------------===//

  mlir::OpBuilder builder;
  mlir::Location loc;
  KernelPlan plan;

  mlir::Value constant(int64_t value);
  /// A value of the loops' type from one of type index or i64.
  mlir::Value toI64(mlir::Value value);
  mlir::Value toIndex(mlir::Value value);
  /// Pointer to the elements of a value that lies in memory.
  mlir::Value getMemory(mlir::Value value);
  bool hasMemory(mlir::Value value) const;
  /// This rank's coordinate on an axis.
  mlir::Value getCoordinate(llvm::StringRef axis) const;
  /// The launch's ordinal with a number.
  mlir::Value getOrdinal(int64_t number);
  mlir::Value load(mlir::Value memory, mlir::Value index, mlir::Type type);
  void store(mlir::Value memory, mlir::Value index, mlir::Value value);
  /// A buffer of the body's own.
  virtual mlir::Value allocate(int64_t count, mlir::Type type) = 0;
  /// A buffer for the present iteration of `beginThreads(counts)`, whose
  /// results are `indices`.
  virtual mlir::Value allocateOwn(llvm::ArrayRef<mlir::Value> indices,
                                  llvm::ArrayRef<int64_t> counts, int64_t count,
                                  mlir::Type type) = 0;
  /// Sets `count` elements to `value`.
  void fill(mlir::Value memory, int64_t count, mlir::Value value);
  /// Tells that the index at a site is not within its bound; all are i64.
  virtual void reportIndex(mlir::Value site, mlir::Value index,
                           mlir::Value bound) = 0;
  /// A loop from 0 to `count`; the insertion point moves into it.
  mlir::Value beginLoop(int64_t count);
  mlir::Value beginLoop(std::pair<mlir::Value, mlir::Value> bounds);
  /// Where the condition holds; the insertion point moves into it.
  void beginIf(mlir::Value condition);
  /// Whether what is emitted is one of several parts of a step.
  bool isShared() const { return static_cast<bool>(firstOfPart); }
  /// Of the part, by `LoopShare`: what it has first, and what the next one has.
  std::pair<mlir::Value, mlir::Value> getPartBounds() const {
    return {firstOfPart, endOfPart};
  }
  /// The sums of blocks of a shared loop, one after the other.
  mlir::Value getPartials(mlir::Value value) const {
    return partials.lookup(value);
  }
  /// Nested loops whose iterations need nothing of one another.
  virtual llvm::SmallVector<mlir::Value>
  beginThreads(llvm::ArrayRef<int64_t> counts) = 0;
  /// Emits a `scatter_add` or `embedding_backward`.
  virtual void emitIndexSum(mlir::Operation *op) = 0;

protected:
  KernelEmitter(const KernelTarget &target, mlir::func::FuncOp kernel,
                mlir::ModuleOp module, llvm::StringRef symbol);

  /// All elements of a value.
  virtual void copy(mlir::Value to, mlir::Value from,
                    mlir::RankedTensorType type) = 0;
  void bindMemory();
  void storeCoordinates();
  unsigned getNumBuffers() {
    return kernel.getNumArguments() + kernel.getNumResults();
  }
  unsigned countScalars();
  mlir::LLVM::GlobalOp createGlobal(nn::ConstantOp op);
  bool repeatsResults();
  void copyRepeatedResults();

  mlir::func::FuncOp kernel;
  mlir::ModuleOp module;
  std::string symbol;
  mlir::LLVM::LLVMFuncOp body;
  llvm::DenseMap<mlir::Value, mlir::Value> memory;
  /// Of the body's arguments, the first scalar: the axes, then the ordinals.
  unsigned firstScalar = 0;
  /// The last arguments of a body that does a part.
  mlir::Value firstOfPart, endOfPart;
  llvm::DenseMap<mlir::Value, mlir::Value> partials;
  std::vector<KernelPart> parts;
  int64_t scratchBytes = 0;

private:
  llvm::StringMap<mlir::Value> coordinates;
  unsigned numOrdinals;
  llvm::DenseMap<mlir::Value, mlir::LLVM::GlobalOp> globals;
};

/// Bytes of an element in memory, and of a whole tensor.
int64_t getStoredBytes(mlir::Type type);
int64_t getStoredBytes(mlir::RankedTensorType type);

/// The number of the ordinal that a body asks for; -1 for another call.
int64_t getOrdinalNumber(mlir::func::CallOp call);

/// Emits an operator with a loop of its own.
void emitOwnLoop(KernelEmitter &kernel, mlir::Operation *op);

/// The type that an element has in memory: i8 for i1, i16 for bf16, else
/// itself. LLVM has a choice between two values of bf16 go through f32, and
/// back by an instruction that takes subnormal numbers for 0.
mlir::Type getStoredType(mlir::Type type);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_KERNELEMITTER_H
