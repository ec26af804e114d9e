//===- PartitionText.cpp - partitions as text -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tandem/Orders/Partition.h"
#include "tandem/Orders/Words.h"
#include <algorithm>

using namespace tandem;
using namespace tandem::orders;

std::string tandem::orders::print(const Partition &partition) {
  std::string text;
  for (unsigned i = 0; i < partition.sections.size(); ++i) {
    const Section &section = partition.sections[i];
    text += "section " + std::to_string(i) + " point " +
            std::to_string(section.point) + " F " +
            printNumber(section.forward);
    if (section.hasBackward && section.isSplit)
      text += " I " + printNumber(section.input) + " W " +
              printNumber(section.weight);
    else if (section.hasBackward)
      text += " B " + printNumber(section.input + section.weight);
    text += " activations " + printNumber(section.activations);
    if (section.kept)
      text += " kept " + printNumber(*section.kept);
    text += section.sum > 0 ? " sum " + printNumber(section.sum) + "\n" : "\n";
  }
  for (const Edge &edge : partition.edges)
    text += "edge " + std::to_string(edge.from) + " " +
            std::to_string(edge.to) + " comm " + printNumber(edge.seconds) +
            (edge.hasGradient ? "\n" : " no-gradient\n");
  return text;
}

/// What costs in these lines leave open; null: nothing.
static const char *findMissing(const Section &section,
                               const std::set<std::string_view> &found) {
  bool hasInput = found.contains("I");
  if (!found.contains("F"))
    return "the cost F";
  if (hasInput != found.contains("W"))
    return "both I and W, or neither of them";
  if (!section.isSplit && hasInput)
    return "B alone, or I and W";
  if (section.sum > 0 && !section.hasBackward)
    return "I and W beside the sum of gradients";
  return section.kept && !hasInput ? "I and W beside what I keeps for W"
                                   : nullptr;
}

static void readSection(Words &words, Partition &partition) {
  Section section;
  double whole = 0, kept = 0;
  words.takeNext(partition.sections.size(), "section");
  words.takeChoice({"point"});
  section.point = words.takeCount(0);
  auto found = words.takeFields({{"F", &section.forward},
                                 {"I", &section.input},
                                 {"W", &section.weight},
                                 {"B", &whole},
                                 {"activations", &section.activations},
                                 {"kept", &kept},
                                 {"sum", &section.sum}});
  section.isSplit = !found.contains("B");
  section.hasBackward = !section.isSplit || found.contains("I");
  if (!section.isSplit)
    section.input = whole;
  if (found.contains("kept"))
    section.kept = kept;
  if (const char *missing = findMissing(section, found))
    words.fail(std::string("found the end of the line, expected ") + missing);
  partition.numPoints = std::max(partition.numPoints, section.point + 1);
  partition.sections.push_back(section);
}

static void readEdge(Words &words, Partition &partition) {
  Edge edge;
  edge.from = words.takeIndex(partition.sections.size(), "sections");
  edge.to = words.takeIndex(partition.sections.size(), "sections");
  std::string name =
      "edge " + std::to_string(edge.from) + " " + std::to_string(edge.to);
  if (words.hasLine(name))
    words.fail("found a second " + name + ", expected one");
  words.mark(name);
  if (words.takeIf("comm"))
    edge.seconds = words.takeNumber();
  edge.hasGradient = !words.takeIf("no-gradient");
  words.expectEnd();
  partition.edges.push_back(edge);
}

bool tandem::orders::readPartitionLine(Words &words, Partition &partition) {
  if (words.takeIf("edge"))
    readEdge(words, partition);
  else if (!words.takeIf("section"))
    return false;
  else if (partition.edges.empty())
    readSection(words, partition);
  else
    words.expect("'edge' behind the sections");
  return true;
}

std::optional<Partition> tandem::orders::parsePartition(std::string_view text,
                                                        std::string_view name,
                                                        std::string &error) {
  error.clear();
  Words words(text, name, error);
  Partition partition;
  while (words.next())
    if (!readPartitionLine(words, partition)) {
      words.take();
      words.expect("section or edge");
    }
  std::string why;
  if (words.ok() && !verifyPartition(partition, why))
    words.fail(why);
  return words.ok() ? std::optional(std::move(partition)) : std::nullopt;
}
