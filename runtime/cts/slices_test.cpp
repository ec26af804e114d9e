//===- slices_test.cpp - slices of stored values --------------------------===//
//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "cts/training_step.h"

#include <numeric>

namespace tandem::rt::cts {
namespace {

using F = std::vector<float>;

/// A Program of two by two ranks that stores w[4, 6] in a form.
struct Holder {
  explicit Holder(Form form, std::optional<Part> part = {},
                  Shape shape = {4, 6})
      : b({{"data", 2}, {"model", 2}}) {
    Argument w{"parameter", "w", ElementType::F32, shape, {}, form, -1, {}};
    w.part = std::move(part);
    b.addArgument(w);
  }
  ProgramBuilder b;
};

Form formOf(DimForm rows, DimForm columns, std::vector<uint32_t> reduce = {}) {
  return {{std::move(rows), std::move(columns)}, std::move(reduce)};
}

std::vector<Slice> slicesOf(const Session &session, const char *role,
                            const char *name) {
  auto slices = session.slices(uint32_t(session.findArgument(role, name)));
  EXPECT_OK(slices.status());
  return slices.ok() ? *slices : std::vector<Slice>();
}

std::span<uint8_t> bytesOf(F &values) {
  return {reinterpret_cast<uint8_t *>(values.data()), values.size() * 4};
}

/// The box of a row-major w[4, 6] whose elements are their indices.
F boxOfIota(const Slice &slice) {
  F values;
  for (int64_t row = 0; row < slice.extents[0]; ++row)
    for (int64_t column = 0; column < slice.extents[1]; ++column)
      values.push_back(
          float((slice.offsets[0] + row) * 6 + slice.offsets[1] + column));
  return values;
}

/// Every form in which a state can be stored, against the whole.
TEST(RankSlices, AreBoxesOfTheWhole) {
  F iota(24);
  std::iota(iota.begin(), iota.end(), 0.0f);
  for (const Form &form :
       {formOf({}, {}), formOf({1, {0}}, {}), formOf({}, {1, {1}}),
        formOf({1, {1}}, {1, {0}}), formOf({1, {0, 1}}, {})}) {
    Holder holder(form);
    auto session = start(holder.b);
    set(*session, "parameter", "w", tensorOf({4, 6}, iota));
    std::vector<Slice> slices = slicesOf(*session, "parameter", "w");
    ASSERT_EQ(slices.size(), 4u);
    for (int64_t rank = 0; rank < 4; ++rank) {
      const Slice &slice = slices[size_t(rank)];
      EXPECT_EQ(slice.rank, rank);
      F expected = boxOfIota(slice), found(expected.size());
      EXPECT_OK(session->readSlice(slice.member, rank, 0, bytesOf(found)));
      EXPECT_EQ(found, expected);
    }
  }
}

TEST(RankSlices, AreWrittenInPieces) {
  Holder holder(formOf({}, {1, {1}}));
  auto session = start(holder.b);
  for (const Slice &slice : slicesOf(*session, "parameter", "w")) {
    F values = boxOfIota(slice);
    std::span<uint8_t> bytes = bytesOf(values);
    EXPECT_OK(
        session->writeSlice(slice.member, slice.rank, 20, bytes.subspan(20)));
    EXPECT_OK(
        session->writeSlice(slice.member, slice.rank, 0, bytes.first(20)));
  }
  F iota(24);
  std::iota(iota.begin(), iota.end(), 0.0f);
  EXPECT_EQ(valuesOf<float>(argument(*session, "parameter", "w")), iota);
}

/// What the compiler took apart lies at its place in the whole.
TEST(RankSlices, OfPartsAreThoseOfTheWhole) {
  ProgramBuilder b({{"data", 2}});
  for (int64_t part = 0; part < 2; ++part) {
    Argument w{"parameter",
               "w." + std::to_string(part),
               ElementType::F32,
               {2, 6},
               {},
               {},
               -1,
               {}};
    w.form = split(2, 1, 0);
    w.part = Part{"w", {4, 6}, 0, 2 * part};
    b.addArgument(w);
  }
  auto session = start(b);
  std::vector<Slice> slices = slicesOf(*session, "parameter", "w");
  ASSERT_EQ(slices.size(), 4u);
  EXPECT_EQ(slices[3].member, 1u);
  EXPECT_EQ(slices[3].offsets, (Shape{2, 3}));
  EXPECT_EQ(slices[3].extents, (Shape{2, 3}));
}

TEST(RankSlices, Errors) {
  Holder holder(formOf({}, {1, {1}}));
  auto session = start(holder.b);
  F room(12);
  expectError(session->slices(1).status(),
              "argument is 1, expected less than 1");
  expectError(session->readSlice(1, 0, 0, bytesOf(room)),
              "slice of argument 1, expected less than 1");
  expectError(session->readSlice(0, 4, 0, bytesOf(room)),
              "slice of rank 4, expected a rank of this process");
  expectError(session->readSlice(0, 0, 4, bytesOf(room)),
              "48 bytes at 4 of a slice of 'parameter/w', which has 48");
  expectError(session->writeSlice(0, 0, -1, bytesOf(room)),
              "48 bytes at -1 of a slice of 'parameter/w', which has 48");
  Holder terms(formOf({}, {}, {0}));
  expectError(start(terms.b)->slices(0).status(),
              "expected one box of it on each rank");
  Holder microbatches(formOf({2, {}}, {}));
  expectError(start(microbatches.b)->slices(0).status(),
              "expected one box of it on each rank");
  TrainingStep model(2);
  auto training = start(model.b);
  expectError(
      training->slices(uint32_t(training->findArgument("input", "x"))).status(),
      "'input/x' is an argument of a step, expected a stored value");
}

TEST(RankSlices, HalfLoadedValuesAreDamaged) {
  TrainingStep model(2);
  auto session = start(model.b);
  Tensor x = tensorOf({8, 4}, randomValues<float>(32, 1));
  std::vector<TensorView> inputs = {x.view()};
  EXPECT_OK(session->beginLoading("'/a'"));
  for (const StoredTensor &tensor : session->store()->tensors())
    EXPECT_TRUE(tensor.damaged) << tensor.name;
  expectError(session->step(inputs),
              "values are damaged: 'parameter/w' and 1 more may be half loaded "
              "from '/a', expected them to be loaded again before the next "
              "step");
  EXPECT_OK(session->endLoading());
  EXPECT_OK(session->step(inputs));
}

/// Ranks at another point have nothing.
TEST(RankSlices, AreOfOnePoint) {
  Form form = formOf({1, {1}}, {});
  form.at = {{0, 1}};
  Holder holder(form);
  auto session = start(holder.b);
  F iota(24);
  std::iota(iota.begin(), iota.end(), 0.0f);
  set(*session, "parameter", "w", tensorOf({4, 6}, iota));
  EXPECT_EQ(valuesOf<float>(argument(*session, "parameter", "w")), iota);
  std::vector<Slice> slices = slicesOf(*session, "parameter", "w");
  ASSERT_EQ(slices.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(slices[i].rank, int64_t(2 + i));
    EXPECT_EQ(slices[i].offsets, (Shape{int64_t(2 * i), 0}));
    F found(12);
    EXPECT_OK(session->readSlice(0, slices[i].rank, 0, bytesOf(found)));
    EXPECT_EQ(found, boxOfIota(slices[i]));
  }
  F room(12);
  expectError(session->readSlice(0, 1, 0, bytesOf(room)),
              "slice of 'parameter/w' of rank 1, expected one of form model: "
              "gather(0), "
              "data: at(1)");
}

TEST(RankSlices, AreOfAPointThatExists) {
  auto expect = [](std::vector<AxisPoint> at, const std::string &error) {
    Form form = formOf({1, {1}}, {});
    form.at = std::move(at);
    expectError(Holder(form).b.finish().status(), error);
  };
  expect({{0, 2}}, "form is at point 2 of axis 'data', expected one of its 2 "
                   "points");
  expect({{0, -1}}, "form is at point -1 of axis 'data'");
  expect({{1, 0}}, "form uses axis 'model' twice");
  expect({{7, 0}}, "form names axis 7 of a mesh with 2 axes");
}

/// A command of another point has no address for it.
TEST(RankSlices, AreReadWhereTheyAre) {
  Form here, there;
  here.at = {{0, 0}}, there.at = {{0, 1}};
  ProgramBuilder b({{"pipe", 2}});
  uint32_t w = b.addArgument(
      {"parameter", "w", ElementType::F32, {4}, {}, here, -1, {}});
  b.setArena(16);
  b.add({.name = "read"}, Copy{b.argument(w), b.arena(0, 16)});
  expectError(verifyProgram(b.get()),
              "command 0 'read' of rank 1: buffer is argument 'parameter/w' "
              "[0, 16), which the rank does not hold: its form is pipe: at(0)");
  b.addUpdate(w);
  b.mutableProgram().results[0].form = there;
  b.mutableProgram().results[0].form.dims.resize(1);
  expectError(verifyProgram(b.get()),
              "has form pipe: at(1) and lies in an argument of form pipe: "
              "at(0)");
}

} // namespace
} // namespace tandem::rt::cts
