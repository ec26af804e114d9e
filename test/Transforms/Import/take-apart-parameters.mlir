// RUN: tandem-opt %s --tandem-take-apart-parameters --split-input-file | FileCheck %s
// RUN: tandem-interpret %s --entry=packed --print-results > %t.whole
// RUN: tandem-opt %s --tandem-take-apart-parameters -o %t.mlir
// RUN: tandem-interpret %t.mlir --entry=packed --print-results > %t.parts
// RUN: diff %t.whole %t.parts

// A weight of 6 rows makes a value of 4 columns and one of 2; both have their own
// weight, bias, momentum, gradient and new value.

// CHECK-LABEL: @packed
// CHECK-SAME: %[[W0:[a-z0-9]+]]: tensor<4x3xf64> {nn.name = "w.part0", nn.part = #nn.part<"w" [6, 3], dim = 0, offset = 0>, nn.role = #nn.role<parameter>}
// CHECK-SAME: %[[W1:[a-z0-9]+]]: tensor<2x3xf64> {nn.name = "w.part1", nn.part = #nn.part<"w" [6, 3], dim = 0, offset = 4>, nn.role = #nn.role<parameter>}
// CHECK-SAME: %[[M0:[a-z0-9]+]]: tensor<4x3xf64> {nn.name = "m.w.part0", nn.of = "w.part0", nn.part = #nn.part<"m.w" [6, 3], dim = 0
// CHECK-SAME: %[[M1:[a-z0-9]+]]: tensor<2x3xf64> {nn.name = "m.w.part1", nn.of = "w.part1"
// CHECK-SAME: %[[B0:[a-z0-9]+]]: tensor<4xf64> {nn.name = "b.part0"
// CHECK-SAME: %[[B1:[a-z0-9]+]]: tensor<2xf64> {nn.name = "b.part1"
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<5x3xf64> {{.*}}nn.role = #nn.role<input>
// CHECK-SAME: tensor<4x3xf64> {nn.name = "w.part0", nn.part = #nn.part<"w" [6, 3], dim = 0, offset = 0>, nn.role = #nn.role<parameter>, nn.updates = 0 : i64}
// CHECK-SAME: tensor<2x3xf64> {nn.name = "w.part1", nn.part = #nn.part<"w" [6, 3], dim = 0, offset = 4>, nn.role = #nn.role<parameter>, nn.updates = 1 : i64}
// CHECK-SAME: nn.role = #nn.role<state>, nn.updates = 2 : i64}
// CHECK-SAME: nn.role = #nn.role<state>, nn.updates = 3 : i64}
// CHECK-SAME: tensor<4x3xf64> {nn.name = "w.part0", nn.part = #nn.part<"w" [6, 3], dim = 0, offset = 0>, nn.role = #nn.role<gradient>}
// CHECK-SAME: tensor<2x3xf64> {nn.name = "w.part1", nn.part = #nn.part<"w" [6, 3], dim = 0, offset = 4>, nn.role = #nn.role<gradient>}
// CHECK-NOT: nn.slice
// CHECK-NOT: nn.cat
// CHECK: %[[T0:.*]] = nn.permute %[[W0]]
// CHECK: %[[P0:.*]] = nn.matmul %[[X]], %[[T0]] {{.*}} -> tensor<5x4xf64>
// CHECK: nn.add %[[P0]], %[[B0]]
// The gradient of what all parts are computed from is a sum over them.
// CHECK: %[[G0:.*]] = nn.matmul %{{.*}}, %[[W0]] {nn.pass = #backward}
// CHECK: %[[G1:.*]] = nn.matmul %{{.*}}, %[[W1]] {nn.pass = #backward}
// CHECK: nn.add %[[G0]], %[[G1]] {nn.pass = #backward}
// CHECK: return
func.func @packed(
    %w: tensor<6x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w"},
    %m: tensor<6x3xf64> {nn.role = #nn.role<state>, nn.name = "m.w", nn.of = "w"},
    %b: tensor<6xf64> {nn.role = #nn.role<parameter>, nn.name = "b"},
    %x: tensor<5x3xf64> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
    -> (tensor<f64> {nn.role = #nn.role<loss>, nn.name = "loss"},
        tensor<6x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 0 : i64},
        tensor<6x3xf64> {nn.role = #nn.role<state>, nn.name = "m.w", nn.updates = 1 : i64},
        tensor<6x3xf64> {nn.role = #nn.role<gradient>, nn.name = "w"},
        tensor<5x3xf64> {nn.role = #nn.role<output>, nn.name = "dx"}) {
  %wt = nn.permute %w {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<6x3xf64>) -> tensor<3x6xf64>
  %product = nn.matmul %x, %wt {nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>, tensor<3x6xf64>) -> tensor<5x6xf64>
  %y = nn.add %product, %b {nn.pass = #nn.pass<forward>} : (tensor<5x6xf64>, tensor<6xf64>) -> tensor<5x6xf64>
  %q = nn.slice %y {dim = 1 : i64, start = 0 : i64, stop = 4 : i64, nn.pass = #nn.pass<forward>} : (tensor<5x6xf64>) -> tensor<5x4xf64>
  %k = nn.slice %y {dim = 1 : i64, start = 4 : i64, stop = 6 : i64, nn.pass = #nn.pass<forward>} : (tensor<5x6xf64>) -> tensor<5x2xf64>
  %qs = nn.sum %q {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>} : (tensor<5x4xf64>) -> tensor<f64>
  %ks = nn.sum %k {dims = array<i64: 0, 1>, nn.pass = #nn.pass<forward>} : (tensor<5x2xf64>) -> tensor<f64>
  %loss = nn.mul %qs, %ks {nn.pass = #nn.pass<forward>} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  %dq = nn.expand %ks {nn.pass = #nn.pass<backward>} : (tensor<f64>) -> tensor<5x4xf64>
  %dk = nn.expand %qs {nn.pass = #nn.pass<backward>} : (tensor<f64>) -> tensor<5x2xf64>
  %dy = nn.cat %dq, %dk {dim = 1 : i64, nn.pass = #nn.pass<backward>} : (tensor<5x4xf64>, tensor<5x2xf64>) -> tensor<5x6xf64>
  %dx = nn.matmul %dy, %w {nn.pass = #nn.pass<backward>} : (tensor<5x6xf64>, tensor<6x3xf64>) -> tensor<5x3xf64>
  %dyt = nn.permute %dy {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>} : (tensor<5x6xf64>) -> tensor<6x5xf64>
  %dw = nn.matmul %dyt, %x {nn.pass = #nn.pass<backward>} : (tensor<6x5xf64>, tensor<5x3xf64>) -> tensor<6x3xf64>
  %m1 = nn.add %m, %dw {nn.pass = #nn.pass<update>} : (tensor<6x3xf64>, tensor<6x3xf64>) -> tensor<6x3xf64>
  %w1 = nn.sub %w, %m1 {nn.pass = #nn.pass<update>} : (tensor<6x3xf64>, tensor<6x3xf64>) -> tensor<6x3xf64>
  return %loss, %w1, %m1, %dw, %dx : tensor<f64>, tensor<6x3xf64>, tensor<6x3xf64>, tensor<6x3xf64>, tensor<5x3xf64>
}

// -----

// Parts are found through (part, head, size), as `unbind` leaves it, and gradients
// through the zeros that slices leave.

// CHECK-LABEL: @unbind
// CHECK-SAME: tensor<4x3xf64> {nn.name = "w.part0"
// CHECK-SAME: tensor<4x3xf64> {nn.name = "w.part1"
// CHECK-NOT: nn.pad
// CHECK: return
func.func @unbind(
    %w: tensor<8x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w"},
    %x: tensor<5x3xf64> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
    -> (tensor<f64> {nn.role = #nn.role<loss>, nn.name = "loss"},
        tensor<8x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 0 : i64}) {
  %wt = nn.permute %w {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<8x3xf64>) -> tensor<3x8xf64>
  %y = nn.matmul %x, %wt {nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>, tensor<3x8xf64>) -> tensor<5x8xf64>
  %heads = nn.reshape %y {nn.pass = #nn.pass<forward>} : (tensor<5x8xf64>) -> tensor<5x2x2x2xf64>
  %first = nn.permute %heads {permutation = array<i64: 1, 0, 2, 3>, nn.pass = #nn.pass<forward>} : (tensor<5x2x2x2xf64>) -> tensor<2x5x2x2xf64>
  %q = nn.slice %first {dim = 0 : i64, start = 0 : i64, stop = 1 : i64, nn.pass = #nn.pass<forward>} : (tensor<2x5x2x2xf64>) -> tensor<1x5x2x2xf64>
  %k = nn.slice %first {dim = 0 : i64, start = 1 : i64, stop = 2 : i64, nn.pass = #nn.pass<forward>} : (tensor<2x5x2x2xf64>) -> tensor<1x5x2x2xf64>
  %qk = nn.mul %q, %k {nn.pass = #nn.pass<forward>} : (tensor<1x5x2x2xf64>, tensor<1x5x2x2xf64>) -> tensor<1x5x2x2xf64>
  %loss = nn.sum %qk {dims = array<i64: 0, 1, 2, 3>, nn.pass = #nn.pass<forward>} : (tensor<1x5x2x2xf64>) -> tensor<f64>
  %pq = nn.pad %k {dim = 0 : i64, low = 0 : i64, high = 1 : i64, nn.pass = #nn.pass<backward>} : (tensor<1x5x2x2xf64>) -> tensor<2x5x2x2xf64>
  %pk = nn.pad %q {dim = 0 : i64, low = 1 : i64, high = 0 : i64, nn.pass = #nn.pass<backward>} : (tensor<1x5x2x2xf64>) -> tensor<2x5x2x2xf64>
  %d = nn.add %pq, %pk {nn.pass = #nn.pass<backward>} : (tensor<2x5x2x2xf64>, tensor<2x5x2x2xf64>) -> tensor<2x5x2x2xf64>
  %dheads = nn.permute %d {permutation = array<i64: 0, 2, 3, 1>, nn.pass = #nn.pass<backward>} : (tensor<2x5x2x2xf64>) -> tensor<2x2x2x5xf64>
  %dyt = nn.reshape %dheads {nn.pass = #nn.pass<backward>} : (tensor<2x2x2x5xf64>) -> tensor<8x5xf64>
  %dw = nn.matmul %dyt, %x {nn.pass = #nn.pass<backward>} : (tensor<8x5xf64>, tensor<5x3xf64>) -> tensor<8x3xf64>
  %w1 = nn.sub %w, %dw {nn.pass = #nn.pass<update>} : (tensor<8x3xf64>, tensor<8x3xf64>) -> tensor<8x3xf64>
  return %loss, %w1 : tensor<f64>, tensor<8x3xf64>
}

// -----

// Something reads all columns together: one parameter.

// CHECK-LABEL: @mixed
// CHECK-SAME: tensor<6x3xf64> {nn.name = "w"
func.func @mixed(
    %w: tensor<6x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w"},
    %x: tensor<5x3xf64> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
    -> (tensor<5x3xf64> {nn.role = #nn.role<output>, nn.name = "y"},
        tensor<6x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 0 : i64}) {
  %wt = nn.permute %w {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<6x3xf64>) -> tensor<3x6xf64>
  %y = nn.matmul %x, %wt {nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>, tensor<3x6xf64>) -> tensor<5x6xf64>
  %s = nn.softmax %y {dim = 1 : i64, nn.pass = #nn.pass<forward>} : (tensor<5x6xf64>) -> tensor<5x6xf64>
  %q = nn.slice %s {dim = 1 : i64, start = 0 : i64, stop = 3 : i64, nn.pass = #nn.pass<forward>} : (tensor<5x6xf64>) -> tensor<5x3xf64>
  %k = nn.slice %s {dim = 1 : i64, start = 3 : i64, stop = 6 : i64, nn.pass = #nn.pass<forward>} : (tensor<5x6xf64>) -> tensor<5x3xf64>
  %qk = nn.mul %q, %k {nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<5x3xf64>
  return %qk, %w : tensor<5x3xf64>, tensor<6x3xf64>
}

// -----

// Rows that nothing reads are no part of their own: one parameter.

// CHECK-LABEL: @some
// CHECK-SAME: tensor<6x3xf64> {nn.name = "w"
func.func @some(
    %w: tensor<6x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w"},
    %x: tensor<5x3xf64> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
    -> (tensor<5x3xf64> {nn.role = #nn.role<output>, nn.name = "y"},
        tensor<6x3xf64> {nn.role = #nn.role<parameter>, nn.name = "w", nn.updates = 0 : i64}) {
  %wt = nn.permute %w {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<forward>} : (tensor<6x3xf64>) -> tensor<3x6xf64>
  %y = nn.matmul %x, %wt {nn.pass = #nn.pass<forward>} : (tensor<5x3xf64>, tensor<3x6xf64>) -> tensor<5x6xf64>
  %q = nn.slice %y {dim = 1 : i64, start = 0 : i64, stop = 3 : i64, nn.pass = #nn.pass<forward>} : (tensor<5x6xf64>) -> tensor<5x3xf64>
  return %q, %w : tensor<5x3xf64>, tensor<6x3xf64>
}
