//===- session_values.cpp - whole tensors of a session --------------------===//
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
std::string nameOf(const char *kind, const Whole &whole) {
  return concat(kind, " '", whole.role, "/", whole.name, "'");
}

/// Does this process have, or get, the whole?
bool isHere(const Place &place, std::optional<int64_t> root) {
  return !root || place.find(*root);
}

/// Whether there is such an argument or result, `value` is of its type, and
/// `root` a rank.
template <typename View>
Status check(const Place &place, const char *kind,
             const std::vector<Whole> &wholes, uint32_t index,
             const View &value, std::optional<int64_t> root) {
  if (root && (*root < 0 || *root >= place.job.worldSize))
    return errorOf("root is rank ", *root, ", expected one below ",
                   place.job.worldSize);
  if (index >= wholes.size())
    return errorOf(kind, " is ", index, ", expected less than ", wholes.size());
  const Whole &whole = wholes[index];
  if (isHere(place, root) && !value.data && numElements(whole.shape) != 0)
    return errorOf(nameOf(kind, whole), " has no data");
  if (value.type == whole.type && value.shape == whole.shape)
    return Status::success();
  return errorOf(nameOf(kind, whole), " is ", typeName(value.type, value.shape),
                 ", expected ", typeName(whole.type, whole.shape));
}

/// Room for a part, contiguous.
template <typename Entry> Bytes roomFor(const Entry &entry) {
  return Bytes(
      size_t(numElements(entry.globalShape) * elementBytes(entry.type)));
}
} // namespace

Status Session::Impl::scatterMembers(uint32_t index, const TensorView &value,
                                     std::optional<int64_t> root) {
  const Place &place = values().place;
  for (uint32_t member : arguments[index].members) {
    const Argument &argument = program.arguments[member];
    SliceLayout layout{program, argument.form, argument.globalShape,
                       argument.type};
    const void *whole = value.data;
    Bytes part;
    if (argument.part && isHere(place, root)) {
      part = roomFor(argument);
      copyPart(*argument.part, argument.globalShape, argument.type, value.data,
               part.data());
      whole = part.data();
    }
    Status status =
        scatter(place, layout, argumentBuffers[member], whole, root);
    if (!status.ok())
      return status;
  }
  return Status::success();
}

/// Values of a file may go away while they are read.
Status Session::Impl::set(uint32_t index, const TensorView &value,
                          std::optional<int64_t> root) {
  ValueStore::Impl &store = values();
  Status status = check(store.place, "argument", arguments, index, value, root);
  if (!status.ok())
    return status;
  const Whole &whole = arguments[index];
  size_t bytes = size_t(numElements(whole.shape) * elementBytes(whole.type));
  ReadGuard guard(value.data, isHere(store.place, root) ? bytes : 0);
  status = scatterMembers(index, value, root);
  if (!status.ok())
    return status;
  status = guard.check();
  std::lock_guard lock(store.listing);
  if (status.ok()) {
    store.damaged.erase({whole.role, whole.name});
    return status;
  }
  if (isStored(whole.role)) {
    store.damaged.insert({whole.role, whole.name});
    store.cause = "half read from a file";
  }
  return errorOf(nameOf("argument", whole), " ", status.message());
}

Status Session::setArgument(uint32_t index, const TensorView &value,
                            std::optional<int64_t> root) {
  Use use(impl->values());
  Status status = use.status();
  return status.ok() ? impl->set(index, value, root) : status;
}

Status Session::Impl::checkComputed() const {
  if (!isTimed || steps == 0)
    return Status::success();
  return errorOf("values are not computed: the commands of this session sleep "
                 "for the times that it was given");
}

template <typename Entry>
Status Session::Impl::get(const Entry &entry, const RankBuffers &buffers,
                          void *value, std::optional<int64_t> root) const {
  const Place &place = values().place;
  Bytes part;
  bool isPart = entry.part && isHere(place, root);
  if (isPart)
    part = roomFor(entry);
  void *target = isPart ? part.data() : value;
  SliceLayout layout{program, entry.form, entry.globalShape, entry.type};
  if (Status status = gather(place, layout, buffers, target, root);
      !status.ok())
    return status;
  if (isPart)
    copyIntoWhole(*entry.part, entry.globalShape, entry.type, target, value);
  return Status::success();
}

template <typename Get>
Status
Session::Impl::getWhole(const char *kind, const std::vector<Whole> &wholes,
                        uint32_t index, const MutableTensorView &value,
                        std::optional<int64_t> root, Get getMember) const {
  Use use(values());
  Status status = use.status();
  if (status.ok())
    status = checkComputed();
  if (status.ok())
    status = check(values().place, kind, wholes, index, value, root);
  if (!status.ok())
    return status;
  for (uint32_t member : wholes[index].members)
    if (status = getMember(member); !status.ok())
      return status;
  return status;
}

/// A result that updates an argument lies in its buffers.
const RankBuffers &Session::Impl::buffersOf(uint32_t result) const {
  const BufferRef &place = program.results[result].place;
  return place.space == Space::Argument ? argumentBuffers[place.index]
                                        : resultBuffers[result];
}

Status Session::getArgument(uint32_t index, const MutableTensorView &value,
                            std::optional<int64_t> root) const {
  return impl->getWhole(
      "argument", impl->arguments, index, value, root, [&](uint32_t member) {
        return impl->get(impl->program.arguments[member],
                         impl->argumentBuffers[member], value.data, root);
      });
}

Status Session::getResult(uint32_t index, const MutableTensorView &value,
                          std::optional<int64_t> root) const {
  return impl->getWhole(
      "result", impl->results, index, value, root, [&](uint32_t member) {
        return impl->get(impl->program.results[member], impl->buffersOf(member),
                         value.data, root);
      });
}

namespace {
template <typename Read>
Expected<Tensor> readWhole(const std::vector<Whole> &wholes, const char *kind,
                           uint32_t index, Read read) {
  if (index >= wholes.size())
    return errorOf(kind, " is ", index, ", expected less than ", wholes.size());
  Tensor tensor(wholes[index].type, wholes[index].shape);
  if (Status status = read(tensor.mutableView()); !status.ok())
    return status;
  return tensor;
}
} // namespace

Expected<Tensor> Session::getArgument(uint32_t index) const {
  return readWhole(impl->arguments, "argument", index,
                   [&](const MutableTensorView &value) {
                     return getArgument(index, value);
                   });
}

Expected<Tensor> Session::getResult(uint32_t index) const {
  return readWhole(
      impl->results, "result", index,
      [&](const MutableTensorView &value) { return getResult(index, value); });
}

} // namespace tandem::rt
