//===- messages.cpp - messages of collectives -----------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cuda/collectives/messages.h"
#include "cuda/kernels/words.h"

namespace tandem::rt::cuda {

namespace {
class MessagesWork final : public Work {
public:
  MessagesWork(nccl::Group &group, std::vector<Message> messages)
      : group(group), messages(std::move(messages)) {}

  Status enqueue(CUstream stream, int64_t iteration) override {
    Status status = group.begin();
    for (const Message &message : messages) {
      if (!status.ok())
        break;
      void *at = reinterpret_cast<void *>(message.at.at(iteration));
      size_t bytes = size_t(message.bytes);
      int peer = int(message.peer);
      status = message.isSend ? group.send(at, bytes, peer, stream)
                              : group.receive(at, bytes, peer, stream);
    }
    Status ended = group.end();
    return status.ok() ? ended : status;
  }

private:
  nccl::Group &group;
  std::vector<Message> messages;
};
} // namespace

std::unique_ptr<Work> makeMessages(nccl::Group &group,
                                   std::vector<Message> messages) {
  std::erase_if(messages, [](const Message &m) { return m.bytes == 0; });
  if (messages.empty())
    return makeSequence({});
  return std::make_unique<MessagesWork>(group, std::move(messages));
}

Expected<std::unique_ptr<Work>> makePermute(const std::shared_ptr<Gpu> &gpu,
                                            Address from, Address to,
                                            int64_t members, int64_t rows,
                                            int64_t columns, int64_t width,
                                            bool isPacking, int64_t count) {
  Shape extents = {members, rows, columns};
  Shape aside = {columns, members * columns, 1},
        behind = {rows * columns, columns, 1};
  int64_t total = members * rows * columns;
  auto words = [&](int64_t iteration) {
    Words made = {3, total, int64_t(from.at(iteration)),
                  int64_t(to.at(iteration))};
    for (const Shape *numbers :
         {&extents, isPacking ? &aside : &behind, isPacking ? &behind : &aside})
      made.insert(made.end(), numbers->begin(), numbers->end());
    return made;
  };
  return makePlainWork(gpu, "tandem_copy_" + std::to_string(width), total,
                       count, words);
}

Expected<std::unique_ptr<Work>> makeSum(const std::shared_ptr<Gpu> &gpu,
                                        ElementType type,
                                        const std::vector<Address> &terms,
                                        const std::vector<Address> &to,
                                        int64_t columns, int64_t count) {
  if (columns == 0)
    return makeSequence({});
  auto words = [&](int64_t iteration) {
    Words made = {1, columns, 0, 0, int64_t(terms.size()), int64_t(to.size())};
    for (const std::vector<Address> *list : {&terms, &to})
      for (const Address &address : *list)
        made.push_back(int64_t(address.at(iteration)));
    return made;
  };
  return makePlainWork(gpu, "tandem_sum_" + std::string(elementName(type)),
                       columns, count, words);
}

CollectiveBuilder::CollectiveBuilder(const std::shared_ptr<Gpu> &gpu,
                                     const Collective &op, int64_t count,
                                     int64_t members)
    : gpu(gpu), op(op), count(count), n(members), width(elementBytes(op.type)) {
}

Status CollectiveBuilder::add(Expected<std::unique_ptr<Work>> work) {
  if (work.ok())
    works.push_back(std::move(*work));
  return work.status();
}

void CollectiveBuilder::copy(Address from, Address to, int64_t bytes) {
  works.push_back(makeCopy(gpu, from, to, size_t(bytes)));
}

Status CollectiveBuilder::permute(Address from, Address to, int64_t rows,
                                  int64_t columns, bool isPacking) {
  return add(
      makePermute(gpu, from, to, n, rows, columns, width, isPacking, count));
}

Expected<std::unique_ptr<Work>> CollectiveBuilder::make() {
  Status status;
  if (numElements(op.shape) == 0)
    return makeSequence({});
  switch (op.kind) {
  case CollectiveKind::AllReduce:
    status = allReduce();
    break;
  case CollectiveKind::AllGather:
    status = allGather();
    break;
  case CollectiveKind::ReduceScatter:
    status = reduceScatter();
    break;
  case CollectiveKind::AllToAll:
    status = allToAll();
    break;
  }
  if (!status.ok())
    return status;
  return makeSequence(std::move(works));
}

} // namespace tandem::rt::cuda
