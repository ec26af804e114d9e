//===- RandomProblem.cpp - seeded random graphs ---------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomGenerator.h"
#include <algorithm>

using namespace tandem::cost;
using namespace tandem::cost::test;

static const Rule kParallel = {"f>f", "0>0", "1>1"};
static const Rule kOnlyFull1 = {"f>f"};

/// The part of a rule whose tensors lie over time as a batch does: split in the
/// first dimension, as terms, or shared.
static Rule getTimeRule(const Rule &space, size_t parameterOperand) {
  Rule time;
  for (const std::string &line : space)
    if (line.find('1') == line.npos && (parameterOperand == std::string::npos ||
                                        line[2 * parameterOperand] == 'f'))
      time.push_back(line);
  return time;
}

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

Rates Generator::makeRates(double scale) {
  double latency = random.chance(0.5) ? random.between(0.0, 1e-4) : 0;
  double perByte = scale * secondsPerByte;
  return {ChangeRate{latency, perByte}, ChangeRate{latency, perByte},
          ChangeRate{2 * latency, 2 * perByte},
          ChangeRate{latency, perByte * random.between(0.3, 1.0)}};
}

void Generator::makeMesh() {
  // A whole tensor of 4 kB takes about as long as an operator, 1 ms, half of
  // that up to eight times more.
  secondsPerByte =
      1e-3 / 4096 *
      std::exp2(random.between(
          -1.0, options.kind == RandomOptions::Kind::Duplex ? 1.5 : 3.0));
  unsigned numSpace = options.isHidup || random.chance(0.6) ? 1 : 2;
  b.addAxis("data", random.chance(0.5) ? 2 : 4, makeRates(1));
  if (numSpace == 2)
    b.addAxis("model", 2, makeRates(random.between(0.3, 1.0)),
              random.chance(0.5));
  if (options.isRich && random.chance(0.3))
    b.addAxis("expert", 2, makeRates(random.between(0.3, 1.0)),
              random.chance(0.5));
  if (options.isHidup)
    return;
  bool isAny = options.kind == RandomOptions::Kind::Any;
  if (!isAny || random.chance(0.85))
    b.addTime(random.chance(0.9) ? 2 : 4, makeRates(0.05));
  if (random.chance(isAny ? 0.6 : 0.3)) {
    b.problem.computeSlowdown = 1 + random.between(0.0, 0.6);
    b.problem.collectiveSlowdown = 1 + random.between(0.0, 0.8);
  }
  if (random.chance(0.6))
    b.problem.pieceLatency = random.between(0.0, 2e-4);
}

//===----------------------------------------------------------------------===//
// Graph
//===----------------------------------------------------------------------===//

unsigned Generator::makeTensor(const char *prefix, std::vector<int64_t> shape) {
  gradients.emplace_back();
  return b.addTensor(prefix + std::to_string(b.problem.tensors.size()),
                     std::move(shape));
}

unsigned Generator::addDraft(Draft draft, unsigned op) {
  drafts.resize(b.problem.operators.size());
  drafts[op] = std::move(draft);
  return op;
}

unsigned Generator::addResident(unsigned tensor) {
  Rule space =
      options.isHidup ? Rule{">p", ">0", ">1"} : Rule{">f", ">0", ">1"};
  return addDraft({space, {">f"}}, b.addResident(tensor, {}));
}

unsigned Generator::addCompute(Pass pass, const char *name,
                               std::vector<unsigned> operands,
                               std::vector<unsigned> results, Rule space,
                               Rule time, int attachedTo) {
  unsigned op = b.add(Operator::Kind::Compute, pass, name, std::move(operands),
                      std::move(results), {});
  b.problem.operators[op].attachedTo = attachedTo;
  Draft draft{std::move(space), std::move(time)};
  draft.seconds = 1e-3 * std::exp2(random.between(-2.0, 2.0));
  draft.workspace = random.chance(0.2) ? 1024 * random.choose(1, 8) : 0;
  return addDraft(std::move(draft), op);
}

/// A new one, or one that is shared.
unsigned Generator::getParameter(int64_t k, int64_t n) {
  for (unsigned w : parameters)
    if (options.isRich && random.chance(0.5) &&
        b.problem.tensors[w].shape == std::vector<int64_t>{k, n})
      return w;
  unsigned w = makeTensor("w", {k, n});
  addResident(w);
  parameters.push_back(w);
  if (options.isRich && random.chance(0.3)) {
    momentum[w] = makeLike("m", w);
    addResident(momentum[w]);
  }
  return w;
}

unsigned Generator::addMatmul(unsigned x) {
  int64_t m = b.problem.tensors[x].shape[0], k = b.problem.tensors[x].shape[1];
  // All axes of a rich mesh together divide 64.
  int64_t n = options.isRich || random.chance(0.5) ? k : 96 - k;
  unsigned y = makeTensor("y", {m, n}), w = getParameter(k, n);
  Rule rule = {"f,f>f", "0,f>0", "f,1>1", "1,0>r", "r,f>r"};
  addCompute(Pass::Forward, "matmul", {x, w}, {y}, rule, getTimeRule(rule, 1));
  return y;
}

/// Earlier tensors of the same shape: adding one closes a branch.
std::vector<unsigned> Generator::listAddends(unsigned x) const {
  std::vector<unsigned> addends;
  for (const Operator &op : b.problem.operators)
    for (unsigned result : op.results)
      if (op.kind == Operator::Kind::Compute && result != x &&
          b.problem.tensors[result].shape == b.problem.tensors[x].shape)
        addends.push_back(result);
  return addends;
}

unsigned Generator::addSum(unsigned x, unsigned addend, unsigned y) {
  Rule rule = {"f,f>f", "0,0>0", "1,1>1", "r,r>r"};
  addCompute(Pass::Forward, "add", {x, addend}, {y}, rule,
             getTimeRule(rule, std::string::npos));
  return y;
}

/// One forward operator behind `x`; returns its result.
unsigned Generator::addLayer(unsigned x) {
  uint64_t kind = random.below(parameters.size() < 2 ? 10 : 6);
  bool mustJoin = options.kind == RandomOptions::Kind::Join && !hasJoin &&
                  !parameters.empty();
  if (kind >= 6 && !mustJoin)
    return addMatmul(x);
  unsigned y = makeLike("y", x);
  auto add = [&](const char *name, const Rule &rule, const Rule &time) {
    addCompute(Pass::Forward, name, {x}, {y}, rule, time);
    return y;
  };
  if (mustJoin || (kind == 2 && options.kind == RandomOptions::Kind::Any)) {
    hasJoin = true;
    return add("batch_norm", {"f>f", "1>1"}, kOnlyFull1);
  }
  if (kind == 0)
    return add("softmax", {"f>f", "0>0"}, {"f>f", "0>0"});
  if (kind == 1)
    return add("scale", {"f>f", "0>0", "1>1", "r>r"}, {"f>f", "0>0", "r>r"});
  std::vector<unsigned> addends = listAddends(x);
  if (addends.empty() || random.chance(0.4))
    return add("gelu", kParallel, {"f>f", "0>0"});
  return addSum(x, random.pick(addends), y);
}

void Generator::makeForward() {
  unsigned numForward = random.choose(options.minForward, options.maxForward);
  int64_t batch = !options.isRich && random.chance(0.5) ? 32 : 64;
  unsigned x =
      makeTensor("x", {batch, !options.isRich && random.chance(0.5) ? 32 : 64});
  addDraft({{">f", ">0"}, {">f", ">0"}}, b.addInput(x, {}));
  bool isWait = options.kind == RandomOptions::Kind::Wait;
  unsigned y = isWait || random.chance(0.6) ? addMatmul(x) : addLayer(x);
  for (unsigned i = 2; i < numForward; ++i) {
    bool isLast = i + 1 == numForward;
    std::vector<unsigned> addends;
    if (options.hasBranch && isLast)
      addends = listAddends(y);
    if (!addends.empty())
      y = addSum(y, random.pick(addends), makeLike("y", y));
    else
      y = isWait && isLast ? addMatmul(y) : addLayer(y);
  }
  if (parameters.empty())
    y = addMatmul(y);
  unsigned loss = makeTensor("loss", {});
  unsigned op = addCompute(Pass::Forward, "loss", {y}, {loss},
                           {"f>f", "0>r", "1>r"}, {"f>f", "0>r"});
  drafts[op].seconds *= 0.3;
  if (random.chance(0.25))
    addDraft({{"f>"}, {"f>"}}, b.addOutput(Pass::Forward, loss, {}));
}

/// The sum of what was added to the gradient of `tensor`.
unsigned Generator::makeGradient(unsigned tensor) {
  Rule rule = {"f,f>f", "0,0>0", "1,1>1", "r,r>r"};
  while (gradients[tensor].size() > 1) {
    unsigned sum = makeLike("d", tensor);
    std::vector<unsigned> &terms = gradients[tensor];
    std::vector<unsigned> operands = {terms[0], terms[1]};
    terms.erase(terms.begin(), terms.begin() + 2);
    terms.push_back(sum);
    addCompute(Pass::Backward, "add", operands, {sum}, rule,
               getTimeRule(rule, std::string::npos));
  }
  return gradients[tensor].front();
}

void Generator::addMatmulBackward(const Operator &forward, unsigned index,
                                  unsigned dy) {
  unsigned x = forward.operands[0], w = forward.operands[1];
  unsigned dw = makeLike("dw", w);
  Rule wRule = {"f,f>f", "0,0>r", "1,f>1", "f,1>0", "r,f>r"};
  Rule xRule = {"f,f>f", "0,f>0", "1,1>r", "f,0>1", "r,f>r"};
  Rule both = {"f,f,f>f,f", "0,0,f>0,r", "1,f,1>r,1", "f,1,0>1,0", "r,f,f>r,r"};
  addGradient(w, dw);
  if (x == 0) {
    addCompute(Pass::Backward, "matmul_w", {dy, x}, {dw}, wRule,
               options.isRich ? wRule : getTimeRule(wRule, std::string::npos),
               index);
    return;
  }
  unsigned dx = makeLike("d", x);
  addGradient(x, dx);
  if (random.chance(0.25)) {
    addCompute(Pass::Backward, "matmul_backward", {dy, x, w}, {dx, dw}, both,
               getTimeRule(both, 2), index);
    return;
  }
  // The weight's gradient first or last: what lies between it and the update.
  bool isFirst = random.chance(0.75);
  for (bool isW : {isFirst, !isFirst})
    if (isW)
      addCompute(Pass::Backward, "matmul_w", {dy, x}, {dw}, wRule,
                 options.isRich ? wRule : getTimeRule(wRule, std::string::npos),
                 index);
    else
      addCompute(Pass::Backward, "matmul_x", {dy, w}, {dx}, xRule,
                 getTimeRule(xRule, 1), index);
}

void Generator::addBackward(const Operator &forward, unsigned index) {
  unsigned x = forward.operands[0], y = forward.results[0];
  int attached = index;
  auto add = [&](std::vector<unsigned> operands, const Rule &space,
                 const Rule &time) {
    unsigned dx = makeLike("d", x);
    addGradient(x, dx);
    addCompute(Pass::Backward, (forward.name + "_backward").c_str(), operands,
               {dx}, space, time, attached);
  };
  if (forward.name == "loss")
    return add({x}, kParallel, {"f>f", "0>0"});
  if (gradients[y].empty())
    return;
  unsigned dy = makeGradient(y);
  if (forward.name == "matmul")
    return addMatmulBackward(forward, index, dy);
  if (forward.name == "add") {
    // The gradient of a sum is that of its terms.
    addGradient(x, dy);
    addGradient(forward.operands[1], dy);
    return;
  }
  if (x == 0)
    return;
  if (forward.name == "softmax")
    return add({dy, y}, {"f,f>f", "0,0>0", "r,f>r"},
               {"f,f>f", "0,0>0", "r,f>r"});
  if (forward.name == "scale")
    return add({dy}, {"f>f", "0>0", "1>1", "r>r"}, {"f>f", "0>0", "r>r"});
  if (forward.name == "batch_norm")
    return add({dy, x}, {"f,f>f", "1,1>1"}, {"f,f>f"});
  add({dy, x}, {"f,f>f", "0,0>0", "1,1>1", "r,f>r"},
      {"f,f>f", "0,0>0", "r,f>r"});
}

void Generator::makeBackward() {
  std::vector<Operator> forward = b.problem.operators;
  for (unsigned op = forward.size(); op-- > 0;)
    if (forward[op].kind == Operator::Kind::Compute)
      addBackward(forward[op], op);
}

/// Returns a new value of an argument from the step, most of the time.
void Generator::addTiedOutput(unsigned resident, unsigned updated) {
  if (!random.chance(0.6))
    return;
  Draft draft;
  draft.tiedTo = resident;
  unsigned output = addDraft(draft, b.addOutput(Pass::Update, updated, {}));
  b.problem.ties.push_back({resident, output});
}

void Generator::addUpdate(unsigned w, unsigned dw, unsigned resident) {
  unsigned updated = makeLike("new", w);
  unsigned op = addCompute(Pass::Update, "update", {w, dw}, {updated},
                           {"f,f>f", "0,0>0", "1,1>1"}, {"f,f>f"}, resident);
  drafts[op].seconds *= 0.2;
  addTiedOutput(resident, updated);
}

void Generator::makeUpdates() {
  std::vector<unsigned> producers = b.problem.getProducers();
  std::vector<std::pair<unsigned, unsigned>> updated;
  for (unsigned w : parameters)
    if (!gradients[w].empty())
      updated.push_back({w, makeGradient(w)});
  for (auto [w, dw] : updated) {
    addUpdate(w, dw, producers[w]);
    // Momentum reads the gradient as well.
    if (momentum.count(w))
      addUpdate(momentum[w], dw, producers[momentum[w]]);
  }
}

SearchProblem Generator::run() {
  if (options.isHidup)
    b.problem.accounting = random.chance(0.5) ? Accounting::HidupSerial
                                              : Accounting::HidupOverlapped;
  makeMesh();
  makeForward();
  if (!options.isHidup) {
    makeBackward();
    makeUpdates();
  }
  drawSignatures();
  return b.problem;
}

SearchProblem test::makeRandomProblem(uint64_t seed,
                                      const RandomOptions &options) {
  return Generator(seed, options).run();
}

/// Whether strands may bring terms of what the operator makes.
static bool mayMakeTerms(const SearchProblem &problem, unsigned op) {
  int time = problem.getTimeAxis();
  auto isTerms = [&](const Layout &layout) {
    return time >= 0 && layout[time] == kReduce;
  };
  return std::ranges::any_of(
      problem.getSignatures(op), [&](const Signature &signature) {
        return std::ranges::any_of(signature.results, isTerms);
      });
}

void tandem::cost::test::addPlaces(SearchProblem &problem, Random &random) {
  for (unsigned op = 0; op < problem.operators.size(); ++op)
    for (unsigned tensor : problem.operators[op].results) {
      const Operator &info = problem.operators[op];
      if (info.kind != Operator::Kind::Compute)
        continue;
      Tensor &made = problem.tensors[tensor];
      made.isInKernel = random.chance(0.15);
      for (unsigned operand : info.operands)
        if (operand < tensor && random.chance(0.5) &&
            problem.getBytes(operand, Layout()) ==
                problem.getBytes(tensor, Layout()))
          made.viewOf = static_cast<int>(operand);
      if (random.chance(0.25) && !mayMakeTerms(problem, op))
        made.heldFrom = static_cast<int>(random.below(op));
    }
  problem.alignment = random.chance(0.5) ? 96 : 1;
}
