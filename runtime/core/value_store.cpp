//===- value_store.cpp - values of a model --------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/value_store.h"
#include "core/bootstrap.h"
#include "core/registry.h"
#include "core/text.h"

#include <algorithm>
#include <numeric>

namespace tandem::rt {

bool isStored(std::string_view role) {
  return role == "parameter" || role == "state" || role == "buffer" ||
         role == "step" || role == "seed";
}

ValueStore::ValueStore() : impl(std::make_unique<Impl>()) {}
ValueStore::~ValueStore() = default;

std::vector<StoredTensor> ValueStore::tensors() const {
  std::lock_guard lock(impl->listing);
  std::vector<StoredTensor> list;
  for (const auto &[key, entry] : impl->entries)
    list.push_back({key.first, key.second, entry.type, entry.shape,
                    impl->damaged.contains(key)});
  return list;
}

namespace {
std::string meshText(const std::vector<Axis> &mesh) {
  std::string text;
  for (const Axis &axis : mesh)
    text += concat(text.empty() ? "" : ",", axis.name, "=", axis.size);
  return text.empty() ? "one rank" : text;
}

/// World size and ranks as numbers, and right.
Expected<Job> resolve(Job job, int64_t ranks) {
  if (job.worldSize == 0)
    job.worldSize = ranks;
  if (job.worldSize != ranks)
    return errorOf("job has ", job.worldSize, " ranks, expected the program's ",
                   ranks);
  if (job.ranks.empty()) {
    job.ranks.resize(size_t(ranks));
    std::iota(job.ranks.begin(), job.ranks.end(), 0);
  }
  for (size_t i = 0; i < job.ranks.size(); ++i)
    if (job.ranks[i] < 0 || job.ranks[i] >= ranks ||
        (i && job.ranks[i] <= job.ranks[i - 1]))
      return errorOf("rank ", job.ranks[i],
                     " of this process, expected ranks "
                     "below ",
                     ranks, " in ascending order");
  return job;
}
} // namespace

Expected<Job> jobOfProcess(Job given, int64_t ranks) {
  Expected<Rendezvous> rendezvous = rendezvousFromEnvironment();
  if (!rendezvous.ok())
    return rendezvous.status();
  int64_t processes = rendezvous->worldSize;
  if (processes == 1 || !given.ranks.empty())
    return resolve(std::move(given), ranks);
  if (ranks % processes)
    return errorOf("program has ", ranks, " ranks, expected a multiple of the ",
                   processes, " processes of the job");
  Job job{ranks, std::vector<int64_t>(size_t(ranks / processes)), "gloo"};
  std::iota(job.ranks.begin(), job.ranks.end(),
            rendezvous->rank * (ranks / processes));
  return job;
}

Status ValueStore::open(const Target &target, int64_t numRanks) {
  Expected<Rendezvous> rendezvous = rendezvousFromEnvironment();
  if (!rendezvous.ok())
    return rendezvous.status();
  int64_t ranks = numRanks ? numRanks : rendezvous->worldSize;
  Expected<Job> job = jobOfProcess({}, ranks);
  if (!job.ok())
    return job.status();
  auto made = Registry::get().devices.create(target.device, *job);
  if (!made.ok())
    return made.status();
  if (Status status = (*made)->check(target); !status.ok())
    return status;
  impl->deviceName = target.device;
  impl->place.device = std::move(*made);
  return Status::success();
}

Expected<Place> ValueStore::Impl::settle(const Program &program,
                                         const Job &job) const {
  const std::string &device = program.target.device;
  if (place.device && device != deviceName)
    return errorOf("program is for device '", device,
                   "', expected the store's '", deviceName, "'");
  if (!place.fabric) {
    auto made = place.device ? Expected(place.device)
                             : Registry::get().devices.create(device, job);
    if (!made.ok())
      return made.status();
    auto fabric = Registry::get().fabrics.create(job.fabric, job);
    if (!fabric.ok())
      return fabric.status();
    return Place{job, *made, *fabric};
  }
  if (meshText(program.mesh) != meshText(mesh))
    return errorOf("program has mesh ", meshText(program.mesh),
                   ", expected the store's ", meshText(mesh));
  if (job != place.job)
    return errorOf("session has ", job.ranks.size(), " ranks on fabric '",
                   job.fabric, "', expected the store's ",
                   place.job.ranks.size(), " on '", place.job.fabric, "'");
  return place;
}

Expected<RankBuffers> allocateForRanks(const Place &place,
                                       const Program &program, const Form &form,
                                       uint32_t memorySpace, int64_t bytes) {
  RankBuffers buffers;
  const MemorySpace &space = program.memorySpaces[memorySpace];
  for (int64_t rank : place.job.ranks) {
    if (!holds(program, form, rank)) {
      buffers.push_back(nullptr);
      continue;
    }
    auto buffer = place.device->allocate(rank, space, bytes);
    if (!buffer.ok())
      return errorOf("rank ", rank, ": ", buffer.status().message());
    buffers.push_back(std::move(*buffer));
  }
  return buffers;
}

namespace {
/// What has to be equal, as text.
std::string storedForm(const Program &program, const Argument &argument,
                       const std::string &memorySpace) {
  std::string part;
  if (argument.part)
    part = concat(" at ", argument.part->offset, " of dimension ",
                  argument.part->dim);
  return concat(elementName(argument.type), shapeText(argument.globalShape),
                part, " form ", formText(program, argument.form), " in ",
                memorySpace);
}

const std::string &spaceOf(const Program &program, const Argument &argument) {
  return program.memorySpaces[argument.memorySpace].name;
}

using Entry = ValueStore::Impl::Entry;

Status compare(const Program &program, const Whole &whole, const Entry &entry) {
  auto fail = [&](const std::string &found, const std::string &expected) {
    return errorOf("'", whole.role, "/", whole.name, "' is ", found,
                   " in the store, expected ", expected, " as in the program");
  };
  if (entry.type != whole.type || entry.shape != whole.shape)
    return fail(typeName(entry.type, entry.shape),
                typeName(whole.type, whole.shape));
  if (entry.pieces.size() != whole.members.size())
    return fail(concat("in ", entry.pieces.size(), " parts"),
                concat(whole.members.size()));
  for (size_t i = 0; i < entry.pieces.size(); ++i) {
    const StoredPiece &piece = entry.pieces[i];
    const Argument &argument = program.arguments[whole.members[i]];
    std::string found = storedForm(program, piece.argument, piece.memorySpace);
    std::string expected =
        storedForm(program, argument, spaceOf(program, argument));
    if (found != expected)
      return fail(found, expected);
  }
  return Status::success();
}

Expected<Entry> makeEntry(const Program &program, const Whole &whole,
                          const Place &place) {
  Entry entry{whole.type, whole.shape, {}};
  for (uint32_t member : whole.members) {
    const Argument &argument = program.arguments[member];
    auto buffers = allocateForRanks(
        place, program, argument.form, argument.memorySpace,
        numElements(argument.localShape) * elementBytes(argument.type));
    if (!buffers.ok())
      return buffers.status();
    entry.pieces.push_back(
        {argument, spaceOf(program, argument), std::move(*buffers)});
  }
  return entry;
}
} // namespace

Status ValueStore::Impl::bind(const Program &program,
                              const std::vector<Whole> &wholes, const Place &at,
                              std::vector<RankBuffers> &buffers,
                              Entries &fresh) const {
  for (const Whole &whole : wholes) {
    if (!isStored(whole.role))
      continue;
    Key key(whole.role, whole.name);
    auto found = entries.find(key);
    if (found != entries.end()) {
      if (Status status = compare(program, whole, found->second); !status.ok())
        return status;
    } else {
      Expected<Entry> made = makeEntry(program, whole, at);
      if (!made.ok())
        return made.status();
      fresh[key] = std::move(*made);
    }
    const Entry &entry = found == entries.end() ? fresh[key] : found->second;
    for (size_t i = 0; i < whole.members.size(); ++i)
      buffers[whole.members[i]] = entry.pieces[i].buffers;
  }
  return Status::success();
}

void ValueStore::Impl::adopt(const Program &program, const Place &at,
                             Entries fresh) {
  std::lock_guard lock(listing);
  place = at;
  deviceName = program.target.device, mesh = program.mesh;
  entries.merge(fresh);
}

Status ValueStore::Impl::checkUndamaged() const {
  if (damaged.empty())
    return Status::success();
  const auto &[role, name] = *damaged.begin();
  std::string others =
      damaged.size() > 1 ? concat(" and ", damaged.size() - 1, " more") : "";
  return errorOf("values are damaged: '", role, "/", name, "'", others,
                 " may be ", cause,
                 ", expected them to be loaded again before the next step");
}

} // namespace tandem::rt
