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
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "tandem/Conversion/Kernels/Kernels.h"
#include "tandem/Device/Gpu.h"
#include "tandem/Dialect/NN/NN.h"
#include <memory>

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

/// Threads that run together, and exchange what is in their registers.
constexpr int64_t kWarp = 32;

class NestEmitter;

/// The functions of one kernel in a module, `target`: `symbol`, which unpacks
/// its arguments, and bodies on pointers that do not alias, in scf, arith, math
/// and llvm. Where iterations of a loop need nothing of one another, parts have
/// ranges of them (tandem_rt/kernel.h): of a kernel that is one such nest
/// `symbol`_part does a part; else the kernel is done by phases, each with a
/// body, and what one leaves for the next lies in outputs and in a scratch.
///
/// On a GPU a function per part, `symbol_0`, ..., whose parameters are the
/// buffers that it reads, those that it writes, the scalars, and where it
/// reports an index. A part's threads know nothing of one another but what a
/// block's share between barriers; what all of them have done is there in the
/// next part.
class KernelEmitter {
public:
  KernelEmitter(mlir::func::FuncOp kernel, mlir::ModuleOp target,
                llvm::StringRef symbol);
  ~KernelEmitter();
  void emit();
  /// On a GPU, once emitted.
  std::vector<KernelPart> takeParts() { return std::move(parts); }
  /// Once emitted.
  int64_t getScratchBytes() const { return scratchBytes; }

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
  /// A buffer of the body's own, on the stack where it is small.
  mlir::Value allocate(int64_t count, mlir::Type type);
  /// Sets `count` elements to `value`.
  void fill(mlir::Value memory, int64_t count, mlir::Value value);
  /// Tells that the index at a site is not within its bound; all are i64.
  void reportIndex(mlir::Value site, mlir::Value index, mlir::Value bound);
  /// A loop from 0 to `count`; the insertion point moves into it.
  mlir::Value beginLoop(int64_t count);
  mlir::Value beginLoop(std::pair<mlir::Value, mlir::Value> bounds);
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
  /// Nested loops whose iterations need nothing of one another: on a GPU each
  /// is done by a thread, on a CPU a part has a range of the first one.
  llvm::SmallVector<mlir::Value> beginThreads(llvm::ArrayRef<int64_t> counts);

  //===--- Of a GPU (GpuKernel.cpp) ---------------------------------------===//

  /// Null where a kernel is one function.
  const Gpu *gpu;
  bool isGpu() const { return gpu; }
  /// What is emitted between the two is a launch of its own. One that writes
  /// nothing is left out.
  void beginPart();
  void emitGate();
  void endPart();
  /// As many blocks as give each of `count` elements a thread, but for the
  /// device's limit.
  void useThreads(int64_t count);
  void useBlocks(int64_t blocks, int64_t threads);
  /// Of the present part; i64.
  mlir::Value getThread();
  mlir::Value getBlock();
  mlir::Value getNumBlocks();
  mlir::Value getGlobalThread();
  void emitBarrier();
  /// The value of the thread of the warp whose number differs in the bit
  /// `distance`; all threads of the block ask.
  mlir::Value shuffle(mlir::Value value, int64_t distance);
  /// Room for an element of each thread's own.
  mlir::Value allocateRegister(mlir::Type type);
  /// A range of the block's shared memory, from its begin.
  mlir::Value getShared(int64_t bytes);
  /// A range of the scratch for the whole kernel: its offset.
  int64_t reserveScratch(int64_t bytes);
  mlir::Value getScratch(int64_t offset);
  /// The indices of the dimensions of `counts` from the linear one.
  llvm::SmallVector<mlir::Value> delinearize(mlir::Value linear,
                                             llvm::ArrayRef<int64_t> counts);
  /// Where the condition holds; the insertion point moves into it.
  void beginIf(mlir::Value condition);
  /// A branch (scf.if) that is taken where all buffers of the part begin at
  /// multiples of 16 bytes, so that neighbours are read and written at once;
  /// the other one elsewhere. One in a part.
  mlir::Operation *branchByAlignment();

private:
  //===--- Of a CPU (CpuKernel.cpp) ---------------------------------------===//

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
  void emitPhases();
  void analyzeNests();
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
  unsigned countScalars();

  void emitParts();
  void emitGpuReport(mlir::Value site, mlir::Value index, mlir::Value bound);
  void bindMemory();
  void storeCoordinates();
  void pruneArguments();
  void describePointers(unsigned count);
  void checkAlignment(unsigned count);
  unsigned getNumBuffers() {
    return kernel.getNumArguments() + kernel.getNumResults();
  }
  mlir::LLVM::GlobalOp createHook();
  void createReport();
  mlir::LLVM::GlobalOp createGlobal(nn::ConstantOp op);
  mlir::LLVM::LLVMFuncOp declare(llvm::StringRef name, mlir::Type result,
                                 llvm::ArrayRef<mlir::Type> arguments);
  bool repeatsResults();
  void copyRepeatedResults();

  mlir::func::FuncOp kernel;
  mlir::ModuleOp target;
  std::string symbol;
  mlir::LLVM::LLVMFuncOp body;
  llvm::DenseMap<mlir::Value, mlir::Value> memory;
  llvm::StringMap<mlir::Value> coordinates;
  unsigned numOrdinals;
  /// Of the body's arguments, the first scalar: the axes, then the ordinals.
  unsigned firstScalar = 0;
  llvm::SmallVector<mlir::Value> toFree;
  /// The last arguments of a body that does a part.
  mlir::Value firstOfPart, endOfPart;
  std::vector<std::unique_ptr<NestEmitter>> nests; ///< by step
  std::vector<Phase> phases;
  std::vector<Room> rooms;
  llvm::DenseMap<mlir::Value, mlir::Value> partials;
  std::vector<KernelPart> parts;
  mlir::Operation *alignmentBranch = nullptr; ///< of the present part
  int64_t scratchBytes = 0, blockThreads = 0;
  /// Numbers of buffers that parts so far write.
  llvm::DenseSet<unsigned> written;
  llvm::DenseMap<mlir::Value, int64_t> scratchOf;
  llvm::DenseMap<mlir::Value, mlir::LLVM::GlobalOp> globals;
};

/// Bytes of an element in memory, and of a whole tensor.
int64_t getStoredBytes(mlir::Type type);
int64_t getStoredBytes(mlir::RankedTensorType type);

/// The number of the ordinal that a body asks for; -1 for another call.
int64_t getOrdinalNumber(mlir::func::CallOp call);

/// Emits an operator with a loop of its own.
void emitOwnLoop(KernelEmitter &kernel, mlir::Operation *op);
/// How parts share that loop on a CPU.
LoopShare findOwnLoopShare(KernelEmitter &kernel, mlir::Operation *op);

/// The type that an element has in memory: i8 for i1, i16 for bf16, else
/// itself. LLVM has a choice between two values of bf16 go through f32, and
/// back by an instruction that takes subnormal numbers for 0.
mlir::Type getStoredType(mlir::Type type);

/// Name of the pointer that a code object exports, and of the function in it
/// that calls through it.
constexpr llvm::StringLiteral kIndexHookName = "tandem_rt_report_index_hook";

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_KERNELS_KERNELEMITTER_H
