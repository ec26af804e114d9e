//===- joint.cpp - collectives of processes with several ranks ------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/collectives/joint.h"
#include "core/access.h"
#include "cuda/collectives/messages.h"
#include "tandem_rt/program_builder.h"

#include <algorithm>
#include <set>

namespace tandem::rt::cuda {

namespace {
/// Bytes of the larger operand of a member.
int64_t operandBytes(const Collective &op, int64_t members) {
  return elementBytes(op.type) *
         std::max(numElements(op.shape),
                  numElements(destinationShape(op, members)));
}

/// A sum's elements: a part of each member, which adds it up, and the rest,
/// which all add up.
struct Parts {
  int64_t part, rest; ///< Bytes.
  Parts(const Collective &op, int64_t members) {
    int64_t elements = numElements(op.shape), width = elementBytes(op.type);
    part = elements * width <= kSmallSum ? 0 : elements / members * width;
    rest = elements * width - members * part;
  }
};

/// Bytes of what all members have in one area of a process.
int64_t sharedBytes(const Collective &op, int64_t members) {
  Parts parts(op, members);
  return std::max(operandBytes(op, members),
                  members * std::max(parts.part, parts.rest));
}

/// Blocks of all members, to all processes: each lies at its place.
std::vector<Message> gatherMessages(const Joint &joint, Address all,
                                    int64_t bytes) {
  std::set<int64_t> others(joint.processOf.begin(), joint.processOf.end());
  others.erase(joint.process);
  std::vector<Message> messages;
  for (size_t from = 0; from < joint.processOf.size(); ++from) {
    Address at = all + int64_t(from) * bytes;
    if (!joint.isHere(from))
      messages.push_back({false, joint.processOf[from], at, bytes});
    else
      for (int64_t process : others)
        messages.push_back({true, process, at, bytes});
  }
  return messages;
}

class JointCollective final : public CollectiveBuilder {
public:
  JointCollective(const Joint &joint, const std::vector<Post> &posts,
                  int64_t count);

private:
  Status allReduce() override;
  Status reduceScatter() override;
  Status allGather() override;
  Status allToAll() override;

  Status sum(Address terms, int64_t bytes, const std::vector<Address> &to) {
    std::vector<Address> list;
    for (int64_t i = 0; i < n; ++i)
      list.push_back(terms + i * bytes);
    return add(makeSum(gpu, op.type, list, to, bytes / width, count));
  }
  void gather(Address all, int64_t bytes) {
    works.push_back(
        makeMessages(joint.processes, gatherMessages(joint, all, bytes)));
  }
  /// Block i of `from` of member k becomes block k of `to` of member i.
  void exchange(const std::vector<Address> &from,
                const std::vector<Address> &to, int64_t bytes);
  /// The sources of members here, packed if they lie in rows.
  Expected<std::vector<Address>> pack(int64_t rows, int64_t columns);
  template <typename Body> Status forEachHere(Body body) {
    for (size_t i : here)
      if (Status status = body(i); !status.ok())
        return status;
    return Status::success();
  }

  const Joint &joint;
  const std::vector<Post> &posts;
  std::vector<size_t> here; ///< Members.
  /// By member; where a member is elsewhere there is none.
  std::vector<Address> packed, received;
  Address shared;
};

const Collective &operationOf(const std::vector<Post> &posts) {
  return *std::ranges::find_if(posts, [](const Post &p) { return p.op; })->op;
}

JointCollective::JointCollective(const Joint &joint,
                                 const std::vector<Post> &posts, int64_t count)
    : CollectiveBuilder(joint.gpu, operationOf(posts), count,
                        int64_t(posts.size())),
      joint(joint), posts(posts), packed(posts.size()), received(posts.size()),
      shared{joint.scratch, 0} {
  int64_t area = aligned(operandBytes(op, n));
  Address next = shared + aligned(sharedBytes(op, n));
  for (size_t i = 0; i < posts.size(); ++i) {
    if (!joint.isHere(i))
      continue;
    here.push_back(i);
    packed[i] = next, received[i] = next + area;
    next = next + 2 * area;
  }
}

/// Two processes name the blocks between them in one order: by sender, and then
/// by receiver.
void JointCollective::exchange(const std::vector<Address> &from,
                               const std::vector<Address> &to, int64_t bytes) {
  std::vector<Message> messages;
  for (size_t k = 0; k < posts.size(); ++k)
    for (size_t i = 0; i < posts.size(); ++i) {
      Address source = from[k] + int64_t(i) * bytes;
      Address target = to[i] + int64_t(k) * bytes;
      if (joint.isHere(k) && joint.isHere(i))
        copy(source, target, bytes);
      else if (joint.isHere(k))
        messages.push_back({true, joint.processOf[i], source, bytes});
      else if (joint.isHere(i))
        messages.push_back({false, joint.processOf[k], target, bytes});
    }
  works.push_back(makeMessages(joint.processes, std::move(messages)));
}

Expected<std::vector<Address>> JointCollective::pack(int64_t rows,
                                                     int64_t columns) {
  std::vector<Address> from(posts.size());
  Status status = forEachHere([&](size_t i) {
    from[i] = rows > 1 ? packed[i] : posts[i].source;
    return rows > 1 ? permute(posts[i].source, packed[i], rows, columns, true)
                    : Status::success();
  });
  if (!status.ok())
    return status;
  return from;
}

Status JointCollective::allReduce() {
  Parts parts(op, n);
  std::vector<Address> sources(posts.size()), rests;
  for (size_t i : here) {
    sources[i] = posts[i].source;
    rests.push_back(posts[i].destination + n * parts.part);
    copy(sources[i] + n * parts.part, shared + int64_t(i) * parts.rest,
         parts.rest);
  }
  gather(shared, parts.rest);
  // Before anything is written, as a destination may be its source.
  exchange(sources, received, parts.part);
  Status status = sum(shared, parts.rest, rests);
  if (status.ok())
    status = forEachHere([&](size_t i) {
      return sum(received[i], parts.part, {shared + int64_t(i) * parts.part});
    });
  gather(shared, parts.part);
  for (size_t i : here)
    copy(shared, posts[i].destination, n * parts.part);
  return status;
}

Status JointCollective::reduceScatter() {
  Cut cut(op.shape, op.splitDim);
  int64_t bytes = cut.rows * (cut.columns / n) * width;
  auto from = pack(cut.rows, cut.columns / n);
  if (!from.ok())
    return from.status();
  exchange(*from, received, bytes);
  return forEachHere([&](size_t i) {
    return sum(received[i], bytes, {posts[i].destination});
  });
}

Status JointCollective::allGather() {
  Cut cut(op.shape, op.concatDim);
  int64_t bytes = numElements(op.shape) * width;
  for (size_t i : here)
    copy(posts[i].source, shared + int64_t(i) * bytes, bytes);
  gather(shared, bytes);
  return forEachHere([&](size_t i) {
    if (cut.rows > 1)
      return permute(shared, posts[i].destination, cut.rows, cut.columns,
                     false);
    copy(shared, posts[i].destination, n * bytes);
    return Status::success();
  });
}

/// Member i takes slice i of every source.
Status JointCollective::allToAll() {
  Shape block = op.shape;
  block[size_t(op.splitDim)] /= n;
  Cut split(block, op.splitDim), join(block, op.concatDim);
  auto from = pack(split.rows, split.columns);
  if (!from.ok())
    return from.status();
  exchange(*from, received, numElements(block) * width);
  return forEachHere([&](size_t i) {
    return permute(received[i], posts[i].destination, join.rows, join.columns,
                   false);
  });
}

} // namespace

int64_t jointScratchBytes(const Collective &op, int64_t members, int64_t here) {
  return aligned(sharedBytes(op, members)) +
         2 * here * aligned(operandBytes(op, members));
}

Expected<std::unique_ptr<Work>>
makeJoint(const Joint &joint, const std::vector<Post> &posts, int64_t count) {
  return JointCollective(joint, posts, count).make();
}

std::unique_ptr<Work> makeJointGather(const Joint &joint, Address all,
                                      int64_t bytes) {
  return makeMessages(joint.processes, gatherMessages(joint, all, bytes));
}

} // namespace tandem::rt::cuda
