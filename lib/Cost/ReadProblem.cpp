//===- ReadProblem.cpp - a search problem from its text -------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Text.h"
#include <algorithm>

using namespace tandem::cost;

namespace {
class ProblemParser : LineReader {
public:
  ProblemParser(std::string_view text, std::string_view name,
                std::string &error)
      : LineReader(text, name, error) {}

  std::optional<SearchProblem> run();

private:
  bool parseLine();
  bool parseHeader();
  bool parseLimit();
  bool parseAxis();
  bool parseView(unsigned &place, Tensor &tensor);
  bool parseTensor();
  bool parseSignature();
  bool parseOperator();
  bool parseTie();
  bool parseTrailer(size_t place, Operator &op);
  bool parseLocations(size_t &place, std::string_view word, size_t count,
                      const Operator &op, std::vector<std::string> &locations);
  bool checkOperator(const Operator &op);
  bool checkSignature(const Operator &op, const Signature &signature);
  bool checkTie(unsigned first, unsigned second);

  SearchProblem problem;
  std::vector<bool> isMade;
  double totalBytes = 0;
};
} // namespace

/// What `printWord` made of a name; others become what it makes of them, so
/// that a problem prints as what it was read from.
static std::string readName(std::string_view word) {
  return word == "-" ? std::string() : printWord(word);
}

bool ProblemParser::parseLimit() {
  if (getWord(0) == "piece") {
    auto latency = getQuantity(1, "s");
    problem.pieceLatency = latency.value_or(0);
    return latency && expectEnd(3);
  }
  if (getWord(0) == "memory") {
    auto bytes = getBytes(1);
    problem.memoryLimit = bytes.value_or(0);
    return bytes && expectEnd(3);
  }
  if (getWord(0) == "alignment") {
    auto alignment = parseNumber<int64_t>(getWord(1));
    if (!alignment || *alignment < 1 || *alignment > (int64_t(1) << 20))
      return failWord(1, "a number of bytes from 1 to 2^20");
    problem.alignment = *alignment;
    return expectEnd(2);
  }
  if (getWord(1) != "compute" || getWord(3) != "collective")
    return failWord(1, "'slowdown compute A collective B'");
  auto compute = getQuantity(2, ""), collective = getQuantity(4, "");
  if (!compute || !collective)
    return false;
  if (*compute < 1 || *collective < 1)
    return failWord(*compute < 1 ? 2 : 4, "a slow-down of at least 1");
  problem.computeSlowdown = *compute;
  problem.collectiveSlowdown = *collective;
  return expectEnd(5);
}

bool ProblemParser::parseHeader() {
  if (getWord(0) == "graph") {
    problem.graphHash = getWord(1);
    return expectEnd(2);
  }
  auto accounting = parseAccounting(getWord(1));
  if (!accounting)
    return failWord(1, "hidup-serial, hidup-overlapped, oases or tandem");
  problem.accounting = *accounting;
  return expectEnd(2);
}

bool ProblemParser::parseAxis() {
  Axis axis;
  axis.name = getWord(1);
  axis.isTime = getWord(2) == "time";
  if (!axis.isTime && getWord(2) != "space")
    return failWord(2, "'space' or 'time'");
  if (problem.axes.size() == kMaxAxes ||
      (!problem.axes.empty() && problem.axes.back().isTime) ||
      (!axis.isTime && problem.axes.size() + 1 == kMaxAxes))
    return fail("found one axis too many, expected at most three space axes "
                "and behind them at most one time axis");
  if (!problem.tensors.empty() || !problem.signatureSets.empty())
    return fail("found an axis behind tensors, expected axes first");
  for (const Axis &other : problem.axes)
    if (other.name == axis.name)
      return failWord(1, "another name: this axis is there already");
  if (axis.name.find_first_of("=',#") != std::string::npos)
    return failWord(1, "a name without =, comma or quote");
  auto size = parseNumber<int64_t>(getWord(3));
  if (!size || *size < 1 || *size > (int64_t(1) << 30))
    return failWord(3, "a size of at least 1");
  axis.size = *size;
  size_t place = 4;
  if (!axis.isTime && getWord(place) == "queue") {
    auto queue = parseNumber<unsigned>(getWord(place + 1));
    if (!queue || *queue >= kMaxAxes)
      return failWord(place + 1, "a queue from 0 to 3");
    axis.queue = *queue;
    place += 2;
  }
  for (; place < getWords().size(); place += 5) {
    auto kind = std::find(std::begin(kChangeNames), std::end(kChangeNames),
                          getWord(place));
    if (kind == std::end(kChangeNames))
      return failWord(place, "all-gather, reduce-scatter, all-reduce or "
                             "all-to-all");
    auto latency = getQuantity(place + 1, "s");
    auto perByte = latency ? getQuantity(place + 3, "s/B") : std::nullopt;
    if (!perByte)
      return false;
    axis.rates[kind - std::begin(kChangeNames)] = {*latency, *perByte};
  }
  problem.axes.push_back(std::move(axis));
  return true;
}

static double countBytes(const Tensor &tensor) {
  auto bytes = static_cast<double>(tensor.elementBytes);
  for (int64_t size : tensor.shape)
    bytes *= static_cast<double>(size);
  return bytes;
}

bool ProblemParser::parseView(unsigned &place, Tensor &tensor) {
  auto root = parseNumber<int>(getWord(place + 1));
  if (!root || *root < 0 || *root >= static_cast<int>(problem.tensors.size()))
    return failWord(place + 1, "a tensor before this one");
  if (countBytes(problem.tensors[*root]) != countBytes(tensor))
    return failWord(place + 1, "a tensor of as many bytes");
  tensor.viewOf = *root;
  place += 2;
  return true;
}

bool ProblemParser::parseTensor() {
  Tensor tensor;
  if (!expectIndex("tensor", problem.tensors.size()))
    return false;
  tensor.name = readName(getWord(2));
  constexpr int64_t limit = int64_t(1) << 60;
  auto bytes = getBytes(4);
  if (!bytes)
    return false;
  tensor.elementBytes = *bytes;
  if (getWord(3) != "scalar")
    for (std::string_view part : split(getWord(3), 'x')) {
      auto size = parseNumber<int64_t>(part);
      if (!size || *size < 1 || tensor.shape.size() == 120)
        return failWord(3, "a shape such as 64x128, or 'scalar'");
      tensor.shape.push_back(*size);
    }
  double total = countBytes(tensor);
  // A product with the sizes of axes still fits.
  if (total > static_cast<double>(limit >> 8))
    return failWord(3, "a tensor of less than 2^52 bytes");
  // So do their sums, with a copy for each pass.
  totalBytes += total;
  if (totalBytes > static_cast<double>(limit >> 4))
    return failWord(3, "tensors of less than 2^56 bytes together");
  unsigned end = 6;
  if (getWord(end) == "times") {
    auto times = parseNumber<int64_t>(getWord(end + 1));
    if (!times || *times < 1 || *times > (int64_t(1) << 20))
      return failWord(end + 1, "a number from 1 to 2^20");
    tensor.times = *times;
    end += 2;
  }
  if (getWord(end) == "view" && !parseView(end, tensor))
    return false;
  if (getWord(end) == "inside") {
    tensor.isInKernel = true;
    ++end;
  }
  if (getWord(end) == "if-read") {
    tensor.heldFrom = Tensor::kIfRead;
    ++end;
  }
  if (getWord(end) == "from") {
    auto from = parseNumber<int>(getWord(end + 1));
    if (!from || *from < 0)
      return failWord(end + 1, "an operator before its producer");
    tensor.heldFrom = *from;
    end += 2;
  }
  problem.tensors.push_back(std::move(tensor));
  isMade.push_back(false);
  return expectEnd(end);
}

bool ProblemParser::parseSignature() {
  const auto &words = getWords();
  size_t numForms = problem.axes.size();
  if (problem.signatureSets.empty())
    return failWord(0, "'signatures 0' first");
  if (words.size() != numForms + 4)
    return fail("found " + std::to_string(words.size()) +
                " words, expected a quoted part per axis, seconds and bytes");
  auto signature =
      parseForms(problem, {words.begin(), words.begin() + numForms});
  if (!signature)
    return fail("found no signature, expected one such as "
                "data='gather(0), full -> gather(0)' for each axis in the "
                "mesh's order");
  auto seconds = getQuantity(numForms, "s");
  auto workspace = seconds ? getBytes(numForms + 2) : std::nullopt;
  if (!workspace)
    return false;
  if (*workspace > int64_t(1) << 52)
    return failWord(numForms + 2, "a workspace of at most 2^52 bytes");
  signature->seconds = *seconds;
  signature->workspace = *workspace;
  for (const Signature &other : problem.signatureSets.back())
    if (other.operands == signature->operands &&
        other.results == signature->results)
      return fail("found a signature a second time, expected it once");
  problem.signatureSets.back().push_back(std::move(*signature));
  return true;
}

/// Whether it is absent on all axes or on none.
static bool isWhollyAbsent(const SearchProblem &problem, const Layout &layout) {
  for (unsigned axis = 0; axis < problem.axes.size(); ++axis)
    if ((layout[axis] == kAbsent) != layout.isAbsent())
      return false;
  return true;
}

/// Sums over time are held from their producers on: strands bring the terms.
static bool isHeldTooLong(const SearchProblem &problem, unsigned tensor,
                          const Layout &layout) {
  int time = problem.getTimeAxis();
  return problem.tensors[tensor].heldFrom >= 0 && time >= 0 &&
         layout[time] == kReduce;
}

bool ProblemParser::checkSignature(const Operator &op,
                                   const Signature &signature) {
  for (size_t i = 0; i < op.results.size() && i < signature.results.size(); ++i)
    if (isHeldTooLong(problem, op.results[i], signature.results[i]))
      return fail("operator '" + op.name +
                  "' makes terms over time of tensor " +
                  std::to_string(op.results[i]) +
                  ", which is held from an earlier operator, expected "
                  "another form");
  auto check = [&](const std::vector<unsigned> &tensors,
                   const std::vector<Layout> &layouts) {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!isWhollyAbsent(problem, layouts[i]))
        return fail("operator '" + op.name + "' has the form '" +
                    print(problem, layouts[i]) + "' of tensor " +
                    std::to_string(tensors[i]) +
                    ", expected 'absent' on all axes or on none");
      else if (!problem.isDivisible(tensors[i], layouts[i]))
        return fail("operator '" + op.name + "' has the form '" +
                    print(problem, layouts[i]) + "' of tensor " +
                    std::to_string(tensors[i]) +
                    ", expected one that divides its dimensions");
    return true;
  };
  if (signature.operands.size() != op.operands.size() ||
      signature.results.size() != op.results.size())
    return fail("operator '" + op.name + "' has " +
                std::to_string(op.operands.size()) + " operands and " +
                std::to_string(op.results.size()) +
                " results, expected as many as its signatures have: " +
                std::to_string(signature.operands.size()) + " and " +
                std::to_string(signature.results.size()));
  return check(op.operands, signature.operands) &&
         check(op.results, signature.results);
}

bool ProblemParser::checkOperator(const Operator &op) {
  if (op.signatureSet >= problem.signatureSets.size() ||
      problem.signatureSets[op.signatureSet].empty())
    return fail("operator '" + op.name + "' has signatures of set " +
                std::to_string(op.signatureSet) +
                ", expected a set that is there and not empty");
  if (!problem.operators.empty() && op.pass < problem.operators.back().pass)
    return fail("operator '" + op.name +
                "' is of an earlier pass than the one before it, expected "
                "forward, backward, update");
  for (unsigned tensor : op.operands)
    if (tensor >= problem.tensors.size() || !isMade[tensor])
      return fail("operator '" + op.name + "' uses tensor " +
                  std::to_string(tensor) + ", expected one made before");
  for (unsigned tensor : op.results) {
    if (tensor >= problem.tensors.size() || isMade[tensor])
      return fail("operator '" + op.name + "' makes tensor " +
                  std::to_string(tensor) +
                  ", expected one that nothing else makes");
    isMade[tensor] = true;
  }
  for (unsigned tensor : op.results)
    if (int root = problem.tensors[tensor].viewOf; root >= 0 && !isMade[root])
      return fail("operator '" + op.name + "' makes tensor " +
                  std::to_string(tensor) + ", a view of tensor " +
                  std::to_string(root) +
                  ", expected one of what is made before");
  int number = static_cast<int>(problem.operators.size());
  for (unsigned tensor : op.results)
    if (int from = problem.tensors[tensor].heldFrom; from >= number)
      return fail("operator '" + op.name + "' makes tensor " +
                  std::to_string(tensor) + ", held from operator " +
                  std::to_string(from) + ", expected one before it");
  if (op.isArgument() && (!op.operands.empty() || op.pass != Pass::Forward))
    return fail("operator '" + op.name +
                "' is an argument, expected no operands, in the forward pass");
  for (const Signature &signature : problem.signatureSets[op.signatureSet])
    if (!checkSignature(op, signature))
      return false;
  return true;
}

/// `reads 1 model.py:12`, for each place that is not the operator's own.
bool ProblemParser::parseLocations(size_t &place, std::string_view word,
                                   size_t count, const Operator &op,
                                   std::vector<std::string> &locations) {
  for (; getWord(place) == word && place + 2 < getWords().size(); place += 3) {
    auto index = parseNumber<unsigned>(getWord(place + 1));
    if (!index || *index >= count)
      return failWord(place + 1, "a number below " + std::to_string(count));
    locations.resize(count, op.location);
    locations[*index] = readName(getWord(place + 2));
  }
  return true;
}

bool ProblemParser::parseTrailer(size_t place, Operator &op) {
  op.isAgain = getWord(place) == "again" && !op.isArgument();
  place += op.isAgain;
  if (getWord(place) == "attached" && place + 1 < getWords().size()) {
    auto index = parseNumber<int>(getWord(place + 1));
    if (!index || *index < 0 ||
        *index >= static_cast<int>(problem.operators.size()))
      return failWord(place + 1, "an operator before this one");
    op.attachedTo = *index;
    place += 2;
  }
  if (getWord(place) == "at" && place + 1 < getWords().size()) {
    op.location = readName(getWord(place + 1));
    place += 2;
  }
  return parseLocations(place, "reads", op.operands.size(), op,
                        op.readLocations) &&
         parseLocations(place, "makes", op.results.size(), op,
                        op.madeLocations) &&
         expectEnd(place);
}

bool ProblemParser::parseOperator() {
  Operator op;
  auto pass = parsePass(getWord(2));
  auto kind =
      std::find(std::begin(kKindNames), std::end(kKindNames), getWord(3));
  if (!expectIndex("operator", problem.operators.size()))
    return false;
  if (!pass)
    return failWord(2, "forward, backward or update");
  if (kind == std::end(kKindNames))
    return failWord(3, "input, resident, compute or output");
  auto set = parseNumber<unsigned>(getWord(6));
  auto operands = parseList(getWord(8)), results = parseList(getWord(10));
  if (getWord(5) != "set" || !set || getWord(7) != "operands" || !operands ||
      getWord(9) != "results" || !results)
    return fail("found no operator, expected 'operator N PASS KIND NAME set N "
                "operands N,N results N'");
  op.pass = *pass;
  op.kind = static_cast<Operator::Kind>(kind - std::begin(kKindNames));
  op.name = readName(getWord(4));
  op.signatureSet = *set;
  op.operands = std::move(*operands);
  op.results = std::move(*results);
  if (!parseTrailer(11, op) || !checkOperator(op))
    return false;
  problem.operators.push_back(std::move(op));
  return true;
}

bool ProblemParser::checkTie(unsigned first, unsigned second) {
  size_t a = problem.getSignatures(first).size();
  size_t b = problem.getSignatures(second).size();
  return a == b || fail("operators " + std::to_string(first) + " and " +
                        std::to_string(second) + " have " + std::to_string(a) +
                        " and " + std::to_string(b) +
                        " signatures, expected as many: they are tied");
}

bool ProblemParser::parseTie() {
  auto first = parseNumber<unsigned>(getWord(1));
  auto second = parseNumber<unsigned>(getWord(2));
  size_t count = problem.operators.size();
  if (!first || !second || *first >= count || *second >= count ||
      *first == *second)
    return fail("found no tie, expected 'tie N N' of two operators");
  problem.ties.push_back({*first, *second});
  return expectEnd(3) && checkTie(*first, *second);
}

bool ProblemParser::parseLine() {
  std::string_view word = getWord(0);
  if (word == "accounting" || word == "graph")
    return parseHeader();
  if (word == "slowdown" || word == "piece" || word == "memory" ||
      word == "alignment")
    return parseLimit();
  if (word == "axis")
    return parseAxis();
  if (word == "tensor")
    return parseTensor();
  if (word == "operator")
    return parseOperator();
  if (word == "tie")
    return parseTie();
  if (word == "signatures") {
    if (!expectIndex("set", problem.signatureSets.size()))
      return false;
    problem.signatureSets.emplace_back();
    return expectEnd(2);
  }
  if (word.find("='") != std::string_view::npos)
    return parseSignature();
  return failWord(0, "accounting, graph, slowdown, piece, memory, alignment, "
                     "axis, tensor, signatures, operator or tie");
}

std::optional<SearchProblem> ProblemParser::run() {
  if (!next() || getWord(0) != "tandem-problem") {
    failWord(0, "'tandem-problem 1'");
    return std::nullopt;
  }
  if (getWord(1) != "1") {
    failWord(1, "version 1 of a problem");
    return std::nullopt;
  }
  while (next())
    if (!parseLine())
      return std::nullopt;
  for (unsigned tensor = 0; tensor < isMade.size(); ++tensor)
    if (!isMade[tensor]) {
      fail("tensor " + std::to_string(tensor) +
           " is made by nothing, expected an operator that makes it");
      return std::nullopt;
    }
  if (problem.axes.empty() || problem.operators.empty()) {
    fail("found no axes or no operators, expected some");
    return std::nullopt;
  }
  return std::move(problem);
}

std::optional<SearchProblem>
tandem::cost::parseSearchProblem(std::string_view text, std::string_view name,
                                 std::string &error) {
  error.clear();
  return ProblemParser(text, name, error).run();
}
