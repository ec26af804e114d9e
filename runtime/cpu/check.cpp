//===- check.cpp - checks that refuse a step ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/text.h"
#include "cpu/task.h"

#include <cmath>
#include <cstring>

namespace tandem::rt::cpu {

namespace {
/// What one rank has seen. The members of a group tell each other.
enum class Verdict : int32_t { Fine = 0, Nan = 1, Infinite = 2, Untrue = 3 };

class CheckTask final : public Task {
public:
  CheckTask(const TaskContext &context, const Check &op,
            std::unique_ptr<Communicator> communicator)
      : op(op), source(context.memory.address(op.source)),
        looks(context.computes), communicator(std::move(communicator)) {
    if (!this->communicator)
      return;
    verdicts.resize(context.program.group(op.axes, context.rank).size());
    exchange = {.kind = CollectiveKind::AllGather,
                .axes = op.axes,
                .type = ElementType::I32,
                .shape = {1},
                .concatDim = 0};
  }

  Status run(int64_t iteration) override;

private:
  Verdict look(const char *data) const;
  Status describe(Verdict verdict) const;

  const Check &op;
  const Address source;
  const bool looks;
  const std::unique_ptr<Communicator> communicator;
  Collective exchange;
  std::vector<Verdict> verdicts;
};

template <typename T> T load(const char *data, int64_t index) {
  T value;
  std::memcpy(&value, data + size_t(index) * sizeof(T), sizeof(T));
  return value;
}

Verdict judge(double value) {
  if (std::isfinite(value))
    return Verdict::Fine;
  return std::isnan(value) ? Verdict::Nan : Verdict::Infinite;
}

Verdict judge(ElementType type, const char *data, int64_t index) {
  switch (type) {
  case ElementType::F64:
    return judge(load<double>(data, index));
  case ElementType::F32:
    return judge(load<float>(data, index));
  case ElementType::BF16:
    return judge(bf16ToFloat(load<uint16_t>(data, index)));
  default: // i1, as verifyProgram() has seen to
    return data[index] ? Verdict::Fine : Verdict::Untrue;
  }
}

Verdict CheckTask::look(const char *data) const {
  int64_t count = op.source.bytes / elementBytes(op.type);
  for (int64_t i = 0; i < count; ++i)
    if (Verdict verdict = judge(op.type, data, i); verdict != Verdict::Fine)
      return verdict;
  return Verdict::Fine;
}

Status CheckTask::describe(Verdict verdict) const {
  if (verdict == Verdict::Fine)
    return Status::success();
  if (verdict == Verdict::Untrue)
    return Status::error(op.message, ErrorKind::NotTrue);
  return Status::error(concat(op.message, " is ",
                              verdict == Verdict::Nan ? "nan" : "inf",
                              ", expected a finite value"),
                       ErrorKind::NotFinite);
}

/// The first member that refuses gives the error, so that it is one error.
Status CheckTask::run(int64_t iteration) {
  Verdict mine = looks ? look(source.at(iteration)) : Verdict::Fine;
  if (!communicator)
    return describe(mine);
  if (Status status = communicator->run(exchange, &mine, verdicts.data());
      !status.ok())
    return status;
  for (Verdict verdict : verdicts)
    if (verdict != Verdict::Fine)
      return describe(verdict);
  return Status::success();
}
} // namespace

Expected<std::unique_ptr<Task>>
makeCheck(const TaskContext &context, const Check &check,
          std::unique_ptr<Communicator> communicator) {
  return std::unique_ptr<Task>(
      std::make_unique<CheckTask>(context, check, std::move(communicator)));
}

} // namespace tandem::rt::cpu
