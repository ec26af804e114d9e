//===- stages.h - a pipeline of two stages ----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CTS_STAGES_H
#define TANDEM_RT_CTS_STAGES_H

#include "cts/support.h"

namespace tandem::rt::cts {

/// A step of two points of axis pipe, each with a Program of its own. Rows of
/// x, which point 0 has, go to point 1 and come back. Point 1 looks at what has
/// come. Point 0 sets its parameter first to the last row, point 1 its
/// parameter second to the first row, one row for each point of axis data.
struct Stages {
  static constexpr int64_t kWidth = 6, kRows = 2, kBytes = kWidth * 4;

  explicit Stages(int64_t data = 2)
      : data(data), b({{"pipe", 2}, {"data", data}}) {
    Shape shape = {data * kRows, kWidth};
    x = b.addArgument({"input", "x", kF32, shape, {}, formAt(0)});
    first = b.addArgument(
        {"parameter", "first", kF32, {data, kWidth}, {}, formAt(0)});
    second = b.addArgument(
        {"parameter", "second", kF32, {data, kWidth}, {}, formAt(1)});
    b.addUpdate(first);
    b.addUpdate(second);
    y = b.addResult({"output", "y", kF32, shape, {}, formAt(1)});
    addFirst();
    addSecond();
    b.setRankPrograms(0, std::vector<uint32_t>{0, 1});
  }

  static Form formAt(int64_t point) {
    return {{DimForm{1, {1}}, DimForm{}}, {}, {{0, point}}};
  }
  static std::string nameOf(const char *action, int64_t row) {
    return action + std::to_string(row) + " work";
  }
  static Transfer transfer(int64_t from, int64_t row) {
    return {0, from, 1 - from, kF32, {kWidth}, from * kRows + row};
  }
  BufferRef row(BufferRef whole, int64_t row) const {
    return ProgramBuilder::slice(whole, row * kBytes, kBytes);
  }
  void work(const char *action, int64_t row) {
    b.add({.name = nameOf(action, row)}, Fill{b.arena(kRows * kBytes, 4), {0}});
  }
  /// Row by row on one queue, then on the other.
  void pass(uint32_t from, uint32_t to) {
    b.waitEvent(to, b.recordEvent(from));
  }

  void addFirst() {
    b.setArena(kRows * kBytes + 4);
    uint32_t up = b.transferQueue(0, 1), down = b.transferQueue(1, 0);
    for (int64_t i = 0; i < kRows; ++i) {
      work("0F", i);
      pass(0, up);
      b.send({.name = "send"}, transfer(0, i), row(b.argument(x), i));
    }
    for (int64_t i = 0; i < kRows; ++i) {
      b.receive({.name = "receive"}, transfer(1, i),
                b.arena(i * kBytes, kBytes));
      pass(down, 0);
      work("0B", i);
    }
    b.add({.name = "loss"}, Check{CheckKind::Finite, kF32, {}, "loss", {0, 1}});
    b.add({.name = "0U update"},
          Copy{b.arena((kRows - 1) * kBytes, kBytes), b.argument(first)});
  }

  void addSecond() {
    b.addRankProgram();
    b.setArena(kRows * kBytes + 4);
    uint32_t up = b.transferQueue(0, 1), down = b.transferQueue(1, 0);
    for (int64_t i = 0; i < kRows; ++i) {
      b.receive({.name = "receive"}, transfer(0, i), row(b.result(y), i));
      pass(up, 0);
      work("1F", i);
    }
    for (int64_t i = 0; i < kRows; ++i) {
      work("1B", i);
      pass(0, down);
      b.send({.name = "send"}, transfer(1, i), row(b.result(y), i));
    }
    b.add({.name = "loss"},
          Check{CheckKind::Finite, kF32, b.result(y), "loss", {0, 1}});
    b.add({.name = "1U update"}, Copy{row(b.result(y), 0), b.argument(second)});
  }

  /// The parameter of a point after a step with these values.
  std::vector<float> updated(const std::vector<float> &values,
                             int64_t row) const {
    std::vector<float> rows;
    for (int64_t i = 0; i < data; ++i) {
      auto begin = values.begin() + (i * kRows + row) * kWidth;
      rows.insert(rows.end(), begin, begin + kWidth);
    }
    return rows;
  }
  std::vector<float> randomInput(unsigned seed) const {
    return randomValues<float>(data * kRows * kWidth, seed);
  }
  Tensor input(const std::vector<float> &values) const {
    return tensorOf({data * kRows, kWidth}, values);
  }

  /// The check of a rank program.
  Check &check(size_t rankProgram) {
    for (Command &command :
         b.mutableProgram().rankPrograms[rankProgram].commands)
      if (auto *found = std::get_if<Check>(&command.operation))
        return *found;
    std::abort();
  }

  static constexpr ElementType kF32 = ElementType::F32;
  const int64_t data;
  ProgramBuilder b;
  uint32_t x = 0, y = 0, first = 0, second = 0;
};

} // namespace tandem::rt::cts

#endif // TANDEM_RT_CTS_STAGES_H
