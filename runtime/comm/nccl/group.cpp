//===- group.cpp - a communicator of processes ----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/nccl/group.h"
#include "core/text.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <thread>
#include <type_traits>
#include <utility>

namespace tandem::rt::nccl {

namespace {
constexpr const char *kLibrary = "libnccl.so.2";

struct Loaded {
  Api api = {};
  Status status;
};

std::string versionText(int version) {
  return concat(version / 10000, ".", version % 10000 / 100, ".",
                version % 100);
}

/// The version first: an older library lacks other functions.
Loaded loadFrom(const std::string &folder) {
  Loaded loaded;
  std::string path = folder.empty() ? kLibrary : concat(folder, "/", kLibrary);
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    loaded.status =
        errorOf("several processes need NCCL, cannot load ", kLibrary, ": ",
                reason ? reason : "unknown error", ", expected version ",
                versionText(kOldestVersion), " or later");
    return loaded;
  }
  std::string missing;
  auto find = [&](const char *name, auto &function) {
    void *symbol = dlsym(library, name);
    if (!symbol && missing.empty())
      missing = name;
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
  int version = 0;
  find("ncclGetVersion", loaded.api.getVersion);
  if (missing.empty() && loaded.api.getVersion(&version) == kSuccess &&
      version < kOldestVersion) {
    loaded.status =
        errorOf("NCCL is of version ", versionText(version), ", expected ",
                versionText(kOldestVersion), " or later");
    return loaded;
  }
#define TANDEM_FIND(result, symbol, name, parameters)                          \
  find(#symbol, loaded.api.name);
  TANDEM_NCCL(TANDEM_FIND)
#undef TANDEM_FIND
  if (!missing.empty())
    loaded.status = errorOf(kLibrary, " has no ", missing);
  return loaded;
}
} // namespace

Expected<const Api *> load(const std::string &folder) {
  static const Loaded loaded = loadFrom(folder);
  if (!loaded.status.ok())
    return loaded.status;
  return &loaded.api;
}

Expected<int> maxCtas() {
  const char *text = std::getenv("TANDEM_MAX_CTAS");
  if (!text)
    return kUndefined;
  const char *end = text + std::strlen(text);
  int value = 0;
  auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 1)
    return errorOf("environment variable TANDEM_MAX_CTAS is '", text,
                   "', expected how many multiprocessors a collective may "
                   "take, from 1 on");
  return value;
}

Expected<UniqueId> makeId(const Api &api) {
  UniqueId id = {};
  if (Result result = api.getUniqueId(&id); result != kSuccess)
    return errorOf("NCCL cannot make an id: ", api.getErrorString(result));
  return id;
}

Status Group::check(Result result, const char *what) const {
  if (result == kSuccess)
    return Status::success();
  const char *last = api.getLastError(comm);
  bool isTold = last && *last;
  return errorOf("NCCL cannot ", what, ": ", api.getErrorString(result),
                 isTold ? " (" : "", isTold ? last : "", isTold ? ")" : "");
}

Status Group::await(Result result, const char *what) const {
  using namespace std::chrono_literals;
  auto deadline = std::chrono::steady_clock::now() + patience.limit;
  while (result == kInProgress) {
    Result state = kSuccess;
    result = api.commGetAsyncError(comm, &state);
    if (result == kSuccess)
      result = state;
    if (result != kInProgress)
      break;
    if (Status status = patience.goesOn(); !status.ok())
      return status;
    if (std::chrono::steady_clock::now() > deadline)
      return errorOf("NCCL did not ", what, " within ", patience.limit.count(),
                     " ms: a process did not come");
    std::this_thread::sleep_for(100us);
  }
  return check(result, what);
}

Status Group::connect(const UniqueId &id, int size, int rank) {
  abort();
  Config config;
  config.maxCtas = maxCtas;
  Result result = api.commInitRankConfig(&comm, size, id, rank, &config);
  return await(result, "connect the processes");
}

Status Group::split(const Group &whole, int color, int key) {
  abort();
  Config config;
  config.maxCtas = maxCtas;
  Result result = api.commSplit(whole.comm, color, key, &comm, &config);
  // The new one is not there before the other one is ready again.
  Status status = whole.await(result, "split the processes");
  if (status.ok() && !comm)
    status = errorOf("NCCL made no communicator of a part of the processes");
  return status.ok() ? await(kInProgress, "split the processes") : status;
}

Status Group::begin() { return check(api.groupStart(), "begin a group"); }

Status Group::send(const void *source, size_t bytes, int peer, Stream stream) {
  return check(api.send(source, bytes, kUint8, peer, comm, stream), "send");
}

Status Group::receive(void *destination, size_t bytes, int peer,
                      Stream stream) {
  return check(api.receive(destination, bytes, kUint8, peer, comm, stream),
               "receive");
}

Status Group::end() { return await(api.groupEnd(), "start a group"); }

Status Group::allGather(const void *source, void *destination, size_t bytes,
                        Stream stream) {
  return await(api.allGather(source, destination, bytes, kUint8, comm, stream),
               "start an all-gather");
}

Status Group::poll() const {
  Result state = kSuccess;
  if (!comm)
    return Status::success();
  Result result = api.commGetAsyncError(comm, &state);
  if (result == kSuccess && state == kInProgress)
    return Status::success();
  return check(result == kSuccess ? state : result, "go on");
}

void Group::abort() {
  if (Comm mine = std::exchange(comm, nullptr))
    api.commAbort(mine);
}

} // namespace tandem::rt::nccl
