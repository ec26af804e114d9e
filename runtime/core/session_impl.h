//===- session_impl.h - state of a session ----------------------*- C++ -*-===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RT_CORE_SESSION_IMPL_H
#define TANDEM_RT_CORE_SESSION_IMPL_H

#include "core/text.h"
#include "core/value_store.h"
#include "tandem_rt/session.h"

#include <mutex>

namespace tandem::rt {

struct Session::Impl {
  Program program;
  std::shared_ptr<ValueStore> store;
  std::vector<Whole> arguments, results;
  using Index = std::map<std::pair<std::string, std::string>, int>;
  Index argumentIndex, resultIndex;
  std::vector<uint32_t> inputs;
  /// By argument and result of the Program.
  std::vector<RankBuffers> argumentBuffers, resultBuffers;
  Trace trace;
  std::string hash;
  int64_t steps = 0;
  bool isTimed = false;
  // Refers to all of the above, and so must go first.
  std::unique_ptr<Executor> executor;

  Status index();
  int64_t bytesToAllocate(const Place &place) const;
  Status allocate(const Place &place);
  Status prepare(const Job &job, const SessionOptions &options);
  Status reserve(const Place &place, const SessionOptions &options,
                 ValueStore::Impl::Entries &fresh);
  Status make(const Place &place, const SessionOptions &options);
  Status checkComputed() const;
  const RankBuffers &buffersOf(uint32_t result) const;
  Expected<int64_t> nextStep() const;
  Status scatterMembers(uint32_t index, const TensorView &value,
                        std::optional<int64_t> root);
  Status set(uint32_t index, const TensorView &value,
             std::optional<int64_t> root);
  template <typename Entry>
  Status get(const Entry &entry, const RankBuffers &buffers, void *value,
             std::optional<int64_t> root) const;
  template <typename Get>
  Status getWhole(const char *kind, const std::vector<Whole> &wholes,
                  uint32_t index, const MutableTensorView &value,
                  std::optional<int64_t> root, Get getMember) const;
  template <typename Entry> bool isDirect(const Entry &entry) const;
  template <typename Entry, typename Copy>
  Status copyDirectly(const Entry &entry, const RankBuffers &buffers,
                      Copy copy) const;
  void damage(const Status &failure);
  Expected<Slice> sliceOf(uint32_t member, int64_t rank) const;
  Expected<Buffer *> find(uint32_t member, int64_t rank, int64_t offset,
                          size_t bytes) const;
  Status step();
  ValueStore::Impl &values() const { return store->getImpl(); }
};

/// The right to use the values of a store.
class Use {
public:
  explicit Use(ValueStore::Impl &values) : lock(values.use, std::try_to_lock) {}
  Status status() const {
    return lock ? Status::success()
                : errorOf("values are in use by another thread, expected one "
                          "call at a time of all sessions of a store");
  }

private:
  std::unique_lock<std::mutex> lock;
};

} // namespace tandem::rt

#endif // TANDEM_RT_CORE_SESSION_IMPL_H
