// RUN: tandem-opt %s --tandem-assign-sections="points=2 sections=2" 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: tandem-opt %s --tandem-assign-sections="points=2 sections=3" 2>&1 | FileCheck %s --check-prefix=THREE
// RUN: tandem-opt %s --tandem-assign-sections="points=2 sections=4@0,1,1,0" 2>&1 | FileCheck %s --check-prefix=FOUR
// RUN: not tandem-opt %s --tandem-assign-sections="points=2 sections=6" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not tandem-opt %s --tandem-assign-sections="points=2 sections=2@0,2" 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: not tandem-opt %s --tandem-assign-sections="points=2 sections=2@0" 2>&1 | FileCheck %s --check-prefix=PLACE
// RUN: not tandem-opt %s --tandem-assign-sections="points=3 sections=2" 2>&1 | FileCheck %s --check-prefix=POINT

// Products of 512, 1024, 1024, 1024, 1024 and 512 FLOPs. The last one reads the first
// parameter again, and belongs to b.1.
// TWO: remark: section 0 on point 0: in, a.*; 50.0 % of the FLOPs
// TWO: remark: section 1 on point 1: b.*; 50.0 % of the FLOPs
// TWO: spmd.sections = array<i64: 0, 1>

// Modules stay whole where they may, and are cut where there are more sections.
// THREE: section 0 on point 0: in; 10.0 % of the FLOPs
// THREE: section 1 on point 1: a.*; 40.0 % of the FLOPs
// THREE: section 2 on point 0: b.*; 50.0 % of the FLOPs

// FOUR: section 0 on point 0: in, a.0; 30.0 % of the FLOPs
// FOUR: section 1 on point 1: a.1; 20.0 % of the FLOPs
// FOUR: section 2 on point 1: b.0; 20.0 % of the FLOPs
// FOUR: section 3 on point 0: b.1; 30.0 % of the FLOPs

// MANY: error: sections is 6, but the parameters of the step divide into at most 5 sections with operators of their own, expected no more
// PLACE: error: sections '2@0{{.*}}', expected a point from 0 to 1 for each
// POINT: error: point 2 of axis 'pipe' has no section
#f = #nn.pass<forward>
#p = #nn.role<parameter>
!t = tensor<4x8xf64>
!w = tensor<8x8xf64>
func.func @step(%x: tensor<4x8xf64> {nn.role = #nn.role<input>, nn.name = "x"}, %in: !w {nn.role = #p, nn.name = "in"}, %a0: tensor<8x16xf64> {nn.role = #p, nn.name = "a.0"}, %a1: tensor<16x8xf64> {nn.role = #p, nn.name = "a.1"}, %b0: tensor<8x16xf64> {nn.role = #p, nn.name = "b.0"}, %b1: tensor<16x8xf64> {nn.role = #p, nn.name = "b.1"})
    -> (!t {nn.role = #nn.role<output>, nn.name = "y"}) {
  %0 = nn.matmul %x, %in {nn.pass = #f} : (!t, !w) -> !t
  %1 = nn.matmul %0, %a0 {nn.pass = #f} : (!t, tensor<8x16xf64>) -> tensor<4x16xf64>
  %2 = nn.matmul %1, %a1 {nn.pass = #f} : (tensor<4x16xf64>, tensor<16x8xf64>) -> !t
  %3 = nn.matmul %2, %b0 {nn.pass = #f} : (!t, tensor<8x16xf64>) -> tensor<4x16xf64>
  %4 = nn.matmul %3, %b1 {nn.pass = #f} : (tensor<4x16xf64>, tensor<16x8xf64>) -> !t
  %5 = nn.matmul %4, %in {nn.pass = #f} : (!t, !w) -> !t
  return %5 : !t
}
