//===- queues.cpp - the queues of a rank
//-----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/queues.h"
#include "core/text.h"

namespace tandem::rt::cpu {

namespace {
/// Takes the commands of a rank, in the order of their listing, apart into
/// queues.
class QueueMaker {
public:
  QueueMaker(const TaskContext &context, const QueuePlan &plan,
             std::vector<QueueState> &queues)
      : context(context), plan(plan), queues(queues),
        beginsSegment(queues.size(), true) {}

  Status add(const Command &command) {
    const auto *repeat = std::get_if<Repeat>(&command.operation);
    if (!repeat)
      return addTask(command);
    ++index;
    beginSegments(repeat->count);
    Status status;
    for (const Command &inner : repeat->body)
      if (status.ok())
        status = addTask(inner);
    beginSegments(1);
    return status;
  }

private:
  void beginSegments(int64_t newCount) {
    count = newCount;
    beginsSegment.assign(queues.size(), true);
  }

  Expected<std::unique_ptr<Task>> makeFor(const Command &command,
                                          QueueState &queue) const {
    if (!plan.seconds) {
      TaskContext own = context;
      if (queue.threads == 1)
        own.crew = nullptr;
      return makeTask(own, command);
    }
    auto found = plan.seconds->find(command.id);
    return makeTimedTask(context, command, *queue.clock,
                         found == plan.seconds->end() ? 0 : found->second);
  }

  Status addTask(const Command &command) {
    size_t number = plan.isOne ? 0 : command.queue;
    QueueState &queue = queues[number];
    Expected<std::unique_ptr<Task>> task = makeFor(command, queue);
    if (!task.ok())
      return errorOf("rank ", context.rank, ", ", commandText(command), ": ",
                     task.status().message());
    if (beginsSegment[number])
      queue.segments.push_back({count, {}});
    beginsSegment[number] = false;
    queue.segments.back().entries.push_back(
        {&command, index++, std::move(*task)});
    return Status::success();
  }

  const TaskContext &context;
  const QueuePlan &plan;
  std::vector<QueueState> &queues;
  uint32_t index = 0;
  int64_t count = 1;               ///< Of the segments that begin.
  std::vector<bool> beginsSegment; ///< Per queue: with its next command.
};

std::vector<QueueState> nameQueues(const TaskContext &context,
                                   const QueuePlan &plan) {
  std::vector<QueueState> queues;
  if (plan.isOne)
    queues.push_back({"all", context.threads});
  else
    for (const Queue &queue : context.program.queues)
      queues.push_back(
          {queue.name, queue.role == QueueRole::Compute ? context.threads : 1});
  if (plan.seconds)
    for (QueueState &queue : queues)
      queue.clock = std::make_unique<QueueClock>();
  return queues;
}
} // namespace

Expected<std::vector<QueueState>> makeQueues(const TaskContext &context,
                                             const RankProgram &rankProgram,
                                             const QueuePlan &plan) {
  std::vector<QueueState> queues = nameQueues(context, plan);
  QueueMaker maker(context, plan, queues);
  for (const Command &command : rankProgram.commands)
    if (Status status = maker.add(command); !status.ok())
      return status;
  return queues;
}

} // namespace tandem::rt::cpu
