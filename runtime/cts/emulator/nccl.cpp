//===- nccl.cpp - NCCL of the emulated GPU --------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Does what NCCL defines for the calls that are made, among ranks that are
// threads or processes of this machine, and refuses what NCCL refuses. What
// would hang there hangs here, until it is aborted. Messages whose sizes differ
// are an error here, and undefined there.
//
//===----------------------------------------------------------------------===//

#include "comm/nccl/api.h"
#include "emulator.h"
#include "links.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <random>
#include <utility>

using namespace tandem::rt::nccl;
namespace cuda = tandem::rt::cuda;
namespace emulated = tandem::rt::cuda::emulated;

namespace {
enum Kind : uint32_t { Data, Split };

/// One lock for all, taken behind that of streams.
std::recursive_mutex mutex;

/// A member's end of a communicator. Lives as long as work in streams.
struct State {
  explicit State(std::string name) : name(std::move(name)) {}

  void open(int ownRank, int ownSize) {
    rank = ownRank, size = ownSize;
    cuda::CUuuid id = emulated::presentId();
    greeting = std::string(id.bytes, sizeof id.bytes);
    links = std::make_unique<emulated::Links>(name, rank, size, greeting);
  }
  /// Goes on with what is under way.
  void advance();
  /// Also while a part comes to be, of which others have still to hear.
  Result getResult() const {
    bool isBusy = result == kSuccess && (part || !links->isFlushed());
    return isBusy ? kInProgress : result;
  }
  void split(std::shared_ptr<State> made, int color, int key);
  void fail(Result why, const std::string &text) {
    if (result == kSuccess || result == kInProgress)
      result = why, words = text;
  }

  const std::string name;
  int rank = 0, size = 0, numSplits = 0;
  std::string greeting = {};
  std::unique_ptr<emulated::Links> links = {};
  Result result = kInProgress; ///< Until all are connected.
  std::string words = {};
  bool isAborted = false;

private:
  void finishSplit();

  /// The communicator that comes to be, this member's color, and the colors and
  /// keys of those who have told.
  std::shared_ptr<State> part = {};
  int partColor = 0;
  std::map<int, std::pair<int, int>> told = {};
};

void State::split(std::shared_ptr<State> made, int color, int key) {
  part = std::move(made);
  partColor = color;
  told.clear();
  int numbers[2] = {color, key};
  for (int peer = 0; peer < size; ++peer)
    links->send(peer, Split,
                {reinterpret_cast<char *>(numbers), sizeof numbers});
}

/// Members are those with one color, by key.
void State::finishSplit() {
  for (int peer = 0; peer < size; ++peer)
    if (!told.contains(peer))
      if (auto text = links->take(peer, Split)) {
        int numbers[2];
        std::memcpy(numbers, text->data(), sizeof numbers);
        told[peer] = {numbers[0], numbers[1]};
      }
  if (int(told.size()) < size)
    return;
  std::vector<std::pair<int, int>> members; // keys and ranks
  for (const auto &[peer, numbers] : told)
    if (numbers.first == partColor)
      members.emplace_back(numbers.second, peer);
  std::sort(members.begin(), members.end());
  auto place = std::find_if(members.begin(), members.end(), [&](auto &member) {
    return member.second == rank;
  });
  part->open(int(place - members.begin()), int(members.size()));
  part = nullptr;
}

void State::advance() {
  std::lock_guard lock(mutex);
  if (!links || isAborted)
    return;
  links->pump();
  if (part)
    finishSplit();
  if (result != kInProgress || !links->isComplete() || !links->isFlushed())
    return;
  result = kSuccess;
  for (const auto &[peer, other] : links->getGreetings())
    if (other == greeting)
      fail(kInvalidUsage, "Duplicate GPU detected : rank " +
                              std::to_string(rank) + " and rank " +
                              std::to_string(peer) + " both on one device");
}

//===----------------------------------------------------------------------===//
// What is put into streams
//===----------------------------------------------------------------------===//

struct Part {
  bool isSend;
  int peer;
  uint64_t address;
  size_t bytes;
};

/// Whether this is the operation that `variable` numbers, from 1 on.
bool isChosen(const char *variable, int64_t number) {
  return emulated::setting(variable, 0) == number;
}

class Exchange final : public emulated::Operation {
public:
  Exchange(std::shared_ptr<State> state, std::vector<Part> parts)
      : state(std::move(state)), parts(std::move(parts)) {}

  cuda::CUresult begin() override;
  bool isDone() override;
  cuda::CUresult end() override { return result; }

private:
  void take(Part &part);

  std::shared_ptr<State> state;
  std::vector<Part> parts;
  bool isStuck = false;
  cuda::CUresult result = cuda::kSuccess;
};

cuda::CUresult Exchange::begin() {
  static int64_t count = 0;
  std::lock_guard lock(mutex);
  ++count;
  isStuck = isChosen("TANDEM_EMULATED_NCCL_HANGS", count);
  if (isChosen("TANDEM_EMULATED_NCCL_FAILS", count))
    state->fail(kRemoteError, "an emulated failure");
  if (isStuck || state->isAborted || state->result != kSuccess)
    return cuda::kSuccess;
  for (const Part &part : parts) {
    if (!part.isSend)
      continue;
    const char *data = emulated::hostOf(part.address, part.bytes);
    if (!data)
      return emulated::fail(cuda::kIllegalAddress,
                            "NCCL sends what is not the device's");
    emulated::touch(part.address, part.bytes, false);
    state->links->send(part.peer, Data, {data, part.bytes});
  }
  std::erase_if(parts, [](const Part &part) { return part.isSend; });
  return cuda::kSuccess;
}

void Exchange::take(Part &part) {
  std::optional<std::string> text = state->links->take(part.peer, Data);
  if (!text)
    return;
  char *data = emulated::hostOf(part.address, part.bytes);
  if (data && text->size() == part.bytes)
    emulated::touch(part.address, part.bytes, true),
        std::memcpy(data, text->data(), text->size());
  else
    result = emulated::fail(
        data ? cuda::kLaunchFailed : cuda::kIllegalAddress,
        data ? "NCCL: rank " + std::to_string(part.peer) + " sends " +
                   std::to_string(text->size()) + " bytes to rank " +
                   std::to_string(state->rank) + ", which expects " +
                   std::to_string(part.bytes)
             : "NCCL receives into what is not the device's");
  part.peer = -1;
}

/// Of one peer in their order.
bool Exchange::isDone() {
  std::lock_guard lock(mutex);
  if (state->isAborted)
    return true;
  if (isStuck || state->result != kSuccess)
    return false;
  state->links->pump();
  std::vector<bool> waits(size_t(state->size), false);
  for (Part &part : parts) {
    int peer = part.peer;
    if (!waits[size_t(peer)])
      take(part);
    if (part.peer < 0)
      continue;
    waits[size_t(peer)] = true;
    if (state->links->isLost(peer))
      state->fail(kRemoteError, "rank " + std::to_string(peer) + " has ended");
  }
  std::erase_if(parts, [](const Part &part) { return part.peer < 0; });
  return parts.empty() && state->links->isFlushed();
}

/// The calls between ncclGroupStart and ncclGroupEnd of a thread.
struct Call {
  std::shared_ptr<State> state;
  Stream stream;
  std::vector<Part> parts;
};
thread_local int depth = 0;
thread_local std::vector<Call> calls;
thread_local std::string lastWords;

Result refuse(Result why, const std::string &text) {
  lastWords = text;
  return why;
}

Result putIntoStreams() {
  std::vector<Call> taken = std::exchange(calls, {});
  for (Call &call : taken) {
    auto make = [state = call.state, parts = call.parts] {
      return std::make_unique<Exchange>(state, parts);
    };
    auto stream = static_cast<cuda::CUstream>(call.stream);
    if (emulated::enqueueOperation(stream, make, "NCCL") != cuda::kSuccess)
      return refuse(kUnhandledCudaError, "the stream takes no more");
  }
  return kSuccess;
}

Result check(const State &state, const Part &part) {
  if (part.peer < 0 || part.peer >= state.size)
    return refuse(kInvalidArgument, "peer " + std::to_string(part.peer) +
                                        " of " + std::to_string(state.size) +
                                        " ranks");
  if (!part.address && part.bytes)
    return refuse(kInvalidArgument, "a buffer is null");
  return kSuccess;
}

Result add(std::shared_ptr<State> state, Stream stream,
           std::vector<Part> parts) {
  std::lock_guard lock(mutex);
  if (state->result != kSuccess)
    return refuse(state->result == kInProgress ? kInvalidUsage : state->result,
                  "the communicator is not ready");
  for (const Part &part : parts)
    if (Result result = check(*state, part); result != kSuccess)
      return result;
  auto known = std::find_if(calls.begin(), calls.end(), [&](const Call &call) {
    return call.state == state;
  });
  if (known == calls.end())
    calls.push_back({state, stream, std::move(parts)});
  else if (known->stream != stream)
    return refuse(kInvalidUsage, "a group has two streams");
  else
    known->parts.insert(known->parts.end(), parts.begin(), parts.end());
  return kSuccess;
}

size_t widthOf(int type) {
  constexpr size_t kWidths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && size_t(type) < std::size(kWidths) ? kWidths[type] : 0;
}

Result checkConfig(const Config *config) {
  if (!config || config->magic != Config().magic)
    return refuse(kInvalidArgument, "ncclConfig_t is not initialized");
  if (config->blocking != 0)
    return refuse(kInvalidArgument,
                  "emulated communicators do not block, expected blocking = 0");
  constexpr int64_t kAny = kUndefined;
  int64_t most = emulated::setting("TANDEM_EMULATED_NCCL_CTAS", kAny);
  if (config->maxCtas != kUndefined && config->maxCtas < 1)
    return refuse(kInvalidArgument, "maxCTAs is below 1");
  if (most != kAny && (config->maxCtas == kUndefined || config->maxCtas > most))
    return refuse(kInvalidArgument, "maxCTAs is above the emulated ones");
  return kSuccess;
}
} // namespace

struct tandem::rt::nccl::ncclComm {
  std::shared_ptr<State> state;
};

namespace {
Result addAndPut(Comm comm, Stream stream, std::vector<Part> parts) {
  Result result = add(comm->state, stream, std::move(parts));
  return result == kSuccess && depth == 0 ? putIntoStreams() : result;
}
} // namespace

extern "C" {
#define TANDEM_DEFINE(result, symbol, name, parameters)                        \
  TANDEM_EXPORT result symbol parameters;
TANDEM_NCCL(TANDEM_DEFINE)

Result ncclGetVersion(int *version) {
  *version = int(emulated::setting("TANDEM_EMULATED_NCCL", 22809));
  return kSuccess;
}

Result ncclGetUniqueId(UniqueId *id) {
  *id = {};
  std::random_device source;
  for (int i = 0; i < 32; ++i)
    id->bytes[i] = "0123456789abcdef"[source() % 16];
  return kSuccess;
}

Result ncclCommInitRankConfig(Comm *comm, int ranks, UniqueId id, int rank,
                              Config *config) {
  std::lock_guard lock(mutex);
  if (Result result = checkConfig(config); result != kSuccess)
    return result;
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(kInvalidArgument, "rank " + std::to_string(rank) + " of " +
                                        std::to_string(ranks));
  auto state = std::make_shared<State>(id.bytes);
  state->open(rank, ranks);
  *comm = new ncclComm{std::move(state)};
  return kInProgress;
}

Result ncclCommSplit(Comm comm, int color, int key, Comm *made,
                     Config *config) {
  std::lock_guard lock(mutex);
  if (Result result = checkConfig(config); result != kSuccess)
    return result;
  State &whole = *comm->state;
  if (whole.result != kSuccess || color < 0)
    return refuse(kInvalidArgument, "the communicator cannot be split");
  auto part = std::make_shared<State>(whole.name + "." +
                                      std::to_string(++whole.numSplits) + "." +
                                      std::to_string(color));
  whole.split(part, color, key);
  *made = new ncclComm{std::move(part)};
  return kInProgress;
}

Result ncclCommGetAsyncError(Comm comm, Result *error) {
  comm->state->advance();
  std::lock_guard lock(mutex);
  *error = comm->state->getResult();
  return kSuccess;
}

Result ncclCommAbort(Comm comm) {
  std::lock_guard lock(mutex);
  comm->state->isAborted = true;
  comm->state->links = nullptr;
  delete comm;
  return kSuccess;
}

const char *ncclGetErrorString(Result result) {
  switch (result) {
  case kUnhandledCudaError:
    return "unhandled cuda error";
  case kSystemError:
    return "unhandled system error";
  case kInvalidArgument:
    return "invalid argument";
  case kInvalidUsage:
    return "invalid usage";
  case kRemoteError:
    return "remote process exited or there was a network error";
  case kInProgress:
    return "NCCL operation in progress";
  default:
    return result == kSuccess ? "no error" : "internal error";
  }
}

const char *ncclGetLastError(Comm comm) {
  std::lock_guard lock(mutex);
  if (comm && !comm->state->words.empty())
    lastWords = comm->state->words;
  return lastWords.c_str();
}

Result ncclGroupStart() {
  ++depth;
  return kSuccess;
}
Result ncclGroupEnd() {
  if (depth == 0)
    return refuse(kInvalidUsage, "a group ends that has not begun");
  return --depth ? kSuccess : putIntoStreams();
}

Result ncclSend(const void *source, size_t count, int type, int peer, Comm comm,
                Stream stream) {
  return addAndPut(comm, stream,
                   {{true, peer, uint64_t(source), count * widthOf(type)}});
}
Result ncclRecv(void *destination, size_t count, int type, int peer, Comm comm,
                Stream stream) {
  return addAndPut(
      comm, stream,
      {{false, peer, uint64_t(destination), count * widthOf(type)}});
}

/// In place or without an overlap, as NCCL has it.
Result ncclAllGather(const void *source, void *destination, size_t count,
                     int type, Comm comm, Stream stream) {
  const State &state = *comm->state;
  size_t bytes = count * widthOf(type);
  uint64_t from = uint64_t(source), to = uint64_t(destination);
  uint64_t own = to + uint64_t(state.rank) * bytes;
  bool overlaps = from < to + uint64_t(state.size) * bytes && to < from + bytes;
  if (overlaps && from != own)
    return refuse(kInvalidArgument, "the buffers overlap");
  std::vector<Part> parts;
  for (int peer = 0; peer < state.size; ++peer) {
    parts.push_back({true, peer, from, bytes});
    parts.push_back({false, peer, to + uint64_t(peer) * bytes, bytes});
  }
  return addAndPut(comm, stream, std::move(parts));
}
}
