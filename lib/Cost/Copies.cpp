//===- Copies.cpp - copies implied by a plan ------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Copies.h"
#include "Text.h"
#include "tandem/Cost/Ahead.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

using namespace tandem::cost;

Layout tandem::cost::getSummedLayout(const SearchProblem &problem,
                                     Layout layout) {
  if (int axis = problem.getTimeAxis(); axis >= 0)
    layout[axis] = kFull;
  return layout;
}

std::string tandem::cost::describeOperator(const SearchProblem &problem,
                                           unsigned op) {
  return "operator " + std::to_string(op) + " '" + problem.operators[op].name +
         "'";
}

std::string tandem::cost::describeTensor(const SearchProblem &problem,
                                         unsigned tensor) {
  return "tensor " + std::to_string(tensor) + " '" +
         problem.tensors[tensor].name + "'";
}

namespace {
/// An operator's operand, in the layout that its signature wants.
struct Use {
  unsigned op;
  Layout layout;
};

class CopyPlacer {
public:
  CopyPlacer(const SearchProblem &problem, const Plan &plan, ChangeTable &table,
             std::string &error)
      : problem(problem), plan(plan), table(table), error(error),
        isTiedOutput(problem.getTiedOutputs()) {}

  std::optional<Placement> run();

private:
  bool checkSignatures();
  bool placeStages();
  void collectUses();
  void makeRoomForUses();
  bool placeTensor(unsigned tensor);
  bool placeUse(unsigned tensor, const Use &use, Pass pass);
  bool needsBase(unsigned tensor, const Use &use, Pass pass,
                 const Layout &base);
  bool makeCopy(unsigned tensor, const Use &use, Pass pass, const Layout &base);
  bool endPass(unsigned tensor, Pass pass, bool hasLater);
  bool checkDecisions();
  bool checkAhead(unsigned begin, unsigned end);
  bool placeAhead();
  bool checkMade(const std::vector<Copy> &decided, std::vector<Copy> &made,
                 const char *what);
  std::span<const Use> getUses(unsigned tensor) const {
    return std::span(allUses).subspan(firstUses[tensor], firstUses[tensor + 1] -
                                                             firstUses[tensor]);
  }
  bool isListed(const std::vector<Copy> &list, const Copy &copy) const {
    return std::binary_search(list.begin(), list.end(), copy);
  }
  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }

  const SearchProblem &problem;
  const Plan &plan;
  ChangeTable &table;
  std::string &error;
  Placement result;
  /// Of all tensors, one after the other, each in the order of operators; and
  /// where each tensor's begin.
  std::vector<Use> allUses;
  std::vector<unsigned> firstUses;
  std::vector<bool> isTiedOutput;
  /// Per operator, from which on stages find the copies that it reads.
  std::vector<unsigned> copiesFrom;
  /// Copies of the tensor at hand that the pass at hand can use.
  std::vector<unsigned> alive;
  /// What the plan's decisions came to.
  std::vector<Copy> kept, waiting;
};
} // namespace

bool CopyPlacer::checkSignatures() {
  unsigned numOperators = problem.operators.size();
  if (plan.signatures.size() != numOperators)
    return fail("the plan has signatures of " +
                std::to_string(plan.signatures.size()) +
                " operators, expected " + std::to_string(numOperators));
  for (unsigned op = 0; op < numOperators; ++op)
    if (plan.signatures[op] >= problem.getSignatures(op).size())
      return fail(describeOperator(problem, op) + " has signature " +
                  std::to_string(plan.signatures[op]) + ", expected one of " +
                  std::to_string(problem.getSignatures(op).size()));
  for (auto [first, second] : problem.ties)
    if (plan.signatures[first] != plan.signatures[second])
      return fail(describeOperator(problem, second) + " has signature " +
                  std::to_string(plan.signatures[second]) +
                  ", expected that of " + describeOperator(problem, first) +
                  ": what is updated returns as it was stored");
  return true;
}

bool CopyPlacer::placeStages() {
  unsigned numOperators = problem.operators.size();
  unsigned begin = 0;
  result.numStages = plan.stageEnds.size();
  result.firstUpdateStage = result.numStages;
  result.stageOf.resize(numOperators);
  for (unsigned stage = 0; stage < plan.stageEnds.size(); ++stage) {
    unsigned end = plan.stageEnds[stage];
    if (end <= begin || end > numOperators)
      return fail("stage " + std::to_string(stage) + " ends before operator " +
                  std::to_string(end) + ", expected one after " +
                  std::to_string(begin) + " and at most " +
                  std::to_string(numOperators));
    bool hasUpdate = problem.operators[end - 1].pass == Pass::Update;
    if (hasUpdate && problem.operators[begin].pass != Pass::Update)
      return fail("stage " + std::to_string(stage) + " holds the update " +
                  describeOperator(problem, end - 1) + " and " +
                  describeOperator(problem, begin) +
                  " of another pass, expected a cut between them");
    if (hasUpdate)
      result.firstUpdateStage = std::min(result.firstUpdateStage, stage);
    std::fill(result.stageOf.begin() + begin, result.stageOf.begin() + end,
              stage);
    begin = end;
  }
  return begin == numOperators ||
         fail("the stages end before operator " + std::to_string(begin) +
              ", expected " + std::to_string(numOperators));
}

void CopyPlacer::makeRoomForUses() {
  firstUses.assign(problem.tensors.size() + 1, 0);
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Operator &info = problem.operators[op];
    const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
    for (size_t i = 0; i < info.operands.size(); ++i)
      firstUses[info.operands[i] + 1] += !signature.operands[i].isAbsent();
  }
  std::partial_sum(firstUses.begin(), firstUses.end(), firstUses.begin());
  allUses.resize(firstUses.back());
}

void CopyPlacer::collectUses() {
  makeRoomForUses();
  std::vector<unsigned> ends(firstUses.begin(), firstUses.end() - 1);
  result.tensors.resize(problem.tensors.size());
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    const Operator &info = problem.operators[op];
    const Signature &signature = problem.getSignatures(op)[plan.signatures[op]];
    for (size_t i = 0; i < info.operands.size(); ++i)
      if (!signature.operands[i].isAbsent())
        allUses[ends[info.operands[i]]++] = {op, signature.operands[i]};
    for (size_t i = 0; i < info.results.size(); ++i) {
      PlacedTensor &tensor = result.tensors[info.results[i]];
      tensor.produced = signature.results[i];
      tensor.producer = op;
      tensor.stage = info.isArgument() ? kBeforeAll : int(result.stageOf[op]);
      tensor.lastOp = op;
    }
  }
}

/// Whether the copy may be made from the producer's layout, in some stages: no
/// copy that is kept from an earlier pass is nearer.
bool CopyPlacer::needsBase(unsigned tensor, const Use &use, Pass pass,
                           const Layout &base) {
  auto getTotal = [&](const Layout &from) {
    const ChangeCost &change = table.getCost(tensor, from, use.layout);
    return change.isPossible ? change.getTotal(problem.getNumStrands())
                             : std::numeric_limits<double>::infinity();
  };
  double total = getTotal(base);
  return std::isfinite(total) &&
         std::none_of(alive.begin(), alive.end(), [&](unsigned index) {
           const Copy &copy = result.copies[index].copy;
           return copy.pass != pass && getTotal(copy.layout) < total;
         });
}

/// The copy that `use` takes is made here: from the cheapest of the layouts
/// that existed before its stage.
bool CopyPlacer::makeCopy(unsigned tensor, const Use &use, Pass pass,
                          const Layout &base) {
  PlacedTensor &info = result.tensors[tensor];
  int stage = result.stageOf[use.op];
  int64_t numStrands = problem.getNumStrands();
  PlacedCopy made;
  bool hasSource = false, hasEarlier = info.stage < stage;
  double best = 0;
  auto offer = [&](const Layout &from) {
    const ChangeCost &change = table.getCost(tensor, from, use.layout);
    double total = change.getTotal(numStrands);
    if (!change.isPossible || (hasSource && total >= best))
      return;
    hasSource = true;
    best = total;
    made.from = from;
    made.change = change;
  };
  if (hasEarlier)
    offer(base);
  // Copies of this pass, then those kept from an earlier one; older ones first.
  for (bool ofThisPass : {true, false})
    for (unsigned index : alive) {
      const PlacedCopy &copy = result.copies[index];
      if ((copy.copy.pass == pass) == ofThisPass && int(copy.stage) < stage) {
        hasEarlier = true;
        offer(copy.copy.layout);
      }
    }
  made.copy = {tensor, use.layout, pass};
  if (!hasSource)
    return fail(
        describeOperator(problem, use.op) + " wants " +
        describeTensor(problem, tensor) + " as '" + print(problem, use.layout) +
        "', found '" + print(problem, base) + "'" +
        (hasEarlier ? ": no collectives lead there"
                    : " made in the same stage " + std::to_string(stage) +
                          ", expected a cut between them"));
  made.stage = stage;
  made.lastOp = made.firstOp = use.op;
  if (needsBase(tensor, use, pass, base) && !isListed(plan.waiting, made.copy))
    info.lastOp = use.op;
  made.waits = isListed(plan.waiting, made.copy);
  if (made.waits) {
    waiting.push_back(made.copy);
    Pass producerPass = problem.operators[info.producer].pass;
    if (pass != Pass::Update || info.stage == kBeforeAll ||
        producerPass == Pass::Update || made.from != base)
      return fail("the copy of " + describeTensor(problem, tensor) +
                  " waits, expected a gradient on the way to its update");
    if (made.change.joins)
      return fail("the copy of " + describeTensor(problem, tensor) +
                  " waits, but strands are brought together for it, expected "
                  "collectives alone");
  }
  alive.push_back(result.copies.size());
  result.copies.push_back(made);
  return true;
}

bool CopyPlacer::placeUse(unsigned tensor, const Use &use, Pass pass) {
  PlacedTensor &info = result.tensors[tensor];
  int stage = result.stageOf[use.op];
  int timeAxis = problem.getTimeAxis();
  bool isSum = pass == Pass::Update && timeAxis >= 0 &&
               info.produced[timeAxis] == kReduce &&
               use.layout[timeAxis] == kFull;
  if (isSum && !info.isSummed) {
    info.isSummed = true;
    info.sumSeconds = table
                          .getCost(tensor, info.produced,
                                   getSummedLayout(problem, info.produced))
                          .local;
  }
  if (isSum && info.stage == stage)
    return fail(describeOperator(problem, use.op) + " wants the sum of " +
                describeTensor(problem, tensor) +
                " over the strands in the stage that makes it, expected a "
                "later one");
  Layout base = isSum ? getSummedLayout(problem, info.produced) : info.produced;
  info.keepsTerms |= !isSum;
  if (use.layout == base) {
    info.lastOp = use.op;
    return true;
  }
  auto matches = [&](unsigned index) {
    return result.copies[index].copy.layout == use.layout;
  };
  auto taken = std::find_if(alive.begin(), alive.end(), matches);
  if (taken == alive.end()) {
    if (!makeCopy(tensor, use, pass, base))
      return false;
    taken = std::prev(alive.end());
  }
  if (!isFreeOfArgument(problem, info.producer,
                        table.getCost(tensor, base, use.layout)))
    copiesFrom[use.op] =
        std::max(copiesFrom[use.op], result.copies[*taken].firstOp + 1);
  return true;
}

/// Copies live until the tensor's last use in the pass; kept ones are there for
/// the next.
bool CopyPlacer::endPass(unsigned tensor, Pass pass, bool hasLater) {
  if (alive.empty())
    return true;
  unsigned last = 0;
  for (const Use &use : getUses(tensor))
    if (problem.operators[use.op].pass == pass)
      last = use.op;
  size_t numStaying = 0;
  for (unsigned index : alive) {
    PlacedCopy &copy = result.copies[index];
    copy.lastOp = std::max(copy.lastOp, last);
    Copy key{tensor, copy.copy.layout, pass};
    if (!isListed(plan.kept, key))
      continue;
    kept.push_back(key);
    if (!hasLater)
      return fail("the copy of " + describeTensor(problem, tensor) + " as '" +
                  print(problem, key.layout) +
                  "' is kept, expected a later pass that uses the tensor");
    alive[numStaying++] = index;
  }
  alive.resize(numStaying);
  return true;
}

bool CopyPlacer::placeTensor(unsigned tensor) {
  alive.clear();
  unsigned place = 0;
  std::span<const Use> all = getUses(tensor);
  while (place < all.size()) {
    Pass pass = problem.operators[all[place].op].pass;
    while (place < all.size() && problem.operators[all[place].op].pass == pass)
      if (!placeUse(tensor, all[place++], pass))
        return false;
    if (!endPass(tensor, pass, place < all.size()))
      return false;
  }
  return true;
}

/// A decision on a copy that is never made means nothing.
bool CopyPlacer::checkMade(const std::vector<Copy> &decided,
                           std::vector<Copy> &made, const char *what) {
  if (decided.size() == made.size())
    return true;
  std::sort(made.begin(), made.end());
  for (const Copy &copy : decided)
    if (!isListed(made, copy))
      return fail("the copy of " + describeTensor(problem, copy.tensor) +
                  " as '" + print(problem, copy.layout) + "' " + what +
                  ", but the " + std::string(getPassName(copy.pass)) +
                  " pass makes none, expected one of its copies: leave the "
                  "line out");
  return fail("a copy " + std::string(what) + " twice, expected it once");
}

/// What is decided must mean something; and what goes to an argument's memory
/// holds nothing of its own.
bool CopyPlacer::checkDecisions() {
  if (!checkMade(plan.kept, kept, "is kept") ||
      !checkMade(plan.waiting, waiting, "waits"))
    return false;
  for (unsigned i = 0; i < result.tensors.size(); ++i) {
    std::span<const Use> uses = getUses(i);
    result.tensors[i].isInPlace =
        !uses.empty() &&
        std::all_of(uses.begin(), uses.end(), [&](const Use &use) {
          return isTiedOutput[use.op] &&
                 use.layout == result.tensors[i].produced;
        });
  }
  for (PlacedCopy &copy : result.copies) {
    bool hasUse = false, isInPlace = true;
    for (const Use &use : getUses(copy.copy.tensor))
      if (use.layout == copy.copy.layout) {
        hasUse = true;
        isInPlace &= isTiedOutput[use.op];
      }
    copy.isInPlace = hasUse && isInPlace;
  }
  return true;
}

/// What is ahead in a stage has to be something, and of one strand.
bool CopyPlacer::checkAhead(unsigned begin, unsigned end) {
  unsigned stage = result.stageOf[begin];
  bool isAny = false, isOverTime = false, joins = false;
  for (unsigned op = begin; op < end; ++op) {
    isAny |= result.isAhead[op];
    isOverTime |=
        !problem.operators[op].isArgument() &&
        problem.isOverTime(problem.getSignatures(op)[plan.signatures[op]]);
  }
  for (const PlacedCopy &copy : result.copies)
    joins |= copy.stage == stage && !copy.waits && copy.change.joins;
  if (isAny && begin > 0 && (joins || !isOverTime))
    return true;
  return fail("stage " + std::to_string(stage) + " runs ahead, expected one " +
              (!isAny       ? "that makes values again of what was there before"
               : begin == 0 ? "behind the first stage"
                            : "in which nothing is computed per strand"));
}

bool CopyPlacer::placeAhead() {
  result.isAhead.resize(problem.operators.size());
  if (plan.ahead.empty())
    return true;
  std::vector<unsigned> from = findAheadFrom(problem, problem.getProducers(),
                                             plan.signatures, copiesFrom);
  size_t numFound = 0;
  unsigned begin = 0;
  for (unsigned end : plan.stageEnds) {
    if (plan.isAhead(begin)) {
      ++numFound;
      for (unsigned op = begin; op < end; ++op)
        result.isAhead[op] = from[op] <= begin;
      if (!checkAhead(begin, end))
        return false;
    }
    begin = end;
  }
  return numFound == plan.ahead.size() ||
         fail("the plan runs " + std::to_string(plan.ahead.size()) +
              " stages ahead, but " + std::to_string(numFound) +
              " of them are stages of the plan, expected all, each once");
}

std::optional<Placement> CopyPlacer::run() {
  if (!checkSignatures() || !placeStages())
    return std::nullopt;
  copiesFrom.resize(problem.operators.size());
  if (!std::is_sorted(plan.kept.begin(), plan.kept.end()) ||
      !std::is_sorted(plan.waiting.begin(), plan.waiting.end())) {
    error = "kept and waiting copies are out of order, expected them by "
            "tensor, layout and pass";
    return std::nullopt;
  }
  collectUses();
  for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor)
    if (!placeTensor(tensor))
      return std::nullopt;
  if (!checkDecisions() || !placeAhead())
    return std::nullopt;
  return std::move(result);
}

std::optional<Placement> tandem::cost::placeCopies(const SearchProblem &problem,
                                                   const Plan &plan,
                                                   ChangeTable &table,
                                                   std::string &error) {
  return CopyPlacer(problem, plan, table, error).run();
}
