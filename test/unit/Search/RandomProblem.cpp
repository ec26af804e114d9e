//===- RandomProblem.cpp - seeded random search problems ------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RandomProblem.h"
#include "ProblemBuilder.h"
#include <algorithm>
#include <map>

using namespace tandem::cost;
using namespace tandem::cost::test;

namespace {

/// Forms of operands and results along one axis, one character each.
using Rule = std::vector<std::string>;

/// An operator before its signatures are drawn.
struct Draft {
  Rule space, time;
  /// Of the whole operator on one device.
  double seconds = 0;
  int64_t workspace = 0;
  /// The resident operator whose signature an output copies.
  int tiedTo = -1;
};

/// A choice from the rule per axis.
using Choice = std::array<unsigned, kMaxAxes>;
using Theme = std::vector<Choice>;

class Generator {
public:
  Generator(uint64_t seed, const RandomOptions &options)
      : random(seed * 2 + 1), options(options) {}
  SearchProblem run();

private:
  void makeMesh();
  Rates makeRates(double scale);
  void makeForward();
  void makeBackward();
  void makeUpdates();
  unsigned getParameter(int64_t k, int64_t n);
  unsigned addMatmul(unsigned x);
  unsigned addLayer(unsigned x);
  void addBackward(const Operator &forward, unsigned index);
  void addMatmulBackward(const Operator &forward, unsigned index, unsigned dy);
  unsigned makeGradient(unsigned tensor);
  void addTiedOutput(unsigned resident, unsigned updated);
  void addUpdate(unsigned w, unsigned dw, unsigned resident);
  void addGradient(unsigned tensor, unsigned gradient) {
    gradients[tensor].push_back(gradient);
  }

  unsigned makeTensor(const char *prefix, std::vector<int64_t> shape);
  unsigned makeLike(const char *prefix, unsigned tensor) {
    return makeTensor(prefix, b.problem.tensors[tensor].shape);
  }
  unsigned addResident(unsigned tensor);
  unsigned addCompute(Pass pass, const char *name,
                      std::vector<unsigned> operands,
                      std::vector<unsigned> results, Rule space, Rule time,
                      int attachedTo = -1);
  unsigned addDraft(Draft draft, unsigned op);

  bool drawAxis(unsigned axis, Theme &theme);
  unsigned drawRule(const Rule &rule, const Operator &op,
                    const std::vector<char> &forms, double coherence);
  const Rule &getRule(unsigned op, unsigned axis) const {
    return b.problem.axes[axis].isTime ? drafts[op].time : drafts[op].space;
  }
  Theme drawTheme();
  Theme makeWhole(Theme theme) const;
  Signature makeSignature(unsigned op, const Choice &choice);
  void addSignatures(const Theme &theme, size_t begin, size_t end);
  bool tryWindow(const Theme &theme, size_t begin, size_t end);
  uint64_t countPlans() const;
  void drawSignatures();

  Random random;
  RandomOptions options;
  ProblemBuilder b;
  std::vector<Draft> drafts;
  std::vector<std::vector<unsigned>> gradients;
  std::vector<std::vector<Choice>> drawn;
  /// Parameters and their gradients' names, in the order of creation.
  std::vector<unsigned> parameters;
  std::map<unsigned, unsigned> momentum;
  double secondsPerByte = 0, strandOverhead = 1;
  /// How often an operator takes its operands as they are, where it can.
  double coherence = 1;
  bool hasJitter = false, hasJoin = false;
};

} // namespace

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

/// The line of a rule in which everything is `full`.
static unsigned getWholeLine(const Rule &rule) {
  for (unsigned i = 0; i < rule.size(); ++i)
    if (rule[i].find_first_of("01rp") == std::string::npos)
      return i;
  return 0;
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
  // An earlier tensor of the same shape is added: a branch.
  std::vector<unsigned> others;
  for (unsigned op = 0; op < b.problem.operators.size(); ++op)
    for (unsigned result : b.problem.operators[op].results)
      if (b.problem.operators[op].kind == Operator::Kind::Compute &&
          result != x &&
          b.problem.tensors[result].shape == b.problem.tensors[x].shape)
        others.push_back(result);
  if (others.empty() || random.chance(0.4))
    return add("gelu", kParallel, {"f>f", "0>0"});
  Rule rule = {"f,f>f", "0,0>0", "1,1>1", "r,r>r"};
  addCompute(Pass::Forward, "add", {x, random.pick(others)}, {y}, rule,
             getTimeRule(rule, std::string::npos));
  return y;
}

void Generator::makeForward() {
  unsigned numForward = random.choose(options.minForward, options.maxForward);
  int64_t batch = !options.isRich && random.chance(0.5) ? 32 : 64;
  unsigned x =
      makeTensor("x", {batch, !options.isRich && random.chance(0.5) ? 32 : 64});
  addDraft({{">f", ">0"}, {">f", ">0"}}, b.addInput(x, {}));
  bool isWait = options.kind == RandomOptions::Kind::Wait;
  unsigned y = isWait || random.chance(0.6) ? addMatmul(x) : addLayer(x);
  for (unsigned i = 2; i < numForward; ++i)
    y = isWait && i + 1 == numForward ? addMatmul(y) : addLayer(y);
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

//===----------------------------------------------------------------------===//
// Signatures
//===----------------------------------------------------------------------===//

/// A line that the operands can be brought to, mostly one that takes them as
/// they are.
unsigned Generator::drawRule(const Rule &rule, const Operator &op,
                             const std::vector<char> &forms, double coherence) {
  std::vector<unsigned> possible, matching;
  unsigned best = 0;
  for (unsigned i = 0; i < rule.size(); ++i) {
    unsigned numMatches = 0;
    bool isPossible = true;
    for (size_t operand = 0; operand < op.operands.size(); ++operand) {
      char have = forms[op.operands[operand]], want = rule[i][2 * operand];
      numMatches += have == want || (have == 'p' && want == 'f');
      isPossible &= have == want || want != 'r';
    }
    if (!isPossible)
      continue;
    possible.push_back(i);
    if (numMatches > best)
      matching.clear();
    best = std::max(best, numMatches);
    if (numMatches == best)
      matching.push_back(i);
  }
  return random.pick(random.chance(coherence) ? matching : possible);
}

/// Draws a line for each operator along one axis.
bool Generator::drawAxis(unsigned axis, Theme &theme) {
  std::vector<char> forms(b.problem.tensors.size(), 'f');
  bool isTime = b.problem.axes[axis].isTime;
  for (unsigned op = 0; op < b.problem.operators.size(); ++op) {
    const Operator &info = b.problem.operators[op];
    if (drafts[op].tiedTo >= 0) {
      theme[op][axis] = theme[drafts[op].tiedTo][axis];
      continue;
    }
    const Rule &rule = getRule(op, axis);
    unsigned line = drawRule(rule, info, forms, isTime ? 0.97 : coherence);
    // A batch is split over time, else there is no duplex.
    if (isTime && info.kind == Operator::Kind::Input &&
        (options.kind != RandomOptions::Kind::Any || random.chance(0.8)))
      line = 1;
    if (!isTime && options.kind == RandomOptions::Kind::Wait &&
        info.kind == Operator::Kind::Input && random.chance(0.8))
      line = 1;
    theme[op][axis] = line;
    size_t place = rule[line].find('>') + 1;
    for (unsigned result : info.results) {
      forms[result] = rule[line][place];
      place += 2;
    }
  }
  return true;
}

Theme Generator::drawTheme() {
  Theme theme(b.problem.operators.size());
  for (unsigned axis = 0; axis < b.problem.axes.size(); ++axis)
    drawAxis(axis, theme);
  return theme;
}

/// The same theme without duplex.
Theme Generator::makeWhole(Theme theme) const {
  int axis = b.problem.getTimeAxis();
  for (unsigned op = 0; op < theme.size(); ++op)
    theme[op][axis] =
        drafts[op].tiedTo >= 0 ? 0 : getWholeLine(drafts[op].time);
  return theme;
}

Signature Generator::makeSignature(unsigned op, const Choice &choice) {
  const Operator &drawnFor = b.problem.operators[op];
  bool isTied = drafts[op].tiedTo >= 0;
  unsigned source = isTied ? drafts[op].tiedTo : op;
  Signature result;
  result.operands.resize(drawnFor.operands.size());
  result.results.resize(drawnFor.results.size());
  double share = 1;
  for (unsigned axis = 0; axis < b.problem.axes.size(); ++axis) {
    Signature line = signature(getRule(source, axis)[choice[axis]]);
    if (isTied)
      std::swap(line.operands, line.results);
    bool isSplit = false;
    auto take = [&](std::vector<Layout> &to, const std::vector<Layout> &from) {
      for (size_t i = 0; i < to.size(); ++i) {
        to[i][axis] = from[i][0];
        isSplit |= from[i][0] >= 0;
      }
    };
    take(result.operands, line.operands);
    take(result.results, line.results);
    // Smaller pieces are less efficient.
    const Axis &info = b.problem.axes[axis];
    if (isSplit)
      share *=
          (info.isTime ? strandOverhead : 1) / static_cast<double>(info.size);
  }
  if (drawnFor.kind != Operator::Kind::Compute)
    return result;
  double jitter = hasJitter ? random.between(0.9, 1.1) : 1;
  result.seconds = drafts[op].seconds * share * jitter;
  result.workspace =
      static_cast<int64_t>(static_cast<double>(drafts[op].workspace) * share);
  return result;
}

void Generator::addSignatures(const Theme &theme, size_t begin, size_t end) {
  for (size_t op = begin; op < end; ++op) {
    // A tied output has what its argument has.
    unsigned source = drafts[op].tiedTo >= 0 ? drafts[op].tiedTo : op;
    const Choice &choice = theme[source];
    std::vector<Choice> &choices = drawn[source];
    if (std::find(choices.begin(), choices.end(), choice) == choices.end())
      choices.push_back(choice);
    drawn[op] = choices;
    for (size_t other = 0; other < drawn.size(); ++other)
      if (drafts[other].tiedTo == static_cast<int>(source))
        drawn[other] = choices;
  }
}

/// An estimate: a cut is possible behind each operator but the last, and has no
/// choice before the updates.
uint64_t Generator::countPlans() const {
  double count = options.isHidup ? 0.5 : 0.25;
  for (unsigned op = 0; op < drawn.size(); ++op) {
    if (drafts[op].tiedTo < 0)
      count *= static_cast<double>(drawn[op].size());
    if (options.isHidup || !b.problem.operators[op].operands.empty())
      count *= 2;
  }
  return count < 1e18 ? static_cast<uint64_t>(count) : ~uint64_t(0);
}

/// Adds a part of a theme, unless there are too many plans then.
bool Generator::tryWindow(const Theme &theme, size_t begin, size_t end) {
  std::vector<std::vector<Choice>> before = drawn;
  addSignatures(theme, begin, end);
  if (countPlans() <= options.maxPlans)
    return true;
  drawn = before;
  return false;
}

/// A first theme for all operators; then parts of others, as long as there are
/// not too many plans.
void Generator::drawSignatures() {
  hasJitter = random.chance(0.5);
  bool isDuplex = options.kind == RandomOptions::Kind::Duplex;
  coherence = options.kind == RandomOptions::Kind::Wait
                  ? 0.9
                  : random.between(0.2, isDuplex ? 0.5 : 0.8);
  strandOverhead = random.between(1.005, isDuplex ? 1.04 : 1.15);
  size_t count = b.problem.operators.size();
  drawn.resize(count);
  Theme first = drawTheme();
  addSignatures(first, 0, count);
  // Arguments first, so that there is something to pin.
  for (unsigned op = 0; op < count; ++op)
    if (b.problem.operators[op].operands.empty())
      tryWindow(drawTheme(), op, op + 1);
  if (isDuplex)
    tryWindow(makeWhole(first), 0, count);
  for (unsigned round = 0; round < options.maxThemes; ++round) {
    Theme theme = drawTheme();
    if (options.kind == RandomOptions::Kind::Any &&
        b.problem.getTimeAxis() >= 0 && random.chance(0.5))
      theme = makeWhole(theme);
    size_t begin = 0, end = count;
    while (begin < end && !tryWindow(theme, begin, end))
      (random.chance(0.5) ? begin : end) = (begin + end) / 2;
  }
  for (unsigned op = 0; op < drawn.size(); ++op)
    for (const Choice &choice : drawn[op])
      b.problem.signatureSets[op].push_back(makeSignature(op, choice));
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
