//===- communicator.cpp - ranks of several processes ----------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/communicator.h"
#include "comm/gloo/group.h"
#include "core/registry.h"
#include "core/text.h"

#include <algorithm>
#include <numeric>

namespace tandem::rt {

namespace {
using gloo::Failure;
using gloo::Group;
using gloo::Links;
using gloo::Message;
using gloo::Places;

class GlooFabric;

class GlooCommunicator final : public Communicator {
public:
  GlooCommunicator(GlooFabric &fabric, std::shared_ptr<Group> group,
                   size_t member)
      : fabric(fabric), group(std::move(group)), member(member) {}

  Status run(const Collective &op, const void *source,
             void *destination) override;
  Status transfer(bool sends, void *data, size_t bytes,
                  const std::function<void()> &moves) override;

private:
  GlooFabric &fabric;
  std::shared_ptr<Group> group;
  size_t member;
};

/// Groups whose members are all here are those of a fabric of one process.
class GlooFabric final : public Fabric {
public:
  explicit GlooFabric(std::shared_ptr<Control> control)
      : control(std::move(control)) {}
  ~GlooFabric() override;

  Status prepare(const std::vector<int64_t> &ranks, int64_t worldSize);

  Expected<std::unique_ptr<Communicator>>
  connect(const std::vector<int64_t> &members, int64_t rank,
          unsigned channel) override;
  Status move(int64_t from, std::optional<int64_t> to, void *data,
              size_t bytes) override;
  Status agree(const std::string &what, const std::string &text) override {
    return control->agree(what, text);
  }
  Status conclude(const std::string &what, const Status &own) override;
  void setStepping(bool stepping) override {
    control->setStepping(scope, stepping);
  }
  void abort(const Status &why) override;
  Status reason() const override;
  bool isReasonKnown() const override {
    std::lock_guard lock(mutex);
    return told;
  }
  Status recover() override;
  Expected<ClockReading> readClock() override { return control->readClock(); }
  int64_t bytesSent() const override;

  /// Of a collective: who did not answer is the cause of what follows.
  void noteMissed(std::optional<int64_t> process);

private:
  Status learnRanks(const std::vector<int64_t> &ranks, int64_t worldSize);
  Status attachAll();
  Places placesOf(const std::vector<int64_t> &members) const;
  void stopAll();
  Status moveHere(int64_t from, std::optional<int64_t> to, void *data,
                  size_t bytes);

  const std::shared_ptr<Control> control;
  std::shared_ptr<Fabric> local;
  std::vector<int64_t> processOf; ///< By rank.
  uint64_t scope = 0, epoch = 0;

  mutable std::mutex mutex;
  std::shared_ptr<Links> links;
  std::map<std::pair<std::vector<int64_t>, unsigned>, std::shared_ptr<Group>>
      groups;
  std::optional<int64_t> missed;
  mutable bool told = false; ///< Whether the failure was given to a caller.
  int64_t sentBefore = 0;    ///< On earlier links.
};

Status GlooCommunicator::run(const Collective &op, const void *source,
                             void *destination) {
  std::optional<int64_t> missed;
  Status status = group->run(member, op, source, destination, missed);
  fabric.noteMissed(missed);
  return status;
}

Status GlooCommunicator::transfer(bool sends, void *data, size_t bytes,
                                  const std::function<void()> &moves) {
  std::optional<int64_t> missed;
  Status status = group->transfer(sends, data, bytes, moves, missed);
  fabric.noteMissed(missed);
  return status;
}

Status GlooFabric::learnRanks(const std::vector<int64_t> &ranks,
                              int64_t worldSize) {
  Packer own;
  own.number(uint64_t(worldSize));
  for (int64_t rank : ranks)
    own.number(uint64_t(rank));
  auto texts = control->exchange("ranks", own.text());
  if (!texts.ok())
    return texts.status();
  processOf.assign(size_t(worldSize), -1);
  for (size_t process = 0; process < texts->size(); ++process) {
    Unpacker fields((*texts)[process]);
    if (int64_t size = int64_t(fields.number()); size != worldSize)
      return errorOf("process ", process, " has ", size,
                     " ranks in all, expected ", worldSize, " as process ",
                     control->process());
    for (size_t i = 1; i < (*texts)[process].size() / sizeof(uint64_t); ++i) {
      uint64_t rank = fields.number();
      if (rank >= uint64_t(worldSize) || processOf[rank] >= 0)
        return errorOf("rank ", rank, " of process ", process,
                       rank < uint64_t(worldSize)
                           ? concat(" is that of process ", processOf[rank])
                           : std::string(" does not exist"),
                       ", expected each rank below ", worldSize, " once");
      processOf[rank] = int64_t(process);
    }
  }
  for (int64_t rank = 0; rank < worldSize; ++rank)
    if (processOf[size_t(rank)] < 0)
      return errorOf("no process has rank ", rank, ", expected all below ",
                     worldSize);
  return Status::success();
}

Status GlooFabric::prepare(const std::vector<int64_t> &ranks,
                           int64_t worldSize) {
  Job here{int64_t(ranks.size()), std::vector<int64_t>(ranks.size())};
  std::iota(here.ranks.begin(), here.ranks.end(), 0);
  auto made = Registry::get().fabrics.create("local", here);
  if (!made.ok())
    return made.status();
  local = *made;
  if (Status status = learnRanks(ranks, worldSize); !status.ok())
    return status;
  scope = control->open([this] { stopAll(); });
  return attachAll();
}

/// New links for all groups. Who is missed then is known by the others.
Status GlooFabric::attachAll() {
  if (control->numProcesses() == 1)
    return Status::success();
  try {
    auto made = Links::connect(*control, concat("links ", scope, "/", epoch));
    std::lock_guard lock(mutex);
    if (links)
      sentBefore += links->bytesSent();
    for (auto &[key, group] : groups)
      group->attach(made);
    links = std::move(made);
    missed = {};
    told = false;
  } catch (const Failure &failure) {
    control->report(scope, failure.status, failure.lost);
    return control->verdict(scope);
  }
  return Status::success();
}

GlooFabric::~GlooFabric() { control->close(scope); }

Places GlooFabric::placesOf(const std::vector<int64_t> &members) const {
  std::map<int64_t, std::vector<size_t>> owned;
  for (size_t member = 0; member < members.size(); ++member)
    owned[processOf[size_t(members[member])]].push_back(member);
  Places places;
  places.members = members;
  for (auto &[process, own] : owned) {
    if (process == control->process())
      places.self = places.processes.size();
    places.processes.push_back(process);
    places.owned.push_back(std::move(own));
  }
  return places;
}

Expected<std::unique_ptr<Communicator>>
GlooFabric::connect(const std::vector<int64_t> &members, int64_t rank,
                    unsigned channel) {
  auto place = std::find(members.begin(), members.end(), rank);
  if (place == members.end())
    return errorOf("rank ", rank, " is not a member of its group");
  for (int64_t member : members)
    if (member < 0 || member >= int64_t(processOf.size()))
      return errorOf("rank ", member, " does not exist, expected ranks below ",
                     processOf.size());
  if (processOf[size_t(rank)] != control->process())
    return errorOf("rank ", rank, " is one of process ",
                   processOf[size_t(rank)]);
  Places places = placesOf(members);
  if (places.processes.size() == 1)
    return local->connect(members, rank, channel);
  std::lock_guard lock(mutex);
  std::shared_ptr<Group> &group = groups[{members, channel}];
  if (!group) {
    try {
      auto made = std::make_shared<Group>(std::move(places), channel);
      made->attach(control->isStopped(scope) ? nullptr : links);
      group = std::move(made);
    } catch (const Failure &failure) {
      return failure.status;
    }
  }
  return std::unique_ptr<Communicator>(
      new GlooCommunicator(*this, group, size_t(place - members.begin())));
}

Status GlooFabric::conclude(const std::string &what, const Status &own) {
  Status all =
      control->conclude(what, own.ok() ? "" : "error: " + own.message());
  return own.ok() ? all : own;
}

//===----------------------------------------------------------------------===//
// Failing and recovering
//===----------------------------------------------------------------------===//

void GlooFabric::noteMissed(std::optional<int64_t> process) {
  std::lock_guard lock(mutex);
  if (process && !missed)
    missed = process;
}

void GlooFabric::stopAll() {
  local->abort(Status::error("stopped by an error on another rank"));
  std::lock_guard lock(mutex);
  for (auto &[key, group] : groups)
    group->abort();
  if (links)
    links->stop();
}

/// What only follows from a failure elsewhere is no reason of its own.
void GlooFabric::abort(const Status &why) {
  std::optional<int64_t> lost;
  {
    std::lock_guard lock(mutex);
    lost = missed;
  }
  if (lost || !control->isStopped(scope))
    control->report(scope, why, lost);
  stopAll();
}

Status GlooFabric::reason() const {
  if (!control->isStopped(scope))
    return Status::success();
  Status status = control->verdict(scope);
  std::lock_guard lock(mutex);
  told = true;
  return status;
}

Status GlooFabric::recover() {
  if (!control->isStopped(scope))
    return Status::success();
  Expected<uint64_t> next = control->recover(scope);
  if (!next.ok())
    return next.status();
  epoch = *next;
  if (Status status = local->recover(); !status.ok())
    return status;
  return attachAll();
}

int64_t GlooFabric::bytesSent() const {
  std::lock_guard lock(mutex);
  return sentBefore + (links ? links->bytesSent() : 0);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Values are moved after a failure as well, once the caller knows of it.
Status GlooFabric::move(int64_t from, std::optional<int64_t> to, void *data,
                        size_t bytes) {
  if (control->isStopped(scope)) {
    if (!isReasonKnown())
      return reason();
    if (Status status = recover(); !status.ok())
      return status;
  }
  return moveHere(from, to, data, bytes);
}

Status GlooFabric::moveHere(int64_t from, std::optional<int64_t> to, void *data,
                            size_t bytes) {
  // No group's: those are hashes of groups of several.
  constexpr uint64_t kSlot = 0;
  constexpr size_t kPiece = 4 << 20;
  int64_t source = processOf[size_t(from)], self = control->process();
  int64_t target = to ? processOf[size_t(*to)] : -1;
  if (source == target || (source != self && to && target != self))
    return Status::success();
  gloo::WithoutPipeSignal guard;
  char *memory = static_cast<char *>(data);
  try {
    for (size_t begin = 0; begin < bytes; begin += kPiece) {
      size_t piece = std::min(kPiece, bytes - begin);
      std::vector<Message> messages;
      if (source != self)
        messages.push_back(
            Message::receive(*links, source, kSlot, memory + begin, piece));
      for (int64_t process = 0; process < control->numProcesses(); ++process)
        if (source == self && process != self && (!to || process == target)) {
          messages.push_back(
              Message::send(*links, process, kSlot, memory + begin, piece));
          links->countSent(piece);
        }
      for (Message &message : messages)
        message.await();
    }
    return Status::success();
  } catch (const Failure &failure) {
    Status status = failure.status;
    if (failure.lost)
      status = errorOf("a value of rank ", from, ": process ", *failure.lost,
                       " ", status.message());
    noteMissed(failure.lost);
    abort(status);
  }
  return reason();
}
} // namespace

Expected<std::shared_ptr<Fabric>>
createGlooFabric(std::shared_ptr<Control> control,
                 const std::vector<int64_t> &ranks, int64_t worldSize) {
  auto fabric = std::make_shared<GlooFabric>(std::move(control));
  if (Status status = fabric->prepare(ranks, worldSize); !status.ok())
    return status;
  return std::shared_ptr<Fabric>(std::move(fabric));
}

void registerGloo(Registry &registry) {
  auto create = [](const Job &job) -> Expected<std::shared_ptr<Fabric>> {
    auto control = Control::ofProcess();
    if (!control.ok())
      return control.status();
    return createGlooFabric(*control, job.ranks, job.worldSize);
  };
  registry.fabrics.add("gloo", {[] { return Status::success(); }, create});
}

} // namespace tandem::rt
