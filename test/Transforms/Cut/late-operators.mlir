// RUN: tandem-opt %s --tandem-assign-sections="points=2 sections=w0:0;w1:1" 2>/dev/null | FileCheck %s
// RUN: tandem-opt %s --tandem-import --tandem-accumulate=accumulate=2 --tandem-assign-sections="points=2 sections=w0:0;w1:1" 2>/dev/null | FileCheck %s --check-prefix=LOOP

// A normalization in front of the second layer, which a skip connection passes by: it is in the
// section of the layer, so that %h crosses alone, and its gradient comes back alone.
// CHECK: %[[H:.*]] = nn.matmul {{.*}}spmd.section = 0
// CHECK: nn.mul %[[H]], %[[H]] {{.*}}spmd.section = 1
// CHECK: nn.sum {{.*}}spmd.section = 1
// CHECK: nn.rsqrt {{.*}}spmd.section = 1
// CHECK: nn.mul %[[H]], {{.*}}spmd.section = 1
// CHECK: #backward
// CHECK-NOT: spmd.section = 0
// CHECK: nn.add {{.*}}spmd.section = 1
// CHECK: nn.permute %arg0
// CHECK-NEXT: nn.matmul {{.*}}spmd.section = 0
// In a loop over microbatches likewise.
// LOOP: spmd.enter
// LOOP: %[[H:.*]] = nn.matmul {{.*}}spmd.section = 0
// LOOP: nn.mul %[[H]], %[[H]] {{.*}}spmd.section = 1
// LOOP: nn.rsqrt {{.*}}spmd.section = 1
#f = #nn.pass<forward>
#b = #nn.pass<backward>
#p = #nn.role<parameter>
!t = tensor<4x4xf64>
!r = tensor<4x1xf64>
func.func @step(%x: !t {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w0: !t {nn.role = #p, nn.name = "w0"}, %w1: !t {nn.role = #p, nn.name = "w1"})
    -> (!t {nn.role = #nn.role<output>, nn.name = "y"}, !t {nn.role = #nn.role<gradient>, nn.name = "w0"}) {
  %h = nn.matmul %x, %w0 {nn.pass = #f} : (!t, !t) -> !t
  %q = nn.mul %h, %h {nn.pass = #f} : (!t, !t) -> !t
  %s = nn.sum %q {dims = array<i64: 1>, keepdim = true, nn.pass = #f} : (!t) -> !r
  %i = nn.rsqrt %s {nn.pass = #f} : (!r) -> !r
  %n = nn.mul %h, %i {nn.pass = #f} : (!t, !r) -> !t
  %m = nn.matmul %n, %w1 {nn.pass = #f} : (!t, !t) -> !t
  %y = nn.add %m, %h {nn.pass = #f} : (!t, !t) -> !t
  %t1 = nn.permute %w1 {nn.pass = #b, permutation = array<i64: 1, 0>} : (!t) -> !t
  %dn = nn.matmul %y, %t1 {nn.pass = #b} : (!t, !t) -> !t
  %d1 = nn.mul %dn, %i {nn.pass = #b} : (!t, !r) -> !t
  %di = nn.mul %dn, %h {nn.pass = #b} : (!t, !t) -> !t
  %d2 = nn.mul %di, %h {nn.pass = #b} : (!t, !t) -> !t
  %d3 = nn.add %d1, %d2 {nn.pass = #b} : (!t, !t) -> !t
  %dh = nn.add %d3, %dn {nn.pass = #b} : (!t, !t) -> !t
  %tx = nn.permute %x {nn.pass = #b, permutation = array<i64: 1, 0>} : (!t) -> !t
  %dw = nn.matmul %tx, %dh {nn.pass = #b} : (!t, !t) -> !t
  return %y, %dw : !t, !t
}
