//===- PartitionText.cpp - partitions as text -----------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Text.h"
#include "tandem/Orders/Partition.h"
#include <algorithm>
#include <charconv>
#include <map>

using namespace tandem;
using namespace tandem::orders;

/// The shortest text that reads back as the same number.
static std::string printNumber(double value) {
  char buffer[32];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, end);
}

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

namespace {
using Words = std::vector<std::string_view>;

class PartitionReader {
public:
  explicit PartitionReader(std::string &error) : error(error) {}

  /// False, with `error` set, for a line that is none of a partition.
  bool readLine(std::string_view line);
  Partition takePartition();

private:
  bool readSection();
  bool readEdge();
  /// The pairs of a name and a number from word `place` on, by name.
  bool readNumbers(size_t place, const Words &names);
  bool readIndex(size_t place, unsigned &value);
  bool expect(size_t place, const std::string &expected);
  double get(std::string_view name, double otherwise) const {
    auto found = numbers.find(name);
    return found == numbers.end() ? otherwise : found->second;
  }

  std::string &error;
  Words words;
  std::map<std::string_view, double> numbers;
  Partition partition;
};
} // namespace

static Words splitWords(std::string_view line) {
  Words words;
  line = line.substr(0, line.find('#'));
  while (!(line = trim(line)).empty()) {
    size_t end = line.find_first_of(" \t");
    words.push_back(line.substr(0, end));
    line.remove_prefix(words.back().size());
  }
  return words;
}

bool PartitionReader::expect(size_t place, const std::string &expected) {
  error = "found " +
          (place < words.size() ? quote(words[place]) : "the end of the line") +
          ", expected " + expected;
  return false;
}

bool PartitionReader::readIndex(size_t place, unsigned &value) {
  std::string_view text = place < words.size() ? words[place] : "";
  std::optional<unsigned> number = takeNumber(text);
  if (!number || !text.empty())
    return expect(place, "a whole number below " + std::to_string(kMaxNumber));
  value = *number;
  return true;
}

static std::optional<double> parseQuantity(std::string_view text) {
  double value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= 0 && value <= kMaxQuantity))
    return std::nullopt;
  return value;
}

bool PartitionReader::readNumbers(size_t place, const Words &names) {
  std::string list;
  for (std::string_view name : names)
    list += (list.empty()           ? ""
             : name == names.back() ? " or "
                                    : ", ") +
            std::string(name);
  numbers.clear();
  for (; place < words.size(); place += 2) {
    std::string_view name = words[place];
    if (std::find(names.begin(), names.end(), name) == names.end())
      return expect(place, list);
    if (numbers.count(name))
      return expect(place, "'" + std::string(name) + "' once");
    std::optional<double> value;
    if (place + 1 < words.size())
      value = parseQuantity(words[place + 1]);
    if (!value)
      return expect(place + 1, "a number from 0 to 1e+15");
    numbers[name] = *value;
  }
  return true;
}

bool PartitionReader::readSection() {
  unsigned number = 0;
  Section section;
  if (!readIndex(1, number))
    return false;
  if (number != partition.sections.size())
    return expect(1, std::to_string(partition.sections.size()) +
                         ", the next section");
  if (words.size() < 3 || words[2] != "point")
    return expect(2, "'point'");
  if (!readIndex(3, section.point) ||
      !readNumbers(4, {"F", "I", "W", "B", "activations", "kept", "sum"}))
    return false;
  if (!numbers.count("F"))
    return expect(words.size(), "the cost F");
  if (numbers.count("I") != numbers.count("W"))
    return expect(words.size(), "both I and W, or neither of them");
  section.isSplit = !numbers.count("B");
  if (!section.isSplit && numbers.count("I"))
    return expect(words.size(), "B alone, or I and W");
  section.hasBackward = !section.isSplit || numbers.count("I");
  section.forward = get("F", 0);
  section.input = get(section.isSplit ? "I" : "B", 0);
  section.weight = get("W", 0);
  section.activations = get("activations", section.activations);
  if (numbers.count("kept"))
    section.kept = get("kept", 0);
  section.sum = get("sum", 0);
  if (section.sum > 0 && !section.hasBackward)
    return expect(words.size(), "I and W beside the sum of gradients");
  if (section.kept && !numbers.count("I"))
    return expect(words.size(), "I and W beside what I keeps for W");
  partition.numPoints = std::max(partition.numPoints, section.point + 1);
  partition.sections.push_back(section);
  return true;
}

bool PartitionReader::readEdge() {
  Edge edge;
  if (!readIndex(1, edge.from) || !readIndex(2, edge.to))
    return false;
  if (words.back() == "no-gradient") {
    edge.hasGradient = false;
    words.pop_back();
  }
  if (!readNumbers(3, {"comm"}))
    return false;
  edge.seconds = get("comm", 0);
  partition.edges.push_back(edge);
  return true;
}

bool PartitionReader::readLine(std::string_view line) {
  words = splitWords(line);
  if (words.empty())
    return true;
  if (words[0] == "section" && partition.edges.empty())
    return readSection();
  if (words[0] == "edge")
    return readEdge();
  return expect(0, partition.edges.empty() ? "'section' or 'edge'"
                                           : "'edge' behind the sections");
}

Partition PartitionReader::takePartition() { return std::move(partition); }

std::optional<Partition> tandem::orders::parsePartition(std::string_view text,
                                                        std::string_view name,
                                                        std::string &error) {
  PartitionReader reader(error);
  unsigned number = 0;
  for (std::string_view line : splitLines(text)) {
    ++number;
    if (!reader.readLine(line)) {
      error = std::string(name) + ":" + std::to_string(number) + ": " + error;
      return std::nullopt;
    }
  }
  Partition partition = reader.takePartition();
  if (verifyPartition(partition, error))
    return partition;
  error = std::string(name) + ": " + error;
  return std::nullopt;
}
