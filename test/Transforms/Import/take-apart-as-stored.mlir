// RUN: tandem-opt %s '--tandem-take-apart-parameters=stored-parts=w:0:2;whole:0:' | FileCheck %s
// RUN: tandem-interpret %s --entry=step --print-results > %t.whole
// RUN: tandem-opt %s '--tandem-take-apart-parameters=stored-parts=w:0:2;whole:0:' -o %t.mlir
// RUN: tandem-interpret %t.mlir --entry=step --print-results > %t.parts
// RUN: diff %t.whole %t.parts
// RUN: not tandem-opt %s '--tandem-take-apart-parameters=stored-parts=w:0:6' 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not tandem-opt %s '--tandem-take-apart-parameters=stored-parts=w' 2>&1 | FileCheck %s --check-prefix=TEXT

// ROWS: stored-parts cuts 'w' where it has no rows
// TEXT: stored-parts is 'w', expected NAME:DIM:ROW,ROW;...

// Another step has `w` in parts of other rows than the slices here take, and
// `whole` in one, which these slices would take apart.

// CHECK-LABEL: @step
// CHECK-SAME: %[[W0:[a-z0-9]+]]: tensor<2x3xf64> {nn.name = "w.part0", nn.part = #nn.part<"w" [6, 3], dim = 0, offset = 0>
// CHECK-SAME: %[[W1:[a-z0-9]+]]: tensor<4x3xf64> {nn.name = "w.part1", nn.part = #nn.part<"w" [6, 3], dim = 0, offset = 2>
// CHECK-SAME: %[[M0:[a-z0-9]+]]: tensor<2x3xf64> {nn.name = "m.w.part0", nn.of = "w.part0"
// CHECK-SAME: %[[M1:[a-z0-9]+]]: tensor<4x3xf64> {nn.name = "m.w.part1", nn.of = "w.part1"
// CHECK-SAME: tensor<6x3xf64> {nn.name = "whole"
// CHECK-SAME: tensor<2x3xf64> {nn.name = "w.part0", {{.*}}nn.updates = 0 : i64}
// CHECK-SAME: tensor<4x3xf64> {nn.name = "w.part1", {{.*}}nn.updates = 1 : i64}
// CHECK: %[[W:.*]] = nn.cat %[[W0]], %[[W1]] {{.*}}nn.pass = #forward
// CHECK: nn.permute %[[W]]
// CHECK: nn.add %[[M0]]
// CHECK: nn.sub %[[W0]]
// CHECK: return
func.func @step(
    %w: tensor<6x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w"},
    %m: tensor<6x3xf64> {nn.role = #nn.role<state>, nn.name = "m.w", nn.of = "w"},
    %o: tensor<6x3xf64> {nn.role = #nn.role<parameter>, nn.name = "whole"},
    %x: tensor<5x3xf64> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
    -> (tensor<f64> {nn.role = #nn.role<loss>, nn.name = "loss"},
        tensor<6x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 0 : i64},
        tensor<6x3xf64> {nn.role = #nn.role<state>, nn.name = "m.w", nn.updates = 1 : i64},
        tensor<5x3xf64> {nn.role = #nn.role<output>, nn.name = "dx"}) {
  %wt = nn.permute %w {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<6x3xf64>) -> tensor<3x6xf64>
  %y = nn.matmul %x, %wt {nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>, tensor<3x6xf64>) -> tensor<5x6xf64>
  %q = nn.slice %y {dim = 1 : i64, start = 0 : i64, stop = 3 : i64, nn.pass = #nn.pass<forward>} : (tensor<5x6xf64>) -> tensor<5x3xf64>
  %k = nn.slice %y {dim = 1 : i64, start = 3 : i64, stop = 6 : i64, nn.pass = #nn.pass<forward>} : (tensor<5x6xf64>) -> tensor<5x3xf64>
  %ot = nn.permute %o {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<6x3xf64>) -> tensor<3x6xf64>
  %z = nn.matmul %x, %ot {nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>, tensor<3x6xf64>) -> tensor<5x6xf64>
  %z0 = nn.slice %z {dim = 1 : i64, start = 0 : i64, stop = 3 : i64, nn.pass = #nn.pass<forward>} : (tensor<5x6xf64>) -> tensor<5x3xf64>
  %z1 = nn.slice %z {dim = 1 : i64, start = 3 : i64, stop = 6 : i64, nn.pass = #nn.pass<forward>} : (tensor<5x6xf64>) -> tensor<5x3xf64>
  %zz = nn.mul %z0, %z1 {nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xf64>
  %qz = nn.mul %q, %zz {nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xf64>
  %kz = nn.mul %k, %zz {nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xf64>
  %both = nn.add %qz, %k {nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xf64>
  %loss = nn.sum %both {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>) -> tensor<f64>
  %dy = nn.cat %kz, %qz {dim = 1 : i64, nn.pass = #nn.pass<backward>} : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x6xf64>
  %dx = nn.matmul %dy, %w {nn.pass = #nn.pass<backward>} : (tensor<5x6xf64>, tensor<6x3xf64>) -> tensor<5x3xf64>
  %dyt = nn.permute %dy {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>} : (tensor<5x6xf64>) -> tensor<6x5xf64>
  %dw = nn.matmul %dyt, %x {nn.pass = #nn.pass<backward>} : (tensor<6x5xf64>, tensor<5x3xf64>) -> tensor<6x3xf64>
  %m1 = nn.add %m, %dw {nn.pass = #nn.pass<update>} : (tensor<6x3xf64>, tensor<6x3xf64>) -> tensor<6x3xf64>
  %w1 = nn.sub %w, %m1 {nn.pass = #nn.pass<update>} : (tensor<6x3xf64>, tensor<6x3xf64>) -> tensor<6x3xf64>
  return %loss, %w1, %m1, %dx : tensor<f64>, tensor<6x3xf64>, tensor<6x3xf64>, tensor<5x3xf64>
}
