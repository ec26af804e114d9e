//===- peers.cpp - the other processes of a job ---------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/collectives/peers.h"
#include "core/access.h"
#include "core/bootstrap.h"
#include "core/text.h"
#include "cuda/collectives/messages.h"

#include <algorithm>
#include <array>
#include <thread>

namespace tandem::rt::cuda {

using Clock = std::chrono::steady_clock;

/// How long an error of NCCL waits for one of the job.
constexpr std::chrono::milliseconds kGrace(1000);

/// Behind the one before it in its lane, and with a word that says that it is
/// under way.
class Peers::ChainedWork final : public Work {
public:
  ChainedWork(Peers &peers, std::unique_ptr<Work> work, Turn command,
              size_t lane)
      : peers(peers), work(std::move(work)), command(command),
        lane(peers.lanes[lane]), word(peers.progressOf(lane)) {}

  Status enqueue(CUstream stream, int64_t iteration) override {
    const Driver &driver = peers.gpu->driver;
    Status status;
    auto call = [&](CUresult result) {
      status = peers.gpu->check(result, "order collectives and transfers");
      return status.ok();
    };
    CUevent before = lane.last.get();
    if (lane.isChained && !call(driver.streamWaitEvent(stream, before, 0)))
      return status;
    lane.sequence.push_back(command);
    unsigned number = unsigned(lane.sequence.size());
    if (!call(driver.memsetD32Async(word, number, 1, stream)))
      return status;
    if (status = work->enqueue(stream, iteration); !status.ok())
      return status;
    if (call(driver.memsetD32Async(word, 0, 1, stream)))
      call(driver.eventRecord(before, stream));
    lane.isChained = true;
    return status;
  }

private:
  Peers &peers;
  std::unique_ptr<Work> work;
  const Turn command;
  Lane &lane;
  const CUdeviceptr word;
};

Peers::Peers(const ExecutorContext &context, std::shared_ptr<Gpu> gpu,
             const nccl::Api &api)
    : context(context), program(context.program), rank(context.ranks.front()),
      gpu(std::move(gpu)), api(api) {}

//===----------------------------------------------------------------------===//
// Preparing
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<Peers>> Peers::create(const ExecutorContext &context,
                                               std::shared_ptr<Gpu> gpu) {
  Expected<const nccl::Api *> api = nccl::load(Gpu::libraryFolder());
  if (!api.ok())
    return api.status();
  std::unique_ptr<Peers> peers(new Peers(context, std::move(gpu), **api));
  if (Status status = peers->prepare(); !status.ok())
    return status;
  return peers;
}

std::vector<int64_t> Peers::membersOf(const std::vector<uint32_t> &axes) const {
  return program.group(axes, rank);
}

/// All processes have to make all groups, also those of which they do not use
/// any. Of a process with several ranks only those of all are some.
void Peers::listGroups() {
  nccl::Patience patience{timeout, [this] { return context.fabric->reason(); }};
  world = std::make_unique<nccl::Group>(api, patience, maxCtas);
  for (const RankProgram &rankProgram : program.rankPrograms)
    for (const Command *command : rankProgram.listing()) {
      if (std::holds_alternative<Transfer>(command->operation) && !transfers)
        transfers = std::make_unique<nccl::Group>(api, patience, maxCtas);
      const std::vector<uint32_t> &axes = groupAxes(command->operation);
      size_t members = axes.empty() ? 1 : membersOf(axes).size();
      bool isPart = members > 1 && int64_t(members) < program.numRanks();
      if (isPart && !hasSeveral)
        groups.try_emplace(
            axes, std::make_unique<nccl::Group>(api, patience, maxCtas));
    }
}

Status Peers::prepare() {
  Expected<Rendezvous> rendezvous = rendezvousFromEnvironment();
  Expected<int> ctas = nccl::maxCtas();
  if (!rendezvous.ok() || !ctas.ok())
    return rendezvous.ok() ? ctas.status() : rendezvous.status();
  timeout = rendezvous->timeout;
  maxCtas = *ctas;
  process = rendezvous->rank, numProcesses = rendezvous->worldSize;
  constexpr uint32_t kNone[NumLanes] = {};
  Expected<Memory> words = Memory::allocate(gpu, sizeof kNone);
  Expected<PinnedMemory> pinned = PinnedMemory::allocate(gpu, sizeof kNone);
  Expected<Stream> stream = Stream::create(gpu);
  for (const Status &status :
       {words.status(), pinned.status(), stream.status()})
    if (!status.ok())
      return status;
  for (Lane &lane : lanes) {
    Expected<Event> event = Event::create(gpu);
    if (!event.ok())
      return event.status();
    lane.last = std::move(*event);
  }
  progress = std::move(*words);
  seen = std::move(*pinned);
  watch = std::move(*stream);
  return progress.copyIn(0, kNone, sizeof kNone);
}

/// NCCL wants a GPU for each.
Status Peers::meet() {
  struct Place {
    int64_t process = 0;
    GpuId gpu = {};
  };
  std::vector<Place> places(size_t(program.numRanks()));
  for (int64_t other : context.ranks)
    places[size_t(other)] = {process, gpu->getId()};
  for (int64_t other = 0; other < program.numRanks(); ++other)
    if (Status status = context.fabric->move(other, {}, &places[size_t(other)],
                                             sizeof(Place));
        !status.ok())
      return status;
  for (size_t second = 0; second < places.size(); ++second)
    for (size_t first = 0; first < second; ++first) {
      if (places[first].process == places[second].process)
        hasSeveral = true;
      else if (places[first].gpu == places[second].gpu)
        return errorOf("ranks ", first, " and ", second,
                       " have one GPU, expected one for each process: "
                       "LOCAL_RANK is the number of a process' own");
    }
  for (const Place &place : places)
    processOf.push_back(place.process);
  if (hasSeveral)
    turns = turnsOf(program, processOf, context.ranks);
  listGroups();
  return Status::success();
}

/// Of the largest collective of all ranks here.
Status Peers::reserve() {
  for (int64_t own : context.ranks)
    for (const Command *command :
         program.rankPrograms[program.rankToProgram[size_t(own)]].listing()) {
      const auto *op = std::get_if<Collective>(&command->operation);
      if (!op)
        continue;
      std::vector<int64_t> group = program.group(op->axes, own);
      auto here = std::ranges::count_if(group, [&](int64_t other) {
        return processOf[size_t(other)] == process;
      });
      auto members = int64_t(group.size());
      scratchSize = std::max(scratchSize,
                             hasSeveral ? jointScratchBytes(*op, members, here)
                                        : scratchBytes(*op, members));
    }
  Expected<Memory> space = Memory::allocate(gpu, scratchSize);
  if (space.ok())
    scratch = std::move(*space);
  return space.status();
}

Status Peers::connect() {
  abort();
  nccl::UniqueId id = {};
  Status status;
  if (rank == 0) {
    Expected<nccl::UniqueId> made = nccl::makeId(api);
    status = made.status();
    if (made.ok())
      id = *made;
  }
  if (Status all = context.fabric->conclude("NCCL", status); !all.ok())
    return all;
  status = context.fabric->move(0, {}, &id, sizeof id);
  if (status.ok())
    status = world->connect(id, int(numProcesses), int(process));
  for (auto &[axes, group] : groups) {
    if (!status.ok())
      return status;
    std::vector<int64_t> members = membersOf(axes);
    auto place = std::ranges::find(members, rank) - members.begin();
    status = group->split(*world, int(members.front()), int(place));
  }
  if (status.ok() && transfers)
    status = transfers->split(*world, 0, int(process));
  return status;
}

void Peers::abort() {
  for (auto &[axes, group] : groups)
    group->abort();
  if (transfers)
    transfers->abort();
  if (world) // none before meet()
    world->abort();
}

nccl::Group &Peers::groupOf(const std::vector<uint32_t> &axes) {
  auto found = groups.find(axes);
  return found == groups.end() ? *world : *found->second;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

std::unique_ptr<Work> Peers::chain(std::unique_ptr<Work> work, Turn command,
                                   size_t lane) {
  return std::make_unique<ChainedWork>(*this, std::move(work), command, lane);
}

Expected<std::unique_ptr<Work>>
Peers::makeCollective(const Post &post, int64_t count, Turn command) {
  std::vector<int64_t> members = membersOf(post.op->axes);
  auto place = std::ranges::find(members, rank) - members.begin();
  Party party{gpu,   groupOf(post.op->axes), int64_t(members.size()),
              place, scratch.address(),      scratchSize};
  auto work = makeExchange(party, post, count);
  if (!work.ok() || numElements(post.op->shape) == 0)
    return work;
  return chain(std::move(*work), command);
}

std::unique_ptr<Work> Peers::exchangeWords(const std::vector<uint32_t> &axes,
                                           Address words, int64_t bytes,
                                           Turn command) {
  std::vector<int64_t> members = membersOf(axes);
  auto place = std::ranges::find(members, rank) - members.begin();
  return chain(makeGatherInPlace(groupOf(axes), words, bytes, place), command);
}

Joint Peers::jointOf(const std::vector<int64_t> &group) const {
  Joint joint{gpu, *world, {}, process, scratch.address()};
  for (int64_t member : group)
    joint.processOf.push_back(processOf[size_t(member)]);
  return joint;
}

Expected<std::unique_ptr<Work>>
Peers::makeJointCollective(const std::vector<int64_t> &group,
                           const std::vector<Post> &posts, int64_t count,
                           Turn command) {
  auto work = makeJoint(jointOf(group), posts, count);
  if (!work.ok())
    return work;
  return chain(std::move(*work), command);
}

std::unique_ptr<Work>
Peers::exchangeJointWords(const std::vector<int64_t> &group, Address words,
                          int64_t bytes, Turn command) {
  return chain(makeJointGather(jointOf(group), words, bytes), command);
}

std::unique_ptr<Work> Peers::message(bool isSend, int64_t other, Address at,
                                     int64_t bytes, Turn command) {
  return chain(
      makeMessages(*transfers, {{isSend, processOf[size_t(other)], at, bytes}}),
      command, Transfers);
}

std::unique_ptr<Work> Peers::send(int64_t to, Address source, int64_t bytes,
                                  Turn command) {
  return message(true, to, source, bytes, command);
}

std::unique_ptr<Work> Peers::receive(int64_t from, Address destination,
                                     int64_t bytes, Turn command) {
  return message(false, from, destination, bytes, command);
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

/// What has gone wrong in the communicators of all.
Status Peers::poll() const {
  Status status = world->poll();
  return status.ok() && transfers ? transfers->poll() : status;
}

/// Takes the words that the last call has asked for, once they are here; and
/// asks anew.
void Peers::lookAtProgress() {
  const Driver &driver = gpu->driver;
  if (driver.streamQuery(watch.get()) != kSuccess)
    return;
  for (size_t i = 0; i < lanes.size(); ++i)
    if (uint32_t value = seen.as<uint32_t>()[i]; value != lanes[i].under) {
      lanes[i].under = value;
      lanes[i].since = Clock::now();
    }
  driver.memcpyDtoHAsync(seen.as<void>(), progress.address(),
                         lanes.size() * sizeof(uint32_t), watch.get());
}

/// The command that is under way longest.
const Peers::Lane *Peers::oldest() const {
  const Lane *found = nullptr;
  for (const Lane &lane : lanes)
    if (lane.under && (!found || lane.since < found->since))
      found = &lane;
  return found;
}

Peers::Waited Peers::wait(CUstream stream) {
  using namespace std::chrono_literals;
  for (size_t i = 0; i < lanes.size(); ++i)
    seen.as<uint32_t>()[i] = lanes[i].under = 0;
  auto nextLook = Clock::now() + 20ms;
  for (auto pause = 10us;; pause = std::min(2 * pause, 1000us)) {
    CUresult result = gpu->driver.streamQuery(stream);
    if (result != kNotReady)
      return {gpu->check(result, "run the step's kernels")};
    std::this_thread::sleep_for(pause);
    auto now = Clock::now();
    if (now < nextLook)
      continue;
    nextLook = now + 20ms;
    if (Status why = context.fabric->reason(); !why.ok())
      return {why};
    if (Status why = poll(); !why.ok()) {
      // Often what another process' end looks like from here: its own words, or
      // the job's, are better.
      for (auto end = now + kGrace; Clock::now() < end;
           std::this_thread::sleep_for(1ms))
        if (Status known = context.fabric->reason(); !known.ok())
          return {known};
      const Lane *lane = oldest();
      return {why, lane ? lane->command() : std::nullopt};
    }
    lookAtProgress();
    if (const Lane *lane = oldest(); lane && now - lane->since > timeout)
      return {errorOf("not done within ", timeout.count(),
                      " ms (TANDEM_TIMEOUT), expected all processes to come to "
                      "it"),
              lane->command()};
  }
}

} // namespace tandem::rt::cuda
