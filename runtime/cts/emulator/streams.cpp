//===- streams.cpp - streams in a random legal order ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "emulator.h"
#include "order.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

namespace tandem::rt::cuda {
namespace emulated {
namespace {
/// What is done, in one go or by and by.
struct Job {
  Task task = {};
  MakeOperation make = {};
  std::string name = {};
};

struct Node {
  Job job;
  std::vector<size_t> before; ///< Nodes that come first.
  int priority = kLeastPriority;
};
using Nodes = std::vector<Node>;

/// A graph that comes to be. Streams that take part leave at its end.
struct Capture {
  CUstream origin;
  std::thread::id thread = std::this_thread::get_id();
  Nodes nodes = {};
  bool isBroken = false;
};

/// A launch of a graph.
struct Replay {
  std::shared_ptr<const Nodes> nodes;
  std::vector<size_t> pieces; ///< Of the order, where it is watched.
  std::vector<bool> isDone;
  std::vector<std::unique_ptr<Operation>> begun;
};
} // namespace
} // namespace emulated

struct CUevent_st {
  /// How often it was recorded, as enqueued and as done.
  uint64_t asked = 0, done = 0;
  int64_t time = 0;
  /// Recorded in a capture, behind these nodes.
  std::shared_ptr<emulated::Capture> capture = nullptr;
  std::vector<size_t> last = {};
  std::vector<size_t> pieces = {}; ///< Behind which it was recorded.
};

struct CUstream_st {
  struct Item {
    emulated::Job job = {};
    /// Ready once the event was recorded so often.
    std::shared_ptr<CUevent_st> event = nullptr;
    uint64_t needed = 0;
    std::shared_ptr<emulated::Replay> replay = nullptr;
    std::unique_ptr<emulated::Operation> begun = nullptr;
    size_t piece = 0; ///< Of the order, where it is watched.
  };
  std::deque<Item> items;
  int priority = emulated::kLeastPriority;
  CUdevice device = emulated::presentDevice();
  std::shared_ptr<emulated::Capture> capture = nullptr;
  std::vector<size_t> last = {}; ///< Nodes that its next one comes behind.
  /// Pieces of the order that what comes next comes behind.
  std::vector<size_t> pieces = {};
};

struct CUgraph_st {
  std::shared_ptr<const emulated::Nodes> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const emulated::Nodes> nodes;
};
} // namespace tandem::rt::cuda

namespace tandem::rt::cuda::emulated {

namespace {
/// One lock for everything: the emulated GPU does one thing at a time.
std::recursive_mutex mutex;
CUstream_st nullStream;
std::set<CUstream> streams = {&nullStream};
std::set<std::shared_ptr<CUevent_st>> events;
std::set<std::shared_ptr<Capture>> captures;
CUresult failure = kSuccess;
std::string failureText;
std::chrono::hours spent(0); ///< Of nothing but the clock of events.

/// Where somebody watches: the order, what the host has waited for, how many
/// waits and edges there were, and which of them is left out.
std::unique_ptr<Order> order;
std::vector<size_t> hostPieces;
int64_t numWaits = 0, leftOut = 0;

void addAll(std::vector<size_t> &to, const std::vector<size_t> &from) {
  to.insert(to.end(), from.begin(), from.end());
  std::ranges::sort(to);
  auto rest = std::ranges::unique(to);
  to.erase(rest.begin(), rest.end());
}

size_t addPiece(const std::string &name, std::vector<size_t> before) {
  addAll(before, hostPieces);
  return order->add(name, std::move(before));
}

/// Whether a wait or an edge counts.
bool isKept() { return !order || ++numWaits != leftOut; }

CUstream_st &get(CUstream stream) { return stream ? *stream : nullStream; }

std::shared_ptr<CUevent_st> find(CUevent event) {
  for (const std::shared_ptr<CUevent_st> &known : events)
    if (known.get() == event)
      return known;
  return nullptr;
}

/// Something that may be done now: what a stream has in front, or a node of a
/// graph there.
struct Choice {
  CUstream_st *stream;
  size_t node;
  int priority;
};
enum class Found { Work, Waiting, Nothing };

bool isReady(const Job &job, const std::unique_ptr<Operation> &begun,
             size_t piece) {
  if (!job.make || !begun)
    return true;
  if (order)
    order->begin(piece);
  bool isDone = begun->isDone();
  if (order)
    order->pause();
  return isDone;
}

/// All that is ready. Operations of others may become so by themselves.
Found listChoices(std::vector<Choice> &choices) {
  bool waits = false;
  for (CUstream stream : streams) {
    if (stream->items.empty())
      continue;
    CUstream_st::Item &item = stream->items.front();
    if (item.replay) {
      const Nodes &nodes = *item.replay->nodes;
      for (size_t i = 0; i < nodes.size(); ++i) {
        auto isDone = [&](size_t node) { return item.replay->isDone[node]; };
        if (isDone(i) || !std::ranges::all_of(nodes[i].before, isDone))
          continue;
        size_t piece = order ? item.replay->pieces[i] : 0;
        if (isReady(nodes[i].job, item.replay->begun[i], piece))
          choices.push_back({stream, i, nodes[i].priority});
        else
          waits = true;
      }
    } else if (item.event && item.event->done < item.needed) {
      continue;
    } else if (isReady(item.job, item.begun, item.piece)) {
      choices.push_back({stream, 0, stream->priority});
    } else {
      waits = true;
    }
  }
  return !choices.empty() ? Found::Work
         : waits          ? Found::Waiting
                          : Found::Nothing;
}

/// Where they are asked for.
void keepFirst(std::vector<Choice> &choices) {
  if (!setting("TANDEM_EMULATED_PRIORITIES", 0))
    return;
  int first = std::ranges::min(choices, {}, &Choice::priority).priority;
  std::erase_if(choices, [first](const Choice &choice) {
    return choice.priority != first;
  });
}

/// Does it, or begins it; true once it is done.
bool perform(const Job &job, std::unique_ptr<Operation> &begun, size_t piece) {
  CUresult error = kSuccess;
  bool isDone = true;
  if (failure != kSuccess)
    return true;
  if (order)
    order->begin(piece);
  if (job.task) {
    error = job.task();
  } else if (job.make && !begun) {
    begun = job.make();
    error = begun->begin();
    isDone = false;
  } else if (job.make) {
    error = begun->end();
  }
  if (order && isDone)
    order->end(piece);
  else if (order)
    order->pause();
  if (error != kSuccess && failure == kSuccess)
    fail(error, "");
  return isDone;
}

/// Does one thing that is ready and is drawn.
Found doOne() {
  std::vector<Choice> choices;
  Found found = listChoices(choices);
  if (found != Found::Work)
    return found;
  keepFirst(choices);
  auto [stream, node, priority] = choices[random()() % choices.size()];
  CUstream_st::Item &item = stream->items.front();
  if (!item.replay) {
    if (perform(item.job, item.begun, item.piece))
      stream->items.pop_front();
    return found;
  }
  Replay &replay = *item.replay;
  replay.isDone[node] = perform((*replay.nodes)[node].job, replay.begun[node],
                                order ? replay.pieces[node] : 0);
  if (std::ranges::find(replay.isDone, false) == replay.isDone.end())
    stream->items.pop_front();
  return found;
}

template <typename Condition> CUresult doUntil(Condition condition) {
  constexpr std::chrono::microseconds kPause(50);
  std::unique_lock lock(mutex);
  while (failure == kSuccess && !condition()) {
    Found found = doOne();
    if (found == Found::Nothing)
      return fail(kLaunchFailed,
                  "streams wait for events that nothing will record");
    if (found == Found::Waiting) {
      lock.unlock();
      std::this_thread::sleep_for(kPause);
      lock.lock();
    }
  }
  return failure;
}

CUresult add(CUstream stream, Job job) {
  CUstream_st &into = get(stream);
  if (!into.capture) {
    size_t piece = 0;
    if (order) {
      piece = addPiece(job.name, into.pieces);
      into.pieces = {piece};
    }
    into.items.push_back({std::move(job)});
    into.items.back().piece = piece;
    return failure;
  }
  Nodes &nodes = into.capture->nodes;
  nodes.push_back({std::move(job), std::move(into.last), into.priority});
  into.last = {nodes.size() - 1};
  return into.capture->isBroken ? kCaptureInvalidated : failure;
}
} // namespace

std::mt19937_64 &random() {
  static std::mt19937_64 engine(uint64_t(setting("TANDEM_EMULATED_SEED", 0)));
  return engine;
}

CUresult enqueue(CUstream stream, Task task, const std::string &name) {
  std::lock_guard lock(mutex);
  return add(stream, {std::move(task), nullptr, name});
}
CUresult enqueueOperation(CUstream stream, MakeOperation make,
                          const std::string &name) {
  std::lock_guard lock(mutex);
  return add(stream, {nullptr, std::move(make), name});
}

static void hostHasWaitedFor(CUstream stream) {
  std::lock_guard lock(mutex);
  if (order)
    addAll(hostPieces, get(stream).pieces);
}

CUresult finish(CUstream stream) {
  if (CUresult broken = breakCapture(); broken != kSuccess)
    return broken;
  CUresult result = doUntil([&] { return get(stream).items.empty(); });
  hostHasWaitedFor(stream);
  return result;
}

CUresult finishAll() {
  if (CUresult broken = breakCapture(); broken != kSuccess)
    return broken;
  CUresult result = doUntil([] {
    return std::ranges::all_of(streams, [](CUstream stream) {
      return stream->items.empty() || stream->device != presentDevice();
    });
  });
  std::lock_guard lock(mutex);
  for (CUstream stream : streams)
    if (stream->device == presentDevice())
      hostHasWaitedFor(stream);
  return result;
}

CUresult query(CUstream stream) {
  if (CUresult broken = breakCapture(); broken != kSuccess)
    return broken;
  std::lock_guard lock(mutex);
  while (failure == kSuccess && !get(stream).items.empty())
    if (doOne() != Found::Work)
      break;
  if (failure != kSuccess)
    return failure;
  if (!get(stream).items.empty())
    return kNotReady;
  hostHasWaitedFor(stream);
  return kSuccess;
}

CUresult finishEvent(CUevent event) {
  if (CUresult broken = breakCapture(); broken != kSuccess)
    return broken;
  std::shared_ptr<CUevent_st> shared;
  uint64_t number = 0;
  {
    std::lock_guard lock(mutex);
    shared = find(event);
    number = shared->asked;
  }
  CUresult result = doUntil([&] { return shared->done >= number; });
  std::lock_guard lock(mutex);
  if (order)
    addAll(hostPieces, shared->pieces);
  return result;
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

CUstream createStream(int priority) {
  std::lock_guard lock(mutex);
  CUstream stream = new CUstream_st{.priority = priority};
  streams.insert(stream);
  return stream;
}
void destroyStream(CUstream stream) {
  doUntil([&] { return stream->items.empty(); });
  std::lock_guard lock(mutex);
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

CUresult recordEvent(CUevent event, CUstream stream) {
  std::lock_guard lock(mutex);
  std::shared_ptr<CUevent_st> shared = find(event);
  CUstream_st &from = get(stream);
  shared->capture = from.capture;
  if (from.capture) {
    shared->last = from.last;
    return from.capture->isBroken ? kCaptureInvalidated : failure;
  }
  uint64_t number = ++shared->asked;
  shared->pieces = from.pieces;
  return add(stream,
             {[shared, number] {
                shared->done = std::max(shared->done, number);
                std::chrono::nanoseconds now(
                    std::chrono::steady_clock::now().time_since_epoch() +
                    spent);
                shared->time = now.count();
                return kSuccess;
              },
              nullptr, "an event"});
}

/// A captured event takes the stream into its capture; in a capture there are
/// no others.
CUresult waitForEvent(CUstream stream, CUevent event) {
  std::lock_guard lock(mutex);
  std::shared_ptr<CUevent_st> shared = find(event);
  CUstream_st &into = get(stream);
  if (!shared->capture && !into.capture) {
    if (!isKept())
      return failure;
    if (order)
      addAll(into.pieces, shared->pieces);
    into.items.push_back({{}, shared, shared->asked});
    if (order) // a wait is a piece that touches nothing
      into.items.back().piece = addPiece("a wait", into.pieces);
    return failure;
  }
  bool isOver = shared->capture && !captures.contains(shared->capture);
  if (isOver)
    return kInvalidValue;
  if (!shared->capture || (into.capture && into.capture != shared->capture)) {
    into.capture->isBroken = true;
    return kCaptureIsolation;
  }
  into.capture = shared->capture;
  addAll(into.last, shared->last);
  return into.capture->isBroken ? kCaptureInvalidated : failure;
}

void spendHour() {
  std::lock_guard lock(mutex);
  spent += std::chrono::hours(1);
}

int64_t timeOf(CUevent event) {
  std::lock_guard lock(mutex);
  return event->time;
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

CUresult beginCapture(CUstream stream) {
  std::lock_guard lock(mutex);
  if (!stream || stream->capture || !stream->items.empty())
    return stream && stream->capture ? kInvalidValue : kCaptureUnsupported;
  stream->capture = std::make_shared<Capture>(stream);
  stream->last.clear();
  captures.insert(stream->capture);
  return failure;
}

CUresult breakCapture() {
  std::lock_guard lock(mutex);
  CUresult result = kSuccess;
  for (const std::shared_ptr<Capture> &capture : captures)
    if (capture->thread == std::this_thread::get_id()) {
      capture->isBroken = true;
      result = kCaptureUnsupported;
    }
  return result;
}

/// All that was captured has to come before the end of the first stream.
CUresult endCapture(CUstream stream, CUgraph *graph) {
  std::lock_guard lock(mutex);
  *graph = nullptr;
  std::shared_ptr<Capture> capture = get(stream).capture;
  if (!capture || capture->origin != stream)
    return kCaptureUnmatched;
  std::set<size_t> ends;
  for (size_t i = 0; i < capture->nodes.size(); ++i) {
    for (size_t before : capture->nodes[i].before)
      ends.erase(before);
    ends.insert(i);
  }
  for (size_t last : stream->last)
    ends.erase(last);
  for (CUstream other : streams)
    if (other->capture == capture) {
      other->capture = nullptr;
      other->last.clear();
    }
  captures.erase(capture);
  if (capture->isBroken)
    return kCaptureInvalidated;
  if (!ends.empty())
    return kCaptureUnjoined;
  *graph =
      new CUgraph_st{std::make_shared<const Nodes>(std::move(capture->nodes))};
  return kSuccess;
}

CUgraphExec instantiate(CUgraph graph, bool keepsPriorities) {
  std::lock_guard lock(mutex);
  auto kept = std::make_shared<Nodes>(*graph->nodes);
  for (Node &node : *kept) {
    std::erase_if(node.before, [](size_t) { return !isKept(); });
    if (!keepsPriorities)
      node.priority = kLeastPriority;
  }
  return new CUgraphExec_st{std::move(kept)};
}

/// What comes behind the launch comes behind each node.
static void addPieces(CUstream_st &stream, Replay &replay) {
  for (const Node &node : *replay.nodes) {
    std::vector<size_t> before = stream.pieces;
    for (size_t other : node.before)
      before.push_back(replay.pieces[other]);
    replay.pieces.push_back(addPiece(node.job.name, std::move(before)));
  }
  stream.pieces = replay.pieces;
}

CUresult launch(CUgraphExec graph, CUstream stream) {
  std::lock_guard lock(mutex);
  if (get(stream).capture)
    return kCaptureUnsupported;
  size_t count = graph->nodes->size();
  if (count == 0)
    return failure;
  auto replay = std::make_shared<Replay>();
  replay->nodes = graph->nodes;
  replay->isDone.resize(count);
  replay->begun.resize(count);
  if (order)
    addPieces(get(stream), *replay);
  get(stream).items.push_back({{}, nullptr, 0, std::move(replay)});
  return failure;
}

void destroy(CUgraph graph) { delete graph; }
void destroy(CUgraphExec graph) { delete graph; }

//===----------------------------------------------------------------------===//
// The order of accesses
//===----------------------------------------------------------------------===//

void touch(CUdeviceptr address, size_t bytes, bool writes) {
  if (!order)
    return;
  std::lock_guard lock(mutex);
  order->touch(address, bytes, writes);
}

/// The host comes behind what it has waited for.
void touchByHost(CUdeviceptr address, size_t bytes, bool writes) {
  std::lock_guard lock(mutex);
  if (!order)
    return;
  size_t piece = addPiece("the host", {});
  order->begin(piece);
  order->touch(address, bytes, writes);
  order->end(piece);
  hostPieces.push_back(piece);
}

/// All streams are empty then.
Order *watchOrder(bool isOn, int64_t left) {
  std::lock_guard lock(mutex);
  order = isOn ? std::make_unique<Order>() : nullptr;
  hostPieces.clear();
  for (CUstream stream : streams)
    stream->pieces.clear();
  for (const std::shared_ptr<CUevent_st> &event : events)
    event->pieces.clear();
  numWaits = 0, leftOut = left;
  return order.get();
}

int64_t countWaits() { return numWaits; }

void forgetFailure() {
  std::lock_guard lock(mutex);
  failure = kSuccess;
  failureText.clear();
  for (CUstream stream : streams)
    stream->items.clear();
}

} // namespace tandem::rt::cuda::emulated
