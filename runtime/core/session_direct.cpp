//===- session_direct.cpp - whole tensors in memory of the device ---------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/session_impl.h"

#include <algorithm>

namespace tandem::rt {

namespace {
std::string nameOf(const Whole &whole) {
  return concat("'", whole.role, "/", whole.name, "'");
}

Status check(const std::vector<Whole> &wholes, uint32_t index,
             const DeviceTensor &value) {
  if (index >= wholes.size())
    return errorOf("tensor is ", index, ", expected less than ", wholes.size());
  const Whole &whole = wholes[index];
  if (value.type != whole.type || value.shape != whole.shape)
    return errorOf(nameOf(whole), " is ", typeName(value.type, value.shape),
                   ", expected ", typeName(whole.type, whole.shape));
  return Status::success();
}

Status notDirect(const Whole &whole) {
  return errorOf(nameOf(whole), " is in memory of the device, expected it in "
                                "the host's: its slices are of several "
                                "processes, terms of a sum, or of the host");
}
} // namespace

namespace {
uint32_t memorySpaceOf(const Program &, const Argument &argument) {
  return argument.memorySpace;
}
uint32_t memorySpaceOf(const Program &program, const Result &result) {
  bool isUpdate = result.place.space == Space::Argument;
  return isUpdate ? program.arguments[result.place.index].memorySpace
                  : result.memorySpace;
}
} // namespace

template <typename Entry>
bool Session::Impl::isDirect(const Entry &entry) const {
  uint32_t space = memorySpaceOf(program, entry);
  return program.memorySpaces[space].kind == MemoryKind::Device &&
         entry.form.reduce.empty();
}

bool Session::isDirectArgument(uint32_t index) const {
  return index < impl->arguments.size() &&
         std::ranges::all_of(
             impl->arguments[index].members,
             [&](uint32_t member) {
               return impl->isDirect(impl->program.arguments[member]);
             });
}

bool Session::isDirectResult(uint32_t index) const {
  auto isHere = [&](int64_t rank) {
    return impl->values().place.find(rank).has_value();
  };
  auto isOne = [&](uint32_t member) {
    const Result &result = impl->program.results[member];
    return impl->isDirect(result) &&
           std::ranges::all_of(owners(impl->program, result.form), isHere);
  };
  return index < impl->results.size() &&
         std::ranges::all_of(impl->results[index].members, isOne);
}

/// Calls `copy` for each slice of ranks of this process, with the buffer and
/// where it lies in the whole.
template <typename Entry, typename Copy>
Status Session::Impl::copyDirectly(const Entry &entry,
                                   const RankBuffers &buffers,
                                   Copy copy) const {
  const std::vector<int64_t> &ranks = values().place.job.ranks;
  SliceLayout layout{program, entry.form, entry.globalShape, entry.type};
  for (size_t own = 0; own < ranks.size(); ++own)
    if (!buffers[own])
      continue;
    else if (Status status =
                 copy(*buffers[own], blockOf(layout, entry.part, ranks[own]));
             !status.ok())
      return errorOf("'", entry.role, "/", entry.name, "': ", status.message());
  return Status::success();
}

Status Session::setArgument(uint32_t index, const DeviceTensor &value) {
  ValueStore::Impl &store = impl->values();
  Use use(store);
  Status status = use.status();
  if (status.ok())
    status = check(impl->arguments, index, value);
  if (status.ok() && !isDirectArgument(index))
    status = notDirect(impl->arguments[index]);
  if (!status.ok())
    return status;
  const Whole &whole = impl->arguments[index];
  DevicePlace place{value.address, value.stream};
  for (uint32_t member : whole.members)
    if (status = impl->copyDirectly(
            impl->program.arguments[member], impl->argumentBuffers[member],
            [&](Buffer &buffer, const Block &block) {
              return buffer.copyFrom(block, elementBytes(value.type), place);
            });
        !status.ok())
      return status;
  std::lock_guard lock(store.listing);
  store.damaged.erase({whole.role, whole.name});
  return status;
}

/// Where several ranks have a slice, each is the same.
Status Session::getResult(uint32_t index, const DeviceTensor &value) const {
  Use use(impl->values());
  Status status = use.status();
  if (status.ok())
    status = impl->checkComputed();
  if (status.ok())
    status = check(impl->results, index, value);
  if (status.ok() && !isDirectResult(index))
    status = notDirect(impl->results[index]);
  if (!status.ok())
    return status;
  DevicePlace place{value.address, value.stream};
  for (uint32_t member : impl->results[index].members)
    if (status = impl->copyDirectly(
            impl->program.results[member], impl->buffersOf(member),
            [&](const Buffer &buffer, const Block &block) {
              return buffer.copyTo(block, elementBytes(value.type), place);
            });
        !status.ok())
      return status;
  return status;
}

} // namespace tandem::rt
