//===- streams.cpp - work in any order that is allowed --------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "emulator.h"

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <set>

namespace tandem::rt::cuda {
struct CUevent_st {
  /// How often it was recorded, as enqueued and as done.
  uint64_t asked = 0, done = 0;
  int64_t time = 0;
};

struct CUstream_st {
  struct Item {
    emulated::Task task;
    /// Ready once the event was recorded so often.
    std::shared_ptr<CUevent_st> event = nullptr;
    uint64_t needed = 0;
  };
  std::deque<Item> items;
};
} // namespace tandem::rt::cuda

namespace tandem::rt::cuda::emulated {

namespace {
/// One lock for everything: the emulated GPU does one thing at a time.
std::recursive_mutex mutex;
CUstream_st nullStream;
std::set<CUstream> streams = {&nullStream};
std::set<std::shared_ptr<CUevent_st>> events;
CUresult failure = kSuccess;
std::string failureText;

CUstream_st &get(CUstream stream) { return stream ? *stream : nullStream; }

std::shared_ptr<CUevent_st> find(CUevent event) {
  for (const std::shared_ptr<CUevent_st> &known : events)
    if (known.get() == event)
      return known;
  return nullptr;
}

bool isReady(const CUstream_st &stream) {
  if (stream.items.empty())
    return false;
  const CUstream_st::Item &item = stream.items.front();
  return !item.event || item.event->done >= item.needed;
}

/// Does one thing that is ready, of a stream that is drawn.
bool doOne() {
  std::vector<CUstream_st *> ready;
  for (CUstream stream : streams)
    if (isReady(*stream))
      ready.push_back(stream);
  if (ready.empty())
    return false;
  CUstream_st &stream = *ready[random()() % ready.size()];
  CUstream_st::Item item = std::move(stream.items.front());
  stream.items.pop_front();
  if (item.task && failure == kSuccess)
    if (CUresult error = item.task(); error != kSuccess && failure == kSuccess)
      fail(error, "");
  return true;
}

template <typename Condition> CUresult doUntil(Condition condition) {
  std::lock_guard lock(mutex);
  while (failure == kSuccess && !condition())
    if (!doOne())
      return fail(kLaunchFailed,
                  "streams wait for events that nothing will record");
  return failure;
}
} // namespace

std::mt19937_64 &random() {
  static std::mt19937_64 engine(uint64_t(setting("TANDEM_EMULATED_SEED", 0)));
  return engine;
}

void enqueue(CUstream stream, Task task) {
  std::lock_guard lock(mutex);
  get(stream).items.push_back({std::move(task)});
}

CUresult finish(CUstream stream) {
  return doUntil([&] { return get(stream).items.empty(); });
}

CUresult finishAll() {
  return doUntil([] {
    for (CUstream stream : streams)
      if (!stream->items.empty())
        return false;
    return true;
  });
}

CUresult getFailure() {
  std::lock_guard lock(mutex);
  return failure;
}
std::string getFailureText() {
  std::lock_guard lock(mutex);
  return failureText;
}
CUresult fail(CUresult error, const std::string &text) {
  std::lock_guard lock(mutex);
  if (failure == kSuccess) {
    failure = error;
    failureText = text;
  }
  return failure;
}

CUstream createStream() {
  std::lock_guard lock(mutex);
  CUstream stream = new CUstream_st;
  streams.insert(stream);
  return stream;
}
void destroyStream(CUstream stream) {
  std::lock_guard lock(mutex);
  finish(stream);
  streams.erase(stream);
  delete stream;
}

CUevent createEvent() {
  std::lock_guard lock(mutex);
  auto event = std::make_shared<CUevent_st>();
  events.insert(event);
  return event.get();
}
void destroyEvent(CUevent event) {
  std::lock_guard lock(mutex);
  events.erase(find(event));
}

void recordEvent(CUevent event, CUstream stream) {
  std::lock_guard lock(mutex);
  std::shared_ptr<CUevent_st> shared = find(event);
  uint64_t number = ++shared->asked;
  get(stream).items.push_back({[shared, number] {
    shared->done = std::max(shared->done, number);
    shared->time = std::chrono::nanoseconds(
                       std::chrono::steady_clock::now().time_since_epoch())
                       .count();
    return kSuccess;
  }});
}

void waitForEvent(CUstream stream, CUevent event) {
  std::lock_guard lock(mutex);
  std::shared_ptr<CUevent_st> shared = find(event);
  get(stream).items.push_back({nullptr, shared, shared->asked});
}

int64_t timeOf(CUevent event) {
  std::lock_guard lock(mutex);
  return event->time;
}

} // namespace tandem::rt::cuda::emulated
