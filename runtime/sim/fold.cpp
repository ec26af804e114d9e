//===- fold.cpp - ranks that do the same ----------------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "sim/fold.h"

#include <numeric>
#include <set>

namespace tandem::rt::sim {

namespace {
constexpr uint32_t kNone = ~uint32_t(0);

/// Sets; each is named by its least member.
class Sets {
public:
  explicit Sets(size_t size) : parents(size) {
    std::iota(parents.begin(), parents.end(), size_t(0));
  }
  size_t find(size_t member) {
    while (parents[member] != member)
      member = parents[member] = parents[parents[member]];
    return member;
  }
  void join(size_t a, size_t b) {
    a = find(a), b = find(b);
    parents[std::max(a, b)] = std::min(a, b);
  }

private:
  std::vector<size_t> parents;
};

class Folder {
public:
  Folder(const TimelineHead &head, const Machine &machine,
         const SimulationOptions &options)
      : head(head), machine(machine), stragglers(options.stragglers),
        ranks(size_t(head.numRanks())), links(machine.numLinks) {
    for (int64_t rank = 0; rank < head.numRanks(); ++rank)
      linksOf.push_back(machine.linksOf(rank));
  }
  void tryAxes();
  Folding make();

private:
  template <typename Map>
  void tryMap(int64_t stride, int64_t size, Map mapPoint);
  bool keeps(const std::vector<int64_t> &images,
             std::vector<uint32_t> &linkImages) const;

  double factorOf(int64_t rank) const {
    auto found = stragglers.find(rank);
    return found == stragglers.end() ? 1 : found->second;
  }

  const TimelineHead &head;
  const Machine &machine;
  const std::map<int64_t, double> &stragglers;
  std::vector<std::vector<uint32_t>> linksOf;
  Sets ranks, links;
};

/// Whether the permutation keeps all but groups, which it keeps by itself.
bool Folder::keeps(const std::vector<int64_t> &images,
                   std::vector<uint32_t> &linkImages) const {
  std::vector<uint32_t> sources(linkImages.size(), kNone);
  for (size_t rank = 0; rank < images.size(); ++rank) {
    size_t image = size_t(images[rank]);
    if (head.rankToProgram[rank] != head.rankToProgram[image] ||
        machine.kindOf(int64_t(rank)) != machine.kindOf(images[rank]) ||
        factorOf(int64_t(rank)) != factorOf(images[rank]))
      return false;
    for (size_t i = 0; i < linksOf[rank].size(); ++i) {
      uint32_t link = linksOf[rank][i], to = linksOf[image][i];
      if (linkImages[link] == kNone && sources[to] == kNone)
        linkImages[link] = to, sources[to] = link;
      if (linkImages[link] != to || sources[to] != link)
        return false;
    }
  }
  return true;
}

template <typename Map>
void Folder::tryMap(int64_t stride, int64_t size, Map mapPoint) {
  std::vector<int64_t> images;
  for (int64_t rank = 0; rank < head.numRanks(); ++rank) {
    int64_t point = rank / stride % size;
    images.push_back(rank + (mapPoint(point) - point) * stride);
  }
  std::vector<uint32_t> linkImages(machine.numLinks, kNone);
  if (!keeps(images, linkImages))
    return;
  for (size_t rank = 0; rank < images.size(); ++rank)
    ranks.join(rank, size_t(images[rank]));
  for (size_t link = 0; link < linkImages.size(); ++link)
    if (linkImages[link] != kNone)
      links.join(link, linkImages[link]);
}

/// Of each axis rotations, whole and within blocks. Transfers name points.
void Folder::tryAxes() {
  std::set<uint32_t> named;
  for (const auto &listing : head.rankPrograms)
    for (const TimelineCommand &command : listing)
      if (command.isTransfer())
        named.insert(command.axes.front());
  int64_t stride = 1;
  for (uint32_t axis = uint32_t(head.mesh.size()); axis-- > 0;) {
    int64_t size = head.mesh[axis].size;
    for (int64_t part = 1; part <= size && !named.contains(axis); ++part) {
      if (size % part != 0)
        continue;
      tryMap(stride, size, [&](int64_t at) { return (at + part) % size; });
      tryMap(stride, size,
             [&](int64_t at) { return at - at % part + (at + 1) % part; });
    }
    stride *= size;
  }
}

Folding Folder::make() {
  Folding folding;
  for (size_t rank = 0; rank < linksOf.size(); ++rank)
    folding.first.push_back(int64_t(ranks.find(rank)));
  folding.numLinks.resize(machine.numLinks);
  for (uint32_t link = 0; link < machine.numLinks; ++link) {
    folding.firstLink.push_back(uint32_t(links.find(link)));
    ++folding.numLinks[folding.firstLink.back()];
  }
  return folding;
}
} // namespace

Folding foldRanks(const TimelineHead &head, const Machine &machine,
                  const SimulationOptions &options) {
  Folder folder(head, machine, options);
  if (options.jitter == 0)
    folder.tryAxes();
  return folder.make();
}

} // namespace tandem::rt::sim
