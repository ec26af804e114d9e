//===- SplitWeights.cpp - propagation of split weights --------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks the forward pass with the forms that a preset gives to weights, and
// follows each split through the operators that take it without a change of
// form. What to do at a product with a weight, and where a split ends, is the
// preset's to say.
//
//===----------------------------------------------------------------------===//

#include "Presets.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::spmd;
using namespace tandem::plan;

namespace {
/// A product of an activation and a parameter.
struct WeightedProduct {
  unsigned op;
  unsigned weight, activation; // operand numbers
  unsigned argument;           // the parameter
};

class SplitRegion {
public:
  SplitRegion(StepGraph &graph, unsigned axis);
  virtual ~SplitRegion() = default;

  /// Writes stored forms of weights and of the parameters that meet the split
  /// (biases) into the graph, and marks them in `keepsStored`.
  void apply(SmallVectorImpl<bool> &keepsStored);

protected:
  using Form = AxisForm;
  using Origins = llvm::SmallSet<unsigned, 4>;

  /// One walk; sets `forms`, `origins` and `decided`.
  void walk();
  /// Sets the forms of a product's results. True if it did.
  virtual bool visitProduct(const WeightedProduct &product) = 0;
  /// No signature carries the split of `origins` on.
  virtual void visitEnd(const Origins &origins) {}
  /// Walks until decisions stand.
  virtual void decide() { walk(); }

  std::optional<WeightedProduct> matchProduct(unsigned op) const;
  bool isParameterView(unsigned value) const;
  /// Takes the weight's stored form for `product` under `signature`; false if
  /// none is stored so, or if it is stored otherwise already.
  bool decideWeight(const WeightedProduct &product, const Signature &signature);
  void setResults(unsigned op, Form form, const Origins &from);
  Origins getOrigins(unsigned op) const;

  StepGraph &graph;
  unsigned axis;
  int64_t size;
  std::vector<SmallVector<Signature>> candidates;
  std::vector<Form> forms;
  std::vector<Origins> origins;
  /// Stored forms of the weights.
  llvm::MapVector<unsigned, Form> decided;

private:
  void visit(unsigned op);
  void follow(unsigned op, const Signature &signature);

  /// Stored forms that other parameters' uses in the region ask for; none
  /// where two uses differ.
  llvm::MapVector<unsigned, std::optional<Form>> wanted;
};

} // namespace

SplitRegion::SplitRegion(StepGraph &graph, unsigned axis)
    : graph(graph), axis(axis), size(graph.mesh.getSize(axis)),
      candidates(graph.ops.size()) {
  for (auto [index, op] : llvm::enumerate(graph.ops))
    if (op.pass == PassKind::Forward)
      candidates[index] = op.rule.enumerate(size);
}

bool SplitRegion::isParameterView(unsigned value) const {
  int argument = graph.values[value].viewOf;
  return argument >= 0 && graph.arguments[argument].role == Role::Parameter;
}

std::optional<WeightedProduct> SplitRegion::matchProduct(unsigned index) const {
  const OpNode &op = graph.ops[index];
  if (!isa<nn::LibraryOpInterface>(op.op) || op.operands.size() != 2)
    return std::nullopt;
  bool left = isParameterView(op.operands[0]);
  if (left == isParameterView(op.operands[1]))
    return std::nullopt;
  unsigned weight = left ? 0 : 1;
  return WeightedProduct{
      index, weight, 1 - weight,
      static_cast<unsigned>(graph.values[op.operands[weight]].viewOf)};
}

SplitRegion::Origins SplitRegion::getOrigins(unsigned index) const {
  Origins all;
  for (unsigned value : graph.ops[index].operands)
    all.insert_range(origins[value]);
  return all;
}

void SplitRegion::setResults(unsigned index, Form form, const Origins &from) {
  for (unsigned value : graph.ops[index].results) {
    forms[value] = form;
    origins[value] = form.isFull() ? Origins() : from;
  }
}

bool SplitRegion::decideWeight(const WeightedProduct &product,
                               const Signature &signature) {
  unsigned value = graph.ops[product.op].operands[product.weight];
  auto stored =
      graph.getStoredForm(value, signature.operands[product.weight], size);
  if (!stored || !graph.canStore(product.argument, axis, *stored))
    return false;
  if (graph.isPinned(product.argument, axis) &&
      graph.arguments[product.argument].forms[axis] != *stored)
    return false;
  auto [it, isNew] = decided.insert({product.argument, *stored});
  return isNew || it->second == *stored;
}

/// Notes in which stored form the parameters among the operands are used.
void SplitRegion::follow(unsigned index, const Signature &signature) {
  const OpNode &op = graph.ops[index];
  for (auto [value, form] : llvm::zip(op.operands, signature.operands)) {
    if (!isParameterView(value))
      continue;
    std::optional<Form> stored = graph.getStoredForm(value, form, size);
    auto [it, isNew] = wanted.insert(
        {static_cast<unsigned>(graph.values[value].viewOf), stored});
    if (!isNew && it->second != stored)
      it->second = std::nullopt;
  }
}

void SplitRegion::visit(unsigned index) {
  const OpNode &op = graph.ops[index];
  if (op.isView && isParameterView(op.results[0]))
    return;
  if (auto product = matchProduct(index); product && visitProduct(*product))
    return;
  auto isSplit = [&](unsigned value) { return forms[value].isGather(); };
  bool anySplit = llvm::any_of(op.operands, isSplit);
  auto isReduce = [](Form form) { return form.isReduce(); };
  for (const Signature &signature : candidates[index]) {
    bool fits = !llvm::any_of(signature.results, isReduce) &&
                !llvm::any_of(signature.operands, isReduce);
    for (auto [value, form] : llvm::zip(op.operands, signature.operands))
      fits &= !forms[value].isGather() || forms[value] == form;
    if (!fits || (!anySplit && &signature != candidates[index].begin()))
      continue;
    follow(index, signature);
    Origins from = getOrigins(index);
    for (auto [value, form] : llvm::zip(op.results, signature.results)) {
      forms[value] = form;
      if (form.isGather())
        origins[value] = from;
    }
    return;
  }
  follow(index, candidates[index].front());
  visitEnd(getOrigins(index));
  setResults(index, Form::full(), {});
}

void SplitRegion::walk() {
  forms.assign(graph.values.size(), Form::full());
  origins.assign(graph.values.size(), Origins());
  decided.clear();
  wanted.clear();
  for (auto [index, op] : llvm::enumerate(graph.ops))
    if (op.pass == PassKind::Forward)
      visit(index);
}

void SplitRegion::apply(SmallVectorImpl<bool> &keepsStored) {
  decide();
  for (auto &[argument, form] : decided) {
    if (!form.isGather())
      continue;
    graph.arguments[argument].forms[axis] = form;
    keepsStored[argument] = true;
  }
  for (auto &[argument, form] : wanted) {
    if (!form || !form->isGather() || decided.count(argument) ||
        graph.isPinned(argument, axis) ||
        !graph.canStore(argument, axis, *form))
      continue;
    graph.arguments[argument].forms[axis] = *form;
    keepsStored[argument] = true;
  }
}

//===----------------------------------------------------------------------===//
// Megatron: columns, then rows
//===----------------------------------------------------------------------===//

// A weight whose activation is whole is split by columns; the split of the
// result is followed until a product contracts it with another weight, which
// is split by rows and gives a sum: the one all-reduce of an attention or of a
// feed-forward layer. A column split that ends elsewhere is not taken.
namespace {
class TensorRegion : public SplitRegion {
public:
  using SplitRegion::SplitRegion;

private:
  bool visitProduct(const WeightedProduct &product) override;
  void visitEnd(const Origins &origins) override;
  void decide() override;
  void reject(unsigned argument);

  /// Weights whose column split ended without a row split.
  llvm::SmallSet<unsigned, 8> rejected;
  /// Weights that were decided when the first split of this walk ended.
  std::optional<llvm::SmallSet<unsigned, 8>> settled;
  /// Weights whose column split ends in a row split.
  llvm::SmallSet<unsigned, 8> confirmed;
};
} // namespace

/// By columns if the activation is whole, else by rows, where the split ends.
bool TensorRegion::visitProduct(const WeightedProduct &product) {
  unsigned activation = graph.ops[product.op].operands[product.activation];
  bool isWhole = forms[activation].isFull();
  if (rejected.contains(product.argument))
    return false;
  for (const Signature &signature : candidates[product.op]) {
    Form made = signature.results[0];
    if (signature.operands[product.activation] != forms[activation] ||
        !signature.operands[product.weight].isGather() ||
        !(isWhole ? made.isGather() : made.isReduce()) ||
        !decideWeight(product, signature))
      continue;
    Origins from;
    from.insert(product.argument);
    if (!isWhole) {
      confirmed.insert_range(origins[activation]);
      confirmed.insert_range(from);
    }
    setResults(product.op, isWhole ? made : Form::full(), from);
    return true;
  }
  return false;
}

void TensorRegion::visitEnd(const Origins &origins) {
  if (!settled && !origins.empty())
    settled.emplace(llvm::from_range, llvm::make_first_range(decided));
  for (unsigned argument : origins)
    reject(argument);
}

void TensorRegion::reject(unsigned argument) {
  if (!settled || settled->contains(argument))
    rejected.insert(argument);
}

void TensorRegion::decide() {
  // A table that is indexed is wanted whole there.
  for (const OpNode &op : graph.ops)
    if (op.op->hasTrait<nn::Lookup>() && isParameterView(op.operands[0]))
      rejected.insert(graph.values[op.operands[0]].viewOf);
  // Rejections only grow, so this ends.
  size_t before;
  do {
    before = rejected.size();
    confirmed.clear();
    settled.reset();
    walk();
    for (auto &[argument, form] : decided)
      if (form.isGather() && !confirmed.contains(argument) &&
          !graph.isPinned(argument, axis))
        reject(argument);
  } while (rejected.size() != before);
}

void tandem::plan::splitTensors(StepGraph &graph, unsigned axis,
                                SmallVectorImpl<bool> &keepsStored) {
  TensorRegion(graph, axis).apply(keepsStored);
}

//===----------------------------------------------------------------------===//
// GShard: experts
//===----------------------------------------------------------------------===//

// A parameter of three or more dimensions whose first one is a batch dimension
// of a product holds one matrix per expert. It is split by experts, and so are
// the parameters that meet its results before experts are mixed again. Tokens
// come and go by all-to-all, since they are split by batch elsewhere.
//
// Where no tokens are dispatched, since every expert sees all of them, a
// product may have the experts among its columns (tokens times the matrices
// of all experts side by side) or its rows (which sums over experts). A
// parameter is split by these only if its experts meet those of a parameter
// that is split by the rule above: heads of attention look the same, and they
// are no experts.
namespace {
/// Where a product has the experts.
enum class Place { Batch, Rows, Columns };

class ExpertRegion : public SplitRegion {
public:
  using SplitRegion::SplitRegion;

private:
  bool visitProduct(const WeightedProduct &product) override;
  void decide() override;
  bool visitAt(const WeightedProduct &product, Place place);
  bool isAt(const WeightedProduct &product, const Signature &signature,
            Place place) const;

  /// Parameters whose results meet experts of others in a batch of products.
  llvm::SmallSet<unsigned, 4> meeting;
  /// In the second walk, the parameters that may be split by columns.
  std::optional<llvm::SmallSet<unsigned, 4>> allowed;
};
} // namespace

bool ExpertRegion::isAt(const WeightedProduct &product,
                        const Signature &signature, Place place) const {
  Form weight = signature.operands[product.weight];
  Form activation = signature.operands[product.activation];
  Form result = signature.results[0];
  Form found = forms[graph.ops[product.op].operands[product.activation]];
  switch (place) {
  case Place::Batch:
    return weight.isGather() && weight == activation && weight == result &&
           (!found.isGather() || found == activation);
  case Place::Rows:
    return weight.isGather() && activation.isGather() && result.isReduce() &&
           found == activation;
  case Place::Columns:
    return weight.isGather() && activation.isFull() && result.isGather() &&
           !found.isGather() &&
           (!allowed || allowed->contains(product.argument));
  }
  return false;
}

bool ExpertRegion::visitAt(const WeightedProduct &product, Place place) {
  const OpNode &op = graph.ops[product.op];
  unsigned weight = op.operands[product.weight];
  for (const Signature &signature : candidates[product.op]) {
    if (!isAt(product, signature, place))
      continue;
    auto stored =
        graph.getStoredForm(weight, signature.operands[product.weight], size);
    if (!stored || !stored->isGather(0) || !decideWeight(product, signature))
      continue;
    if (place == Place::Batch)
      meeting.insert_range(origins[op.operands[product.activation]]);
    Origins from;
    from.insert(product.argument);
    // A sum over experts ends the region.
    bool ends = place == Place::Rows;
    setResults(product.op, ends ? Form::full() : signature.results[0], from);
    return true;
  }
  return false;
}

bool ExpertRegion::visitProduct(const WeightedProduct &product) {
  if (graph.arguments[product.argument].type.getRank() < 3)
    return false;
  return visitAt(product, Place::Batch) || visitAt(product, Place::Rows) ||
         visitAt(product, Place::Columns);
}

/// The first walk finds which columns meet experts, the second splits those.
void ExpertRegion::decide() {
  walk();
  allowed = std::move(meeting);
  meeting.clear();
  walk();
}

void tandem::plan::splitExperts(StepGraph &graph, unsigned axis,
                                SmallVectorImpl<bool> &keepsStored) {
  ExpertRegion(graph, axis).apply(keepsStored);
}
