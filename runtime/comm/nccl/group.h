//===- group.h - a communicator of processes --------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_COMM_NCCL_GROUP_H
#define TANDEM_RT_COMM_NCCL_GROUP_H

#include "comm/nccl/api.h"
#include "tandem_rt/status.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace tandem::rt::nccl {

/// The library's functions, loaded by who asks first: libnccl.so.2 in `folder`,
/// or, if that is empty, as the loader finds it. Fails where it is missing or
/// too old.
Expected<const Api *> load(const std::string &folder);

Expected<UniqueId> makeId(const Api &api);

/// How many multiprocessors a collective may take, as TANDEM_MAX_CTAS says; the
/// default, which nobody has measured, is NCCL's own choice (kUndefined). Fails
/// for what is no number from 1 on.
Expected<int> maxCtas();

/// How long a call may take that waits for other processes, and what ends it
/// before that: an error of this function.
struct Patience {
  std::chrono::milliseconds limit = {};
  std::function<Status()> goesOn = [] { return Status::success(); };
};

/// A member's end of a communicator, which does not block: what a call has
/// begun is awaited with patience. Between begin() and end() sends and receives
/// are one thing. What is put into a stream is done in the order of calls, by
/// all members. Used by one thread, but for abort().
class Group {
public:
  Group(const Api &api, Patience patience, int maxCtas = kUndefined)
      : api(api), patience(std::move(patience)), maxCtas(maxCtas) {}
  ~Group() { abort(); }
  Group(const Group &) = delete;
  Group &operator=(const Group &) = delete;

  /// All `size` members call it with one id; it waits for them.
  Status connect(const UniqueId &id, int size, int rank);
  /// Of a part of another group: the members with one color, ordered by key.
  /// All members of the other one call it.
  Status split(const Group &whole, int color, int key);

  Status begin();
  Status send(const void *source, size_t bytes, int peer, Stream stream);
  Status receive(void *destination, size_t bytes, int peer, Stream stream);
  Status end();
  /// Everyone's bytes by rank; in place where the source is its own part.
  Status allGather(const void *source, void *destination, size_t bytes,
                   Stream stream);

  /// What has gone wrong since, on this member.
  Status poll() const;
  /// Ends what is in streams, here; the group is as before connect().
  void abort();
  bool isConnected() const { return comm != nullptr; }

private:
  Status check(Result result, const char *what) const;
  Status await(Result result, const char *what) const;

  const Api &api;
  const Patience patience;
  const int maxCtas;
  Comm comm = nullptr;
};

} // namespace tandem::rt::nccl

#endif // TANDEM_RT_COMM_NCCL_GROUP_H
