//===- listing.cpp - listing of a rank's commands -------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/executor/listing.h"
#include "core/access.h"
#include "core/text.h"
#include "cuda/executor/check.h"
#include "tandem_rt/pinned.h"

#include <algorithm>

namespace tandem::rt::cuda {

namespace {
using Made = Expected<std::unique_ptr<Work>>;

bool isCheck(const Command &command) {
  return std::holds_alternative<Check>(command.operation);
}

size_t numChecks(const RankProgram &program) {
  std::vector<const Command *> listing = program.listing();
  return size_t(std::ranges::count_if(
      listing, [](const Command *command) { return isCheck(*command); }));
}

/// Whether the command is work of one stream, which no other rank takes part
/// in.
bool isAlone(const Operation &op) {
  return std::holds_alternative<Launch>(op) ||
         std::holds_alternative<Gemm>(op) ||
         std::holds_alternative<Attention>(op) ||
         std::holds_alternative<Convolution>(op) ||
         std::holds_alternative<Copy>(op) || std::holds_alternative<Fill>(op);
}

Status errorIn(const Rank &rank, const Command &command, const Status &status) {
  return errorOf("rank ", rank.number, ", ", commandText(command), ": ",
                 status.message());
}

void append(std::unique_ptr<Work> &first, std::unique_ptr<Work> second) {
  std::vector<std::unique_ptr<Work>> works;
  works.push_back(std::move(first));
  works.push_back(std::move(second));
  first = makeSequence(std::move(works));
}

class Lister {
public:
  Lister(const ListingContext &from, std::vector<std::unique_ptr<Rank>> &ranks)
      : from(from), program(from.context.program), ranks(ranks) {}

  Status list();

private:
  /// The same command of several ranks here, by rank.
  struct Met {
    std::vector<size_t> places;
    std::vector<Entry *> entries;
  };

  Status addAll(size_t place);
  static void add(Rank &rank, const Listed &listed);
  Status makeAlone(size_t place, Entry &entry);
  Status redirect(Rank &rank, size_t place, Entry &entry);
  Status makeTogether();
  Status make(const std::vector<int64_t> &group, Met &met);
  Status makeChecks(const std::vector<int64_t> &group, Met &met);
  Status makeCollectives(const std::vector<int64_t> &group, Met &met);
  Status makeJointCollective(const std::vector<int64_t> &group, const Met &met,
                             const std::vector<Post> &posts);
  Status makeTransfer(const std::vector<int64_t> &ends, Met &met);
  /// Of member `i` of those here.
  Turn turnOf(const Met &met, size_t i) const;
  Expected<BufferRef> destinationOf(size_t place, Entry &entry,
                                    const BufferRef &destination);
  WorkContext contextOf(size_t place, const Command &command);
  size_t checkOf(size_t place, const Entry &entry) const;
  int64_t mostElements(size_t check) const;
  Refusal refusalOf(size_t place, const Entry &entry) const;

  const ListingContext &from;
  const Program &program;
  std::vector<std::unique_ptr<Rank>> &ranks;
};

WorkContext Lister::contextOf(size_t place, const Command &command) {
  Rank &rank = *ranks[place];
  return {program,
          rank.number,
          from.gpu,
          rank.memory,
          from.code,
          from.board.report(place),
          !rank.checks.empty(),
          from.plain,
          from.algorithms,
          rank.workspaces[rank.placeOf(command)]};
}

//===----------------------------------------------------------------------===//
// Of one rank
//===----------------------------------------------------------------------===//

Status Lister::addAll(size_t place) {
  Rank &rank = *ranks[place];
  for (const Listed &listed : flatten(rank.program))
    add(rank, listed);
  for (Entry &entry : rank.entries)
    if (isAlone(entry.command->operation))
      if (Status status = makeAlone(place, entry); !status.ok())
        return errorIn(rank, *entry.command, status);
  rank.begun.assign(rank.entries.size(), false);
  return Status::success();
}

void Lister::add(Rank &rank, const Listed &listed) {
  Entry entry{.command = listed.command,
              .count = listed.count,
              .repeat = listed.repeat};
  for (const Access &access : accessesOf(*listed.command))
    if (access.write && access.ref->space == Space::Argument)
      entry.writes.push_back(access.ref->index);
  if (isCheck(*listed.command))
    rank.checks.push_back(rank.entries.size());
  rank.entries.push_back(std::move(entry));
}

/// The copy of a new value to the host, if it is one.
static const Copy *findCopyToHost(const Program &program,
                                  const Command &command) {
  const auto *copy = std::get_if<Copy>(&command.operation);
  bool isSent =
      copy && copy->destination.space == Space::Argument &&
      isPinned(program, program.arguments[copy->destination.index].memorySpace);
  return isSent ? copy : nullptr;
}

/// A kernel asks itself whether it may write what outlives the step. So does a
/// copy to the host, which the device has no room to write elsewhere first.
Status Lister::makeAlone(size_t place, Entry &entry) {
  Rank &rank = *ranks[place];
  bool isGated = !entry.writes.empty() && !rank.checks.empty();
  if (const Copy *copy = findCopyToHost(program, *entry.command);
      isGated && copy) {
    Made commit = makeCommit(from.gpu, rank.memory.address(copy->source),
                             rank.memory.address(copy->destination),
                             copy->destination.bytes, from.board.refused(place),
                             entry.count);
    if (commit.ok())
      entry.work = std::move(*commit);
    return commit.status();
  }
  if (isGated && !std::holds_alternative<Launch>(entry.command->operation))
    return redirect(rank, place, entry);
  int64_t number = &entry - rank.entries.data() + 1;
  Made work = makeWork(contextOf(place, *entry.command), *entry.command,
                       isGated ? -number : number, entry.count);
  if (work.ok())
    entry.work = std::move(*work);
  return work.status();
}

/// What libraries and copies write goes to copies of the arguments first.
Status Lister::redirect(Rank &rank, size_t place, Entry &entry) {
  entry.redirected = std::make_unique<Command>(*entry.command);
  std::vector<std::unique_ptr<Work>> before, after;
  for (const Access &access : accessesOf(*entry.redirected)) {
    if (!access.write || access.ref->space != Space::Argument)
      continue;
    Expected<BufferRef> shadow = rank.memory.shadowOf(*access.ref);
    if (!shadow.ok())
      return shadow.status();
    Address own = rank.memory.address(*access.ref);
    Address other = rank.memory.address(*shadow);
    before.push_back(makeCopy(from.gpu, own, other, size_t(access.ref->bytes)));
    Made commit = makeCommit(from.gpu, other, own, access.ref->bytes,
                             from.board.refused(place), entry.count);
    if (!commit.ok())
      return commit.status();
    after.push_back(std::move(*commit));
    // It is a reference of the copy above.
    const_cast<BufferRef &>(*access.ref) = *shadow;
  }
  entry.before = makeSequence(std::move(before));
  entry.after = makeSequence(std::move(after));
  Made work = makeWork(contextOf(place, *entry.command), *entry.redirected,
                       &entry - rank.entries.data() + 1, entry.count);
  if (work.ok())
    entry.work = std::move(*work);
  return work.status();
}

//===----------------------------------------------------------------------===//
// Of several ranks
//===----------------------------------------------------------------------===//

/// Ranks meet in the order of their listings, which is one for all of a group.
Status Lister::makeTogether() {
  using Key = std::pair<std::vector<int64_t>, uint32_t>;
  std::map<Key, std::vector<Met>> all;
  for (size_t place = 0; place < ranks.size(); ++place) {
    std::map<Key, size_t> seen;
    for (Entry &entry : ranks[place]->entries) {
      Key key(
          partiesOf(program, entry.command->operation, ranks[place]->number),
          entry.command->queue);
      if (key.first.empty())
        continue;
      size_t number = seen[key]++;
      std::vector<Met> &list = all[key];
      list.resize(std::max(list.size(), number + 1));
      list[number].places.push_back(place);
      list[number].entries.push_back(&entry);
    }
  }
  for (auto &[key, list] : all)
    for (Met &met : list)
      if (Status status = make(key.first, met); !status.ok())
        return errorIn(*ranks[met.places.front()],
                       *met.entries.front()->command, status);
  return Status::success();
}

Status Lister::make(const std::vector<int64_t> &group, Met &met) {
  bool isOfSeveral = met.entries.size() < group.size();
  for (Entry *entry : met.entries) {
    entry->together = met.places;
    entry->hasTurn = isOfSeveral && from.peers->isJoint();
  }
  const Operation &op = met.entries.front()->command->operation;
  if (std::holds_alternative<Transfer>(op))
    return makeTransfer(group, met);
  return std::holds_alternative<Check>(op) ? makeChecks(group, met)
                                           : makeCollectives(group, met);
}

/// Its number among the checks of its rank program, which is one in all.
size_t Lister::checkOf(size_t place, const Entry &entry) const {
  const Rank &rank = *ranks[place];
  size_t number = size_t(&entry - rank.entries.data());
  return size_t(std::ranges::find(rank.checks, number) - rank.checks.begin());
}

/// Of the values that any rank has at the check.
int64_t Lister::mostElements(size_t check) const {
  int64_t most = 0;
  for (const RankProgram &rankProgram : program.rankPrograms) {
    size_t next = 0;
    for (const Command *command : rankProgram.listing())
      if (isCheck(*command) && next++ == check)
        most = std::max(most, numElements(std::get<Check>(command->operation)));
  }
  return most;
}

Refusal Lister::refusalOf(size_t place, const Entry &entry) const {
  Refusal to{from.board.verdict(place, checkOf(place, entry)),
             from.board.refused(place)};
  for (size_t other = 0; other < ranks.size(); ++other)
    to.reports.push_back(from.board.report(other));
  return to;
}

Turn Lister::turnOf(const Met &met, size_t i) const {
  return {met.places[i],
          size_t(met.entries[i] - ranks[met.places[i]]->entries.data())};
}

/// Members elsewhere send their verdicts. Where several are here, the first one
/// does what follows of them for all.
Status Lister::makeChecks(const std::vector<int64_t> &group, Met &met) {
  size_t number = checkOf(met.places.front(), *met.entries.front());
  auto verdicts =
      Verdicts::create(from.gpu, mostElements(number), group.size());
  if (!verdicts.ok())
    return verdicts.status();
  Address words{(*verdicts)->words.address(), 0};
  std::vector<std::unique_ptr<Work>> refusals;
  for (size_t i = 0; i < met.entries.size(); ++i) {
    Entry &entry = *met.entries[i];
    Rank &rank = *ranks[met.places[i]];
    const auto &op = std::get<Check>(entry.command->operation);
    size_t member =
        size_t(std::ranges::find(group, rank.number) - group.begin());
    Address source = op.source ? rank.memory.address(*op.source) : Address();
    Made judge =
        makeJudge(from.gpu, op, source, *verdicts, member, entry.count);
    Made refuse = makeRefuse(from.gpu, *verdicts, group.size(),
                             refusalOf(met.places[i], entry));
    if (!judge.ok() || !refuse.ok())
      return judge.ok() ? refuse.status() : judge.status();
    entry.before = std::move(*judge);
    if (!entry.hasTurn)
      entry.work = std::move(*refuse);
    else
      refusals.push_back(std::move(*refuse));
    if (met.entries.size() < group.size() && !entry.hasTurn)
      append(entry.before,
             from.peers->exchangeWords(
                 op.axes, words, (*verdicts)->bytesOfMember(), turnOf(met, i)));
  }
  if (refusals.empty())
    return Status::success();
  Entry &leader = *met.entries.front();
  leader.work = from.peers->exchangeJointWords(
      group, words, (*verdicts)->bytesOfMember(), turnOf(met, 0));
  append(leader.work, makeSequence(std::move(refusals)));
  return Status::success();
}

/// Where a collective or a transfer leaves what it makes.
Expected<BufferRef> Lister::destinationOf(size_t place, Entry &entry,
                                          const BufferRef &destination) {
  Rank &rank = *ranks[place];
  if (entry.writes.empty() || rank.checks.empty())
    return destination;
  Expected<BufferRef> shadow = rank.memory.shadowOf(destination);
  if (!shadow.ok())
    return shadow;
  Made commit = makeCommit(from.gpu, rank.memory.address(*shadow),
                           rank.memory.address(destination), destination.bytes,
                           from.board.refused(place), entry.count);
  if (!commit.ok())
    return commit.status();
  entry.after = std::move(*commit);
  return shadow;
}

Status Lister::makeCollectives(const std::vector<int64_t> &group, Met &met) {
  std::vector<Post> posts;
  for (size_t i = 0; i < met.entries.size(); ++i) {
    const RankMemory &memory = ranks[met.places[i]]->memory;
    const auto &op = std::get<Collective>(met.entries[i]->command->operation);
    Expected<BufferRef> destination =
        destinationOf(met.places[i], *met.entries[i], op.destination);
    if (!destination.ok())
      return destination.status();
    posts.push_back(
        {&op, memory.address(op.source), memory.address(*destination)});
  }
  if (met.entries.front()->hasTurn)
    return makeJointCollective(group, met, posts);
  for (size_t i = 0; i < posts.size(); ++i) {
    Entry &entry = *met.entries[i];
    Made work =
        posts.size() == group.size()
            ? makeShare(from.gpu, posts, i, entry.count)
            : from.peers->makeCollective(posts[i], entry.count, turnOf(met, i));
    if (!work.ok())
      return work.status();
    entry.work = std::move(*work);
  }
  return Status::success();
}

/// The first member here does it for all.
Status Lister::makeJointCollective(const std::vector<int64_t> &group,
                                   const Met &met,
                                   const std::vector<Post> &posts) {
  std::vector<Post> all(group.size());
  for (size_t i = 0; i < posts.size(); ++i) {
    auto member = std::ranges::find(group, ranks[met.places[i]]->number);
    all[size_t(member - group.begin())] = posts[i];
  }
  Entry &leader = *met.entries.front();
  Made work =
      from.peers->makeJointCollective(group, all, leader.count, turnOf(met, 0));
  if (work.ok())
    leader.work = std::move(*work);
  return work.status();
}

/// Where both ends are here, the one that receives copies.
Status Lister::makeTransfer(const std::vector<int64_t> &ends, Met &met) {
  Address source, destination;
  int64_t bytes = 0;
  Entry *last = nullptr;
  for (size_t i = 0; i < met.entries.size(); ++i) {
    const Rank &rank = *ranks[met.places[i]];
    const auto &op = std::get<Transfer>(met.entries[i]->command->operation);
    if (rank.number == ends.front()) {
      source = rank.memory.address(op.source);
      bytes = op.source.bytes;
      continue;
    }
    last = met.entries[i];
    Expected<BufferRef> to =
        destinationOf(met.places[i], *last, op.destination);
    if (!to.ok())
      return to.status();
    destination = rank.memory.address(*to);
    bytes = to->bytes;
  }
  if (met.entries.size() == ends.size())
    last->work = makeCopy(from.gpu, source, destination, size_t(bytes));
  else if (last)
    last->work =
        from.peers->receive(ends.front(), destination, bytes, turnOf(met, 0));
  else
    met.entries.front()->work =
        from.peers->send(ends.back(), source, bytes, turnOf(met, 0));
  return Status::success();
}

Status Lister::list() {
  for (size_t place = 0; place < ranks.size(); ++place)
    if (Status status = addAll(place); !status.ok())
      return status;
  for (std::unique_ptr<Rank> &rank : ranks)
    for (Workspace &workspace : rank->workspaces)
      if (Status status = workspace.allocate(from.gpu); !status.ok())
        return status;
  return makeTogether();
}
} // namespace

size_t numChecks(const Program &program) {
  size_t most = 0;
  for (const RankProgram &rankProgram : program.rankPrograms)
    most = std::max(most, numChecks(rankProgram));
  return most;
}

Status makeListings(const ListingContext &from,
                    std::vector<std::unique_ptr<Rank>> &ranks) {
  return Lister(from, ranks).list();
}

} // namespace tandem::rt::cuda
