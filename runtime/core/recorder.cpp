//===- recorder.cpp - values that commands wrote --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem_rt/recorder.h"
#include "core/access.h"
#include "core/text.h"

#include <algorithm>

namespace tandem::rt {

/// Of a pipeline the microbatch, which is the strand of its commands, is the
/// iteration of an action.
std::string ValueRecorder::keyOf(const Program &program, const Command &command,
                                 int64_t rank, int64_t iteration,
                                 size_t write) {
  uint32_t rankProgram = program.rankToProgram[size_t(rank)];
  size_t number = numbers
                      .try_emplace({rankProgram, command.id, iteration, write},
                                   numbers.size())
                      .first->second;
  int64_t strand = command.strand;
  if (program.rankPrograms.size() > 1) {
    iteration = std::max<int64_t>(strand, 0);
    strand = -1;
  }
  std::string digits = std::to_string(number);
  digits.insert(0, 8 - std::min<size_t>(digits.size(), 8), '0');
  const Origin &origin = command.origins[write];
  return concat(digits, "|", origin.op, "|", strand, "|", iteration, "|",
                origin.result, "|command ", command.id, " '", command.name,
                "'||", command.location, "||", rank);
}

Status ValueRecorder::add(const Program &program, const Command &command,
                          int64_t rank, int64_t iteration, const Fetch &fetch) {
  size_t write = 0;
  for (const Access &access : accessesOf(command)) {
    if (!access.write || write >= command.origins.size())
      continue;
    size_t number = write++;
    if (command.origins[number].op < 0 || !access.type ||
        access.defines != Defines::All ||
        access.ref->bytes % elementBytes(*access.type) != 0)
      continue;
    Tensor value(*access.type,
                 {access.ref->bytes / elementBytes(*access.type)});
    if (Status status =
            fetch(*access.ref, reinterpret_cast<char *>(value.data.data()));
        !status.ok())
      return status;
    std::lock_guard guard(lock);
    values[keyOf(program, command, rank, iteration, number)] = std::move(value);
  }
  return Status::success();
}

std::map<std::string, TensorView> ValueRecorder::tensors() const {
  std::lock_guard guard(lock);
  std::map<std::string, TensorView> views;
  for (const auto &[key, value] : values)
    views[key] = value.view();
  return views;
}

void ValueRecorder::clear() {
  std::lock_guard guard(lock);
  numbers.clear();
  values.clear();
}

} // namespace tandem::rt
