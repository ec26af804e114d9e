//===- FormTest.cpp - the layout algebra --------------------------------===//
//
// Part of Tandem, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinOps.h"
#include "tandem/Dialect/SPMD/SPMD.h"
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace tandem::spmd;

namespace {
class FormTest : public testing::Test {
protected:
  FormTest() { context.loadDialect<SPMDDialect>(); }
  MeshAttr parseMesh(StringRef text) {
    return cast<MeshAttr>(
        parseAttribute(("#spmd.mesh<" + text + ">").str(), &context));
  }
  RankedTensorType getType(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, Float32Type::get(&context));
  }

  MLIRContext context;
};

using Ints = SmallVector<int64_t>;
constexpr const char *kMesh = "data = 2, model = 3, time micro = 4";
const AxisForm kFull = AxisForm::full(), kReduce = AxisForm::reduce();
} // namespace

TEST_F(FormTest, AxisFormsPrintAndParse) {
  for (AxisForm form : {kFull, kReduce, AxisForm::gather(0),
                        AxisForm::gather(12), AxisForm::at(0), AxisForm::at(7)})
    EXPECT_EQ(parseAxisForm(form.str()), form);
  EXPECT_EQ(AxisForm::gather(3).str(), "gather(3)");
  EXPECT_EQ(parseAxisForm(" gather( 2 ) "), AxisForm::gather(2));
  EXPECT_EQ(AxisForm::at(3).str(), "at(3)");
  EXPECT_EQ(AxisForm::at(3).getPoint(), 3);
  EXPECT_FALSE(AxisForm::at(0).isGather() || AxisForm::gather(0).isAt());
  for (StringRef wrong :
       {"", "gather", "gather()", "gather(-1)", "gather(x)", "Full", "gather(1",
        "split(0)", "replicate", "at", "at(-1)", "at(x)", "at(99999999999)"})
    EXPECT_FALSE(parseAxisForm(wrong)) << wrong.str();
}

TEST_F(FormTest, MeshCountsPointsAndRanks) {
  MeshAttr mesh = parseMesh(kMesh);
  EXPECT_EQ(mesh.getNumRanks(), 6);
  EXPECT_EQ(mesh.getNumStrands(), 4);
  EXPECT_EQ(mesh.lookup("model"), 1u);
  EXPECT_EQ(mesh.lookup("pipe"), std::nullopt);
  EXPECT_FALSE(mesh.isTime(1));
  EXPECT_TRUE(mesh.isTime(2));
  // A rank is the row-major index of its coordinates.
  EXPECT_EQ(Ints(mesh.getCoordinates(5)), (Ints{1, 2}));
  EXPECT_EQ(Ints(mesh.getCoordinates(1)), (Ints{0, 1}));
}

TEST_F(FormTest, TimeIsMajorInTheLayout) {
  EXPECT_EQ(parseMesh(kMesh).getLayoutOrder(),
            (SmallVector<unsigned>{2, 0, 1}));
}

TEST_F(FormTest, FormsComeAndGoWithTypes) {
  MeshAttr mesh = parseMesh(kMesh);
  Forms forms = {AxisForm::gather(0), kFull, kReduce};
  RankedTensorType type = withForms(getType({8, 6}), mesh, forms);
  EXPECT_EQ(getForms(type, mesh), forms);
  EXPECT_EQ(withoutForms(type), getType({8, 6}));
  // Full on all axes is no encoding at all.
  EXPECT_EQ(withForms(type, mesh, Forms(3)), getType({8, 6}));
  EXPECT_EQ(getForms(getType({8, 6}), mesh), Forms(3));
}

TEST_F(FormTest, LocalShapesDivideByTheChosenAxes) {
  MeshAttr mesh = parseMesh(kMesh);
  Forms forms = {AxisForm::gather(0), AxisForm::gather(1), AxisForm::gather(0)};
  Ints shape{16, 6};
  EXPECT_EQ(Ints(getLocalShape(shape, mesh, forms)), (Ints{2, 2}));
  EXPECT_EQ(Ints(getLocalShape(shape, mesh, forms, AxisKind::Space)),
            (Ints{8, 2}));
  EXPECT_EQ(Ints(getLocalShape(shape, mesh, forms, AxisKind::Time)),
            (Ints{4, 6}));
}

TEST_F(FormTest, OffsetsPutTimeFirst) {
  MeshAttr mesh = parseMesh("data = 2, time micro = 2");
  Forms forms = {AxisForm::gather(0), AxisForm::gather(0)};
  Ints shape{8};
  auto offset = [&](int64_t data, int64_t micro) {
    return getLocalOffsets(shape, mesh, forms, {data, micro})[0];
  };
  // Microbatch 0 is the first half, of which each device holds a part.
  EXPECT_EQ(offset(0, 0), 0);
  EXPECT_EQ(offset(1, 0), 2);
  EXPECT_EQ(offset(0, 1), 4);
  EXPECT_EQ(offset(1, 1), 6);
}

TEST_F(FormTest, SlicesTileTheTensor) {
  MeshAttr mesh = parseMesh("a = 2, b = 2, time s = 2, time t = 2");
  Ints shape{16, 4};
  for (Forms forms : {Forms(4, AxisForm::gather(0)),
                      Forms{AxisForm::gather(1), AxisForm::gather(0),
                            AxisForm::gather(0), AxisForm::gather(1)}}) {
    std::set<std::pair<int64_t, int64_t>> seen;
    Ints local(getLocalShape(shape, mesh, forms));
    for (int64_t point = 0; point < 16; ++point) {
      Ints offsets(getLocalOffsets(
          shape, mesh, forms,
          {point / 8, point / 4 % 2, point / 2 % 2, point % 2}));
      for (int64_t i = 0; i < local[0]; ++i)
        for (int64_t j = 0; j < local[1]; ++j)
          EXPECT_TRUE(seen.insert({offsets[0] + i, offsets[1] + j}).second);
    }
    EXPECT_EQ(seen.size(), 64u);
    EXPECT_EQ(seen.rbegin()->first, 15);
  }
}

TEST_F(FormTest, DivisibilityCountsAllAxesOfADimension) {
  MeshAttr mesh = parseMesh("data = 2, time micro = 4");
  Forms both = {AxisForm::gather(0), AxisForm::gather(0)};
  std::string reason;
  Type f32 = Float32Type::get(&context), i1 = IntegerType::get(&context, 1);
  auto getTensor = [](int64_t size, Type element) {
    return RankedTensorType::get({size}, element);
  };
  EXPECT_TRUE(canHaveForms(getTensor(8, f32), mesh, both));
  EXPECT_FALSE(canHaveForms(getTensor(4, f32), mesh, both, &reason));
  EXPECT_EQ(reason, "dimension 0 of size 4 cannot be split into 8 equal parts "
                    "(axis 'micro')");
  EXPECT_FALSE(canHaveForms(getTensor(8, f32), mesh,
                            {AxisForm::gather(1), kFull}, &reason));
  EXPECT_EQ(reason,
            "axis 'data' splits dimension 1, but the tensor has rank 1");
  EXPECT_TRUE(canHaveForms(getTensor(3, f32), mesh, {kReduce, kFull}));
  EXPECT_TRUE(canHaveForms(getTensor(8, i1), mesh, both));
  EXPECT_FALSE(canHaveForms(getTensor(3, i1), mesh, {kReduce, kFull}, &reason));
}

TEST_F(FormTest, OnePointOfASpaceAxisHoldsATensor) {
  MeshAttr mesh = parseMesh(kMesh);
  RankedTensorType type = getType({8, 6});
  std::string reason;
  Forms forms = {AxisForm::at(1), AxisForm::gather(1), AxisForm::gather(0)};
  EXPECT_TRUE(canHaveForms(type, mesh, forms));
  EXPECT_TRUE(isHeld(forms, {1, 0, 3}));
  EXPECT_FALSE(isHeld(forms, {0, 0, 3}));
  EXPECT_EQ(Ints(getLocalShape({8, 6}, mesh, forms)), (Ints{2, 2}));
  EXPECT_EQ(getFormsLeft(mesh, forms, /*hasTime=*/true),
            (Forms{AxisForm::at(1), kFull, AxisForm::gather(0)}));
  EXPECT_EQ(getFormsLeft(mesh, forms, /*hasTime=*/false),
            (Forms{AxisForm::at(1), kFull, kFull}));
  EXPECT_FALSE(
      canHaveForms(type, mesh, {AxisForm::at(2), kFull, kFull}, &reason));
  EXPECT_EQ(reason,
            "'at(2)' on axis 'data' of size 2, expected a point below it");
  EXPECT_FALSE(
      canHaveForms(type, mesh, {kFull, kFull, AxisForm::at(0)}, &reason));
  EXPECT_EQ(reason, "'at(0)' on the time axis 'micro', expected a space axis");
}

TEST_F(FormTest, MinorMostAxisIsTheLastOneInTheLayout) {
  MeshAttr mesh = parseMesh(kMesh);
  Forms forms(3, AxisForm::gather(0));
  EXPECT_FALSE(isMinorMost(mesh, forms, 2, 0)) << "time is major";
  EXPECT_FALSE(isMinorMost(mesh, forms, 0, 0));
  EXPECT_TRUE(isMinorMost(mesh, forms, 1, 0));
  forms[1] = kReduce;
  EXPECT_TRUE(isMinorMost(mesh, forms, 0, 0));
  EXPECT_TRUE(isMinorMost(mesh, forms, 2, 1)) << "nothing splits dimension 1";
}
