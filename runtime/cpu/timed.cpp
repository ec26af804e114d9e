//===- timed.cpp - commands that sleep in place of computing --------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cpu/timed.h"
#include "tandem_rt/command_times.h"

#include <cerrno>
#include <cmath>
#include <ctime>
#include <sys/prctl.h>

namespace tandem::rt::cpu {

namespace {
using Clock = std::chrono::steady_clock;
static_assert(std::is_same_v<Clock::duration, std::chrono::nanoseconds>);

/// Asking for a sleep takes 15 us of CPU on a virtual machine, also for one
/// that is over at once, and four hosts on two CPUs have none to spare. So a
/// command that would sleep less leaves it to the next: what follows begins
/// early by at most so much, and such times do not add up.
constexpr std::chrono::microseconds kLeastSleep{50};

/// libstdc++'s steady clock is CLOCK_MONOTONIC.
void sleepUntil(Clock::time_point time) {
  constexpr int64_t kNanos = 1'000'000'000;
  int64_t nanos = time.time_since_epoch().count();
  timespec until{time_t(nanos / kNanos), long(nanos % kNanos)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) ==
         EINTR)
    ;
}

class SleepTask final : public Task {
public:
  SleepTask(QueueClock &clock, double seconds)
      : clock(clock), duration(std::llround(seconds * 1e9)) {}
  Status run(int64_t) override {
    clock.sleep(duration);
    return Status::success();
  }

private:
  QueueClock &clock;
  const std::chrono::nanoseconds duration;
};

/// What is done as always, and takes its own time.
class RealTask final : public Task {
public:
  RealTask(QueueClock &clock, std::unique_ptr<Task> task)
      : clock(clock), task(std::move(task)) {}
  Status run(int64_t iteration) override {
    Status status = task->run(iteration);
    clock.advanceTo(Clock::now());
    return status;
  }

private:
  QueueClock &clock;
  const std::unique_ptr<Task> task;
};

/// Where the event is there already the next command could have begun as soon
/// as it was; a queue that had to be woken begins when it is awake.
class TimedWaitTask final : public Task {
public:
  TimedWaitTask(QueueClock &clock, const EventBoard &events, uint32_t event,
                std::unique_ptr<Task> task)
      : clock(clock), events(events), event(event), task(std::move(task)) {}
  Status run(int64_t iteration) override {
    Clock::time_point begin = Clock::now();
    Status status = task->run(iteration);
    Clock::time_point at = events.recordedAt(event);
    clock.advanceTo(at > begin ? Clock::now() : at);
    return status;
  }

private:
  QueueClock &clock;
  const EventBoard &events;
  const uint32_t event;
  const std::unique_ptr<Task> task;
};
} // namespace

void QueueClock::start() {
  slackBefore = prctl(PR_GET_TIMERSLACK);
  prctl(PR_SET_TIMERSLACK, 1);
  free = Clock::now();
}

void QueueClock::finish() {
  if (free > Clock::now())
    sleepUntil(free);
  prctl(PR_SET_TIMERSLACK, slackBefore);
}

void QueueClock::sleep(std::chrono::nanoseconds duration) {
  free += duration;
  if (free - Clock::now() >= kLeastSleep)
    sleepUntil(free);
}

Expected<std::unique_ptr<Task>> makeTimedTask(const TaskContext &context,
                                              const Command &command,
                                              QueueClock &clock,
                                              double seconds) {
  using Made = std::unique_ptr<Task>;
  if (isComputation(command))
    return Made(std::make_unique<SleepTask>(clock, seconds));
  Expected<Made> task = makeTask(context, command);
  if (!task.ok() || std::holds_alternative<RecordEvent>(command.operation))
    return task;
  if (const auto *wait = std::get_if<WaitEvent>(&command.operation))
    return Made(std::make_unique<TimedWaitTask>(clock, context.events,
                                                wait->event, std::move(*task)));
  return Made(std::make_unique<RealTask>(clock, std::move(*task)));
}

} // namespace tandem::rt::cpu
