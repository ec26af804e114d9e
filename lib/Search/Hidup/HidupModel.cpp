//===- HidupModel.cpp - a search problem, indexed for HiDup's walk --------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HidupModel.h"
#include <cmath>

using namespace tandem::cost;
using namespace tandem::search::hidup;

/// An operator that reads more arguments than this finds the rest of them
/// decided: dominance then works between the decisions.
constexpr uint64_t kMaxChoices = 1024;
/// So that a state can count them in 16 bits.
constexpr size_t kMaxPending = 60000;
/// Sums below this, in s, are nothing: no unit would be small enough.
constexpr double kLeastTotal = 1e-200;

namespace {
class Builder {
public:
  Builder(const SearchProblem &problem, std::string &error)
      : problem(problem), error(error) {
    model.accounting = problem.accounting;
    model.tensors.resize(problem.tensors.size());
    model.operators.resize(problem.operators.size() + 1);
    choicesAt.assign(problem.operators.size(), 1);
  }

  std::optional<Model> run();

private:
  FormIndex addForm(unsigned tensor, Form form);
  bool addSignatures(unsigned op);
  bool chooseUnits();
  Time toUnits(double seconds) const {
    return std::llround(seconds / model.secondsPerUnit);
  }
  void addTimes(unsigned op);
  void addChanges(unsigned tensor);
  void findUses();
  void defer(unsigned op);
  void open(unsigned op);
  void addSlots(unsigned op);
  void addRests();
  unsigned getTensor(unsigned op, unsigned place) const;
  std::vector<Slot> makeSlots(unsigned op);

  const SearchProblem &problem;
  std::string &error;
  Model model;
  /// Per operator, the combinations of deferred signatures to choose from.
  std::vector<uint64_t> choicesAt;
  /// Tensors of deferred operators that nothing has read so far.
  std::vector<unsigned> pending;
};
} // namespace

FormIndex Builder::addForm(unsigned tensor, Form form) {
  std::vector<Form> &forms = model.tensors[tensor].forms;
  auto place = std::find(forms.begin(), forms.end(), form);
  FormIndex index = place - forms.begin();
  if (place == forms.end())
    forms.push_back(form);
  return index;
}

bool Builder::addSignatures(unsigned op) {
  const Operator &info = problem.operators[op];
  for (const Signature &signature : problem.getSignatures(op)) {
    ModelSignature &added = model.operators[op].signatures.emplace_back();
    for (unsigned i = 0; i < info.operands.size(); ++i)
      added.operands.push_back(
          addForm(info.operands[i], signature.operands[i][0]));
    for (unsigned i = 0; i < info.results.size(); ++i)
      added.results.push_back(
          addForm(info.results[i], signature.results[i][0]));
    if (info.kind == Operator::Kind::Resident)
      for (unsigned i = 0; i < info.results.size(); ++i)
        added.residentBytes +=
            problem.getBytes(info.results[i], signature.results[i]);
  }
  for (const std::vector<unsigned> *list : {&info.operands, &info.results})
    for (unsigned tensor : *list)
      if (model.tensors[tensor].forms.size() > kMaxForms) {
        error = "tensor " + problem.tensors[tensor].name + " has more than " +
                std::to_string(kMaxForms) +
                " forms, the search hidup expects fewer: use the search tandem";
        return false;
      }
  return true;
}

/// A unit is 2^-k s with the largest k for which no sum can overflow: far below
/// the precision of the doubles that the costs are given in.
bool Builder::chooseUnits() {
  double total = 0;
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    double most = 0;
    for (const Signature &signature : problem.getSignatures(op))
      most = std::max(most, signature.seconds);
    total += most;
  }
  for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor) {
    double most = 0;
    for (Form from : model.tensors[tensor].forms)
      for (Form to : model.tensors[tensor].forms)
        if (auto change = getHidupChange(problem, tensor, from, to))
          most = std::max({most, change->forward, change->backward});
    total += most;
  }
  // A stage counts each time at most eight times.
  if (!std::isfinite(8 * total)) {
    error = "the costs of the problem add up to more than 1e307 s, expected "
            "times of a training step";
    return false;
  }
  int exponent = total > kLeastTotal ? std::ilogb(total) : 0;
  model.secondsPerUnit = std::ldexp(1.0, exponent + 1 + 3 - 61);
  return true;
}

void Builder::addTimes(unsigned op) {
  const SignatureSet &signatures = problem.getSignatures(op);
  for (unsigned i = 0; i < signatures.size(); ++i)
    model.operators[op].signatures[i].computation =
        toUnits(signatures[i].seconds);
}

void Builder::addChanges(unsigned tensor) {
  ModelTensor &info = model.tensors[tensor];
  for (Form from : info.forms) {
    FormSet reachable = 0;
    for (FormIndex to = 0; to < info.forms.size(); ++to) {
      ModelChange &added = info.changes.emplace_back();
      auto change = getHidupChange(problem, tensor, from, info.forms[to]);
      if (!change || from == info.forms[to])
        continue;
      added = {true, toUnits(change->forward), toUnits(change->backward)};
      reachable |= FormSet(1) << to;
    }
    info.reachable.push_back(reachable);
  }
}

void Builder::findUses() {
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    for (unsigned tensor : problem.operators[op].operands) {
      ModelTensor &info = model.tensors[tensor];
      if (!info.isUsed)
        info.firstUse = op;
      info.isUsed = true;
      info.lastUse = op;
    }
}

void Builder::defer(unsigned op) {
  const Operator &info = problem.operators[op];
  if (!info.operands.empty() || info.results.size() != 1 ||
      !model.tensors[info.results[0]].isUsed || pending.size() >= kMaxPending)
    return;
  for (const ModelSignature &signature : model.operators[op].signatures)
    if (signature.computation != 0)
      return;
  uint64_t &numChoices = choicesAt[model.tensors[info.results[0]].firstUse];
  if (numChoices * model.operators[op].signatures.size() > kMaxChoices)
    return;
  numChoices *= model.operators[op].signatures.size();
  model.operators[op].isDeferred = true;
  model.tensors[info.results[0]].source = op;
  pending.push_back(info.results[0]);
}

/// Lists the pending tensors that `op` is the first to use.
void Builder::open(unsigned op) {
  std::vector<Opened> &opened = model.operators[op].opened;
  for (unsigned tensor : problem.operators[op].operands) {
    auto place = std::find(pending.begin(), pending.end(), tensor);
    bool isThere =
        std::any_of(opened.begin(), opened.end(), [&](const Opened &other) {
          return other.tensor == tensor;
        });
    if (place != pending.end() && !isThere)
      opened.push_back(
          {tensor, static_cast<unsigned>(pending.end() - place) - 1});
  }
  for (const Opened &tensor : opened)
    std::erase(pending, tensor.tensor);
}

/// The slots behind `op`, without what is wanted.
std::vector<Slot> Builder::makeSlots(unsigned op) {
  const ModelOperator &info = model.operators[op];
  std::vector<Slot> slots;
  for (unsigned i = 0; i < info.getNumPlaces(); ++i) {
    unsigned tensor = getTensor(op, i);
    if (model.tensors[tensor].lastUse > op)
      slots.push_back({tensor, i, 0});
  }
  const std::vector<unsigned> &results = problem.operators[op].results;
  for (unsigned i = 0; i < results.size() && !info.isDeferred; ++i)
    if (model.tensors[results[i]].isUsed)
      slots.push_back({results[i], info.getNumPlaces() + i, 0});
  return slots;
}

unsigned Builder::getTensor(unsigned op, unsigned place) const {
  const ModelOperator &info = model.operators[op];
  return place < info.slots.size()
             ? info.slots[place].tensor
             : info.opened[place - info.slots.size()].tensor;
}

void Builder::addSlots(unsigned op) {
  open(op);
  ModelOperator &added = model.operators[op];
  const Operator &info = problem.operators[op];
  added.operandTensors = info.operands;
  for (unsigned i = 0; i < info.operands.size(); ++i) {
    unsigned tensor = info.operands[i], place = 0;
    while (getTensor(op, place) != tensor)
      ++place;
    added.operandPlaces.push_back(place);
    bool isLast = model.tensors[tensor].lastUse == op &&
                  std::find(info.operands.begin() + i + 1, info.operands.end(),
                            tensor) == info.operands.end();
    added.isLastUse.push_back(isLast);
  }
  model.operators[op + 1].slots = makeSlots(op);
}

/// A second of computation adds itself as the last F, or more as the next D;
/// if the backward pass is serial, its two seconds there as well.
void Builder::addRests() {
  Time slope = model.accounting == Accounting::HidupSerial ? 3 : 1;
  for (unsigned op = problem.operators.size(); op-- > 0;) {
    Time least = std::numeric_limits<Time>::max();
    for (const ModelSignature &signature : model.operators[op].signatures)
      least = std::min(least, signature.computation);
    model.operators[op].rest = model.operators[op + 1].rest + slope * least;
  }
}

std::optional<Model> Builder::run() {
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    if (!addSignatures(op))
      return std::nullopt;
  if (!chooseUnits())
    return std::nullopt;
  for (unsigned tensor = 0; tensor < problem.tensors.size(); ++tensor)
    addChanges(tensor);
  findUses();
  for (unsigned op = 0; op < problem.operators.size(); ++op) {
    addTimes(op);
    defer(op);
    addSlots(op);
  }
  addRests();
  // Wanted forms are collected from behind.
  std::vector<FormSet> wanted(problem.tensors.size(), 0);
  for (unsigned op = problem.operators.size(); op-- > 0;) {
    for (const ModelSignature &signature : model.operators[op].signatures)
      for (unsigned i = 0; i < signature.operands.size(); ++i)
        wanted[problem.operators[op].operands[i]] |= FormSet(1)
                                                     << signature.operands[i];
    for (Slot &slot : model.operators[op].slots)
      slot.wanted = wanted[slot.tensor];
  }
  return std::move(model);
}

std::optional<Model>
tandem::search::hidup::makeModel(const SearchProblem &problem,
                                 std::string &error) {
  if (!checkHidupProblem(problem, error))
    return std::nullopt;
  return Builder(problem, error).run();
}
