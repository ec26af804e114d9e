//===- check.cpp - checks that refuse a step ------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/verdict.h"
#include "cpu/task.h"

namespace tandem::rt::cpu {

namespace {
class CheckTask final : public Task {
public:
  CheckTask(const TaskContext &context, const Check &op,
            std::unique_ptr<Communicator> communicator)
      : op(op),
        source(op.source ? context.memory.address(*op.source) : Address()),
        looks(context.computes && op.source),
        communicator(std::move(communicator)) {
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
  const Check &op;
  const Address source;
  const bool looks;
  const std::unique_ptr<Communicator> communicator;
  Collective exchange;
  std::vector<Verdict> verdicts;
};

/// The first member that refuses gives the error, so that it is one error.
Status CheckTask::run(int64_t iteration) {
  Verdict mine = looks ? judge(op, source.at(iteration)) : Verdict::Fine;
  if (!communicator)
    return describe(op, mine);
  if (Status status = communicator->run(exchange, &mine, verdicts.data());
      !status.ok())
    return status;
  for (Verdict verdict : verdicts)
    if (verdict != Verdict::Fine)
      return describe(op, verdict);
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
