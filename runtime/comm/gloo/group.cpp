//===- group.cpp - the members of a group in this process -----------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/gloo/group.h"
#include "core/text.h"

#include <algorithm>

namespace tandem::rt::gloo {

namespace {
/// Of a greeting, with what is sent along.
constexpr size_t kMaxGreeting = 16 << 10;

/// FNV-1a, without the low bits, which are the lanes. Greetings carry members
/// and channel as well, so that two groups of one number are found.
uint64_t slotsOf(const std::string &name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (char c : name)
    hash = (hash ^ uint8_t(c)) * 0x100000001b3ull;
  return hash / kNumLanes * kNumLanes;
}

std::string nameOf(const Places &places, unsigned channel) {
  Packer name;
  name.number(channel);
  for (int64_t member : places.members)
    name.number(uint64_t(member));
  return name.text();
}

void write(Packer &text, const Collective &op) {
  text.number(uint64_t(op.kind)).number(uint64_t(op.type));
  text.number(uint64_t(int64_t(op.splitDim)));
  text.number(uint64_t(int64_t(op.concatDim)));
  text.number(op.shape.size());
  for (int64_t extent : op.shape)
    text.number(uint64_t(extent));
}

Collective read(Unpacker &text) {
  Collective op;
  op.kind = CollectiveKind(text.number());
  op.type = ElementType(text.number());
  op.splitDim = int32_t(int64_t(text.number()));
  op.concatDim = int32_t(int64_t(text.number()));
  size_t rank = std::min<size_t>(text.number(), 64);
  for (size_t i = 0; i < rank; ++i)
    op.shape.push_back(int64_t(text.number()));
  return op;
}
} // namespace

Group::Group(Places given, unsigned channel)
    : places(std::move(given)), slots(slotsOf(nameOf(places, channel))),
      posts(places.members.size()), mail(places.processes.size()) {
  for (Mail &with : mail)
    for (std::vector<char> &incoming : with.incoming)
      incoming.resize(kMaxGreeting);
}

void Group::attach(std::shared_ptr<Links> given) {
  std::lock_guard lock(mutex);
  for (Mail &with : mail)
    for (std::optional<Message> *message :
         {&with.sent, &with.expected[0], &with.expected[1]})
      message->reset();
  links = std::move(given);
  arrived = 0, turn = 0;
  aborted = !links;
  for (size_t process = 0; links && process < mail.size(); ++process)
    if (process != places.self)
      postReceive(process, 0);
}

void Group::abort() {
  std::lock_guard lock(mutex);
  aborted = true;
  condition.notify_all();
}

Status Group::run(size_t member, const Collective &op, const void *source,
                  void *destination, std::optional<int64_t> &missed) {
  const char *kStopped = "stopped by an error on another rank";
  std::unique_lock lock(mutex);
  if (aborted)
    return Status::error(kStopped);
  posts[member] = {&op, static_cast<const char *>(source),
                   static_cast<char *>(destination)};
  size_t mine = generation;
  if (++arrived < places.own().size()) {
    // As long as one works with the posts of all, all stay.
    condition.wait(lock,
                   [&] { return generation != mine || (aborted && !working); });
    if (generation == mine)
      return Status::error(kStopped);
    missed = outcomeMissed;
    return outcome;
  }
  working = true;
  lock.unlock();
  std::optional<int64_t> lost;
  Status status = exchangeAll(lost);
  lock.lock();
  working = false, arrived = 0, ++generation;
  outcome = status, missed = outcomeMissed = lost;
  condition.notify_all();
  return status;
}

//===----------------------------------------------------------------------===//
// With other processes
//===----------------------------------------------------------------------===//

Status Group::exchangeAll(std::optional<int64_t> &missed) {
  WithoutPipeSignal guard;
  const Collective &op = *posts[places.own().front()].op;
  Failure lost;
  try {
    Exchange exchange(places, posts);
    std::vector<std::string> texts(mail.size());
    std::string head = headOf();
    for (size_t process = 0; process < mail.size(); ++process) {
      bool carries = exchange.isInlined() && process != places.self;
      std::string values = carries ? exchange.inlineFor(process) : "";
      links->countSent(values.size());
      texts[process] = Packer().string(head).string(values).text();
    }
    if (!exchange.isInlined())
      exchange.expect(*links, slots);
    greet(texts);
    std::vector<std::string> heads(mail.size()), received(mail.size());
    heads[places.self] = head;
    for (size_t process = 0; process < mail.size(); ++process) {
      if (process == places.self)
        continue;
      std::string text = receive(process);
      Unpacker fields(text);
      heads[process] = fields.string();
      received[process] = fields.string();
    }
    ++turn;
    if (Status status = compare(heads); !status.ok())
      return status;
    if (exchange.isInlined())
      exchange.finishInlined(received);
    else
      exchange.finish();
    return Status::success();
  } catch (const Failure &failure) {
    missed = failure.lost;
    lost = failure;
  }
  links->close();
  return explain(lost, describe(op));
}

/// Straight from and into the buffers.
Status Group::transfer(bool sends, void *data, size_t bytes,
                       const std::function<void()> &moves,
                       std::optional<int64_t> &missed) {
  constexpr size_t kPiece = 256 << 10, kFirst = 64, kWindow = 2;
  size_t first = moves ? std::min(bytes, kFirst) : 0;
  size_t numFirst = first > 0;
  {
    std::lock_guard lock(mutex);
    if (aborted)
      return Status::error("stopped by an error on another rank");
  }
  WithoutPipeSignal guard;
  Row row{*links,
          places.processes[1 - places.self],
          slots + uint64_t(Lane::Data),
          numFirst + (bytes - first + kPiece - 1) / kPiece,
          kWindow,
          int64_t(kPiece)};
  auto piece = [&](size_t k) {
    bool isFirst = k < numFirst;
    size_t begin = isFirst ? 0 : first + (k - numFirst) * kPiece;
    size_t end = isFirst ? first : std::min(bytes, begin + kPiece);
    return Inbox::Room{static_cast<char *>(data) + begin, end - begin};
  };
  try {
    if (sends) {
      Outbox outbox(row, [&](size_t k, Ring &) {
        return Piece{piece(k).memory, piece(k).bytes};
      });
      if (numFirst) {
        outbox.post(1);
        outbox.awaitAll();
        moves();
      }
      outbox.finish();
    } else {
      Inbox inbox(row, [&](size_t k, Ring &) { return piece(k); });
      for (size_t k = 0; k < row.count; ++k, inbox.refill()) {
        inbox.next();
        if (k < numFirst)
          moves();
      }
    }
    return Status::success();
  } catch (const Failure &failure) {
    missed = failure.lost;
    links->close();
    return explain(failure, concat("transfer of ", bytes, " bytes"));
  }
}

void Group::postReceive(size_t process, uint64_t of) {
  std::vector<char> &memory = mail[process].incoming[of % 2];
  mail[process].expected[of % 2].emplace(Message::receive(
      *links, places.processes[process], slots + uint64_t(Lane::Greeting),
      memory.data(), memory.size()));
}

/// A greeting is as long as it says, at most what is expected. Who has got it
/// may be done, and leave: so the next one is expected before it is sent.
void Group::greet(const std::vector<std::string> &texts) {
  for (size_t process = 0; process < mail.size(); ++process) {
    Mail &with = mail[process];
    if (process == places.self)
      continue;
    postReceive(process, turn + 1);
    if (with.sent)
      with.sent->await();
    with.outgoing = Packer().string(texts[process]).text();
    if (with.outgoing.size() > kMaxGreeting)
      throw Failure{errorOf("internal error: a greeting of ",
                            with.outgoing.size(), " bytes, expected at most ",
                            kMaxGreeting),
                    {}};
    with.sent.emplace(Message::send(
        *links, places.processes[process], slots + uint64_t(Lane::Greeting),
        with.outgoing.data(), with.outgoing.size()));
  }
}

std::string Group::receive(size_t process) {
  Mail &with = mail[process];
  with.expected[turn % 2]->await();
  const std::vector<char> &memory = with.incoming[turn % 2];
  return Unpacker(std::string_view(memory.data(), memory.size())).string();
}

/// Who we are, how often we met, what the first member here does and the first
/// that does not do the same.
std::string Group::headOf() const {
  Packer head;
  head.string(nameOf(places, 0)).number(slots).number(turn);
  const Collective &first = *posts[places.own().front()].op;
  write(head, first);
  for (size_t member : places.own())
    if (!isSame(first, *posts[member].op)) {
      head.number(member + 1);
      write(head, *posts[member].op);
      return head.text();
    }
  return head.number(0).text();
}

/// All processes compare the same and find the same.
Status Group::compare(const std::vector<std::string> &heads) const {
  std::map<size_t, Collective> seen;
  for (size_t process = 0; process < heads.size(); ++process) {
    Unpacker fields(heads[process]);
    bool meets = fields.string() == nameOf(places, 0);
    meets &= fields.number() == slots;
    uint64_t times = fields.number();
    if (!meets || times != turn - 1)
      return errorOf("process ", places.processes[process], " runs collective ",
                     times, meets ? "" : " of another group",
                     ", expected collective ", turn - 1);
    seen[places.owned[process].front()] = read(fields);
    if (size_t other = fields.number())
      seen[other - 1] = read(fields);
    if (!fields.ok())
      return Status::error("internal error: a greeting that cannot be read");
  }
  const Collective &first = seen.begin()->second;
  for (const auto &[member, op] : seen)
    if (!isSame(first, op))
      return disagreement(first, member, op);
  return Status::success();
}

Status Group::explain(const Failure &failure, const std::string &what) const {
  if (!failure.lost)
    return failure.status;
  auto at = std::find(places.processes.begin(), places.processes.end(),
                      *failure.lost);
  const std::vector<size_t> &lost =
      places.owned[size_t(at - places.processes.begin())];
  std::string ranks;
  for (size_t member : lost)
    ranks += concat(ranks.empty() ? "rank " : ", ", places.members[member]);
  return errorOf(what, ": ", ranks, " ", failure.status.message());
}

} // namespace tandem::rt::gloo
