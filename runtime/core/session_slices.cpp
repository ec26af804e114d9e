//===- session_slices.cpp - slices of stored values -----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/session_impl.h"
#include "tandem_rt/read_guard.h"

namespace tandem::rt {

namespace {
/// A part lies in its whole.
Shape addOffset(Shape offsets, const std::optional<Part> &part) {
  if (part)
    offsets[part->dim] += part->offset;
  return offsets;
}
} // namespace

Expected<Slice> Session::Impl::sliceOf(uint32_t member, int64_t rank) const {
  const Argument &argument = program.arguments[member];
  SliceLayout layout{program, argument.form, argument.globalShape,
                     argument.type};
  std::optional<Box> box = boxOf(layout, rank);
  if (!box)
    return errorOf("'", argument.role, "/", argument.name, "' has form ",
                   formText(program, argument.form),
                   ", expected one box of it on each rank");
  return Slice{member, rank, addOffset(box->offsets, argument.part),
               box->extents};
}

Expected<std::vector<Slice>> Session::slices(uint32_t index) const {
  if (index >= impl->arguments.size())
    return errorOf("argument is ", index, ", expected less than ",
                   impl->arguments.size());
  const Whole &whole = impl->arguments[index];
  if (!isStored(whole.role))
    return errorOf("'", whole.role, "/", whole.name,
                   "' is an argument of a step, expected a stored value");
  std::vector<Slice> slices;
  for (uint32_t member : whole.members)
    for (int64_t rank = 0; rank < impl->program.numRanks(); ++rank) {
      if (!holds(impl->program, impl->program.arguments[member].form, rank))
        continue;
      Expected<Slice> slice = impl->sliceOf(member, rank);
      if (!slice.ok())
        return slice.status();
      slices.push_back(std::move(*slice));
    }
  return slices;
}

/// The buffer of a slice, if it is here and has these bytes.
Expected<Buffer *> Session::Impl::find(uint32_t member, int64_t rank,
                                       int64_t offset, size_t bytes) const {
  if (member >= program.arguments.size())
    return errorOf("slice of argument ", member, ", expected less than ",
                   program.arguments.size());
  const Argument &argument = program.arguments[member];
  std::optional<size_t> own = values().place.find(rank);
  if (!own)
    return errorOf("slice of rank ", rank, ", expected a rank of this process");
  if (!argumentBuffers[member][*own])
    return errorOf("slice of '", argument.role, "/", argument.name,
                   "' of rank ", rank, ", expected one of form ",
                   formText(program, argument.form));
  int64_t size = numElements(argument.localShape) * elementBytes(argument.type);
  if (offset < 0 || offset > size || bytes > size_t(size - offset))
    return errorOf(bytes, " bytes at ", offset, " of a slice of '",
                   argument.role, "/", argument.name, "', which has ", size);
  return argumentBuffers[member][*own].get();
}

Status Session::readSlice(uint32_t member, int64_t rank, int64_t offset,
                          std::span<uint8_t> to) const {
  Use use(impl->values());
  if (Status status = use.status(); !status.ok())
    return status;
  if (Status status = impl->checkComputed(); !status.ok())
    return status;
  Expected<Buffer *> buffer = impl->find(member, rank, offset, to.size());
  return buffer.ok() ? (*buffer)->copyOut(offset, to.data(), to.size())
                     : buffer.status();
}

Status Session::writeSlice(uint32_t member, int64_t rank, int64_t offset,
                           std::span<const uint8_t> from) {
  Use use(impl->values());
  if (Status status = use.status(); !status.ok())
    return status;
  Expected<Buffer *> buffer = impl->find(member, rank, offset, from.size());
  if (!buffer.ok())
    return buffer.status();
  ReadGuard guard(from.data(), from.size());
  Status status = (*buffer)->copyIn(offset, from.data(), from.size());
  if (status.ok())
    status = guard.check();
  return status.ok() ? status : errorOf("what is loaded ", status.message());
}

Status Session::beginLoading(const std::string &source) {
  ValueStore::Impl &store = impl->values();
  Use use(store);
  if (Status status = use.status(); !status.ok())
    return status;
  std::lock_guard lock(store.listing);
  for (const Whole &whole : impl->arguments)
    if (isStored(whole.role))
      store.damaged.insert({whole.role, whole.name});
  store.cause = concat("half loaded from ", source);
  return Status::success();
}

Status Session::endLoading() {
  ValueStore::Impl &store = impl->values();
  Use use(store);
  if (Status status = use.status(); !status.ok())
    return status;
  std::lock_guard lock(store.listing);
  for (const Whole &whole : impl->arguments)
    store.damaged.erase({whole.role, whole.name});
  return Status::success();
}

} // namespace tandem::rt
