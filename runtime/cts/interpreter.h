//===- interpreter.h - interpreter of Programs ------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A Program read in the plainest way: one thread, commands in the order of the
// list, every rank up to its next meeting with others, products and collectives
// element by element. Queues and events are not looked at. It shares no code
// with the executor and the communicators, so that what both get wrong must be
// wrong twice.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_INTERPRETER_H
#define TANDEM_RT_CTS_INTERPRETER_H

#include "tandem_rt/tensor.h"

namespace tandem::rt::cts {

/// The index of element `flat` of a row-major tensor, and back: what plain
/// references of commands are written with.
std::vector<int64_t> unflatten(int64_t flat, const Shape &shape);
int64_t flatten(const std::vector<int64_t> &index, const Shape &shape);

/// All ranks of a Program. Arguments begin as zero.
class Interpreter {
public:
  /// `program` is verified and outlives the interpreter.
  explicit Interpreter(const Program &program);
  ~Interpreter();

  /// Of one argument or result of the Program, whole (if it is a part, of the
  /// whole that it is a part of, the rest of which is left alone).
  void setArgument(uint32_t index, const void *whole);
  void getArgument(uint32_t index, void *whole) const;
  void getResult(uint32_t index, void *whole) const;

  /// One step. Arenas and results begin with bytes that nobody wrote. On an
  /// error the rest of the step is left out; after a refusal it is seen to that
  /// no argument has changed.
  Status step();

private:
  struct Memory {
    std::vector<Bytes> arenas, arguments, results, constants;
    bool operator==(const Memory &) const = default;
  };
  /// A command of one iteration.
  struct Turn {
    const Command *command;
    int64_t iteration;
  };
  using Kernel = void (*)(void *const *, const int64_t *);

  char *at(int64_t rank, const BufferRef &ref, int64_t iteration);
  std::vector<int64_t> group(const std::vector<uint32_t> &axes,
                             int64_t rank) const;
  Status runUntilMeeting(int64_t rank);
  bool isAtEnd(int64_t rank) const {
    return next[size_t(rank)] == turns[size_t(rank)].size();
  }
  const Turn &head(int64_t rank) const {
    return turns[size_t(rank)][next[size_t(rank)]];
  }
  std::vector<int64_t> membersOf(int64_t rank) const;
  std::vector<int64_t> findMeeting() const;
  Status meet(const std::vector<int64_t> &members);

  Status run(int64_t rank, const Turn &turn);
  Status launch(int64_t rank, const Turn &turn);
  void multiply(int64_t rank, const Gemm &op, int64_t iteration);
  void addUp(int64_t rank, const Gemm &op, int64_t iteration);
  void attend(int64_t rank, const Attention &op, int64_t iteration);
  void convolve(int64_t rank, const Convolution &op, int64_t iteration);
  void fill(int64_t rank, const Fill &op, int64_t iteration);
  void exchange(const std::vector<int64_t> &group, const std::vector<Turn> &);
  void transfer(const std::vector<int64_t> &ends, const std::vector<Turn> &);
  Status look(int64_t rank, const Turn &turn);

  const Program &program;
  std::vector<void *> code;
  std::vector<Memory> memory;           ///< Per rank.
  std::vector<std::vector<Turn>> turns; ///< Per rank.
  std::vector<size_t> next;             ///< Per rank, into its turns.
};

/// A number of any type, and back, rounded.
double loadNumber(ElementType type, const void *data, int64_t index);
void storeNumber(ElementType type, void *data, int64_t index, double value);

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_INTERPRETER_H
