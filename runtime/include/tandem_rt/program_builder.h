//===- program_builder.h - writes Programs ----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one way to make a Program: the compiler's emit stage uses it, and so do
// the tests of the runtime.
//
//   ProgramBuilder b({{"data", 4}});
//   uint32_t x = b.addArgument({.role = "input", .name = "x", ...});
//   uint32_t y = b.addResult({.role = "loss", .name = "loss", ...});
//   b.setArena(1 << 20);
//   b.launch({.name = "gelu"}, object, "gelu_0", {b.argument(x)},
//            {b.arena(0, 4096)});
//   uint32_t comm = b.addQueue(QueueRole::Communication, "comm");
//   uint32_t ready = b.recordEvent(0);
//   b.waitEvent(comm, ready);
//   b.beginRepeat({.name = "microbatches"}, 4);
//   ...                                  // commands of the body
//   b.endRepeat();
//   Expected<Bytes> file = b.finish();   // verifies, then serializes
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_PROGRAM_BUILDER_H
#define TANDEM_RT_PROGRAM_BUILDER_H

#include "tandem_rt/program.h"

#include <span>
#include <utility>

namespace tandem::rt {

/// What a command carries beside its operation.
struct CommandInfo {
  std::string name = {};
  std::string location = {};
  uint32_t queue = 0;
  int64_t flops = 0;
  int64_t bytes = 0;
  int32_t stage = 0;
  int32_t strand = 0;
  std::optional<BufferRef> workspace = {};
  std::vector<Origin> origins = {};
};

/// Builds one Program. Command ids count up from 0 in each rank program, those
/// of a body behind that of its Repeat. Queue 0 computes and memory space 0 is
/// the host's, unless the caller sets others.
class ProgramBuilder {
public:
  /// Starts with one rank program, which every rank runs.
  explicit ProgramBuilder(std::vector<Axis> mesh, int64_t micro = 1);

  void setTarget(Target target) { program.target = std::move(target); }

  /// In place of the first ones.
  void setQueues(std::vector<Queue> queues) {
    program.queues = std::move(queues);
  }
  void setMemorySpaces(std::vector<MemorySpace> spaces) {
    program.memorySpaces = std::move(spaces);
  }
  uint32_t addQueue(QueueRole role, std::string name, bool yields = false);
  /// The queue that communicates and has this name; it is made where it is
  /// missing.
  uint32_t commQueue(const std::string &name, bool yields = false);
  uint32_t addMemorySpace(MemorySpace space);
  uint32_t addCodeObject(std::string name, Bytes image,
                         CodeKind kind = CodeKind::SharedObject);
  /// The whole of a new constant.
  BufferRef addConstant(Bytes bytes, uint32_t memorySpace = 0);
  /// An empty local shape is computed from the form; empty `form.dims` of a
  /// tensor with dimensions mean full.
  uint32_t addArgument(Argument argument);
  /// As addArgument(); a result without a place of its own in an argument
  /// (`place` left alone) gets a buffer.
  uint32_t addResult(Result result);
  /// A result that lies in `argument`, with its name, type and form, and
  /// makes the argument updated.
  uint32_t addUpdate(uint32_t argument);

  /// Adds a rank program and makes it the current one.
  uint32_t addRankProgram();
  /// What is added next goes to this one, behind a Repeat that it ends with.
  void setCurrent(uint32_t rankProgram) {
    currentProgram = rankProgram;
    inRepeat = false;
  }
  void setRankProgram(int64_t rank, uint32_t rankProgram);
  /// Each rank gets the rank program of its point on the axis: one per point.
  void setRankPrograms(uint32_t axis, std::span<const uint32_t> ofPoints);
  /// Sets the size of arena 0 of the current rank program.
  void setArena(int64_t bytes);
  /// One more arena of the current rank program.
  uint32_t addArena(int64_t bytes, uint32_t memorySpace);

  BufferRef arena(Affine offset, int64_t bytes, uint32_t index = 0) const;
  /// The whole buffer.
  BufferRef argument(uint32_t index) const;
  BufferRef result(uint32_t index) const;
  /// A range of bytes within `whole`.
  static BufferRef slice(BufferRef whole, int64_t offset, int64_t bytes);

  /// Appends to the current rank program, or to the Repeat that was begun and
  /// not ended; returns the command's id.
  uint32_t add(CommandInfo info, Operation operation);

  uint32_t launch(CommandInfo info, uint32_t codeObject, std::string symbol,
                  std::vector<BufferRef> inputs, std::vector<BufferRef> outputs,
                  std::vector<Affine> scalars = {}) {
    return add(std::move(info),
               Launch{codeObject, std::move(symbol), std::move(inputs),
                      std::move(outputs), std::move(scalars)});
  }
  /// The queue "FROM to TO" of transfers between two points of the pipe axis,
  /// made when it is first asked for.
  uint32_t transferQueue(int64_t from, int64_t to);
  /// The end of a transfer that sends, or receives, on the queue of its points,
  /// which it sets, as well as the buffer. `op` says axis, points, type, shape
  /// and tag.
  uint32_t send(CommandInfo info, Transfer op, BufferRef source);
  uint32_t receive(CommandInfo info, Transfer op, BufferRef destination);

  /// Records a new event on a queue; returns the event.
  uint32_t recordEvent(uint32_t queue);
  void waitEvent(uint32_t queue, uint32_t event);

  /// What is added between the two is the body.
  uint32_t beginRepeat(CommandInfo info, int64_t count);
  void endRepeat() { inRepeat = false; }

  const Program &get() const { return program; }
  /// For tests that plant mistakes.
  Program &mutableProgram() { return program; }

  /// Verifies and serializes.
  Expected<Bytes> finish() const;

private:
  RankProgram &current() { return program.rankPrograms[currentProgram]; }

  Program program;
  uint32_t currentProgram = 0;
  bool inRepeat = false; ///< The last command of the current rank program.
};

/// Row-major strides of a shape, in elements.
Shape contiguousStrides(const Shape &shape);

/// A Gemm of contiguous operands; the buffers are to be filled in.
Gemm contiguousGemm(ElementType type, int64_t m, int64_t n, int64_t k,
                    Shape batch = {});

} // namespace tandem::rt

#endif // TANDEM_RT_PROGRAM_BUILDER_H
