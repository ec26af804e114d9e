// RUN: tandem-opt %s --tandem-import --tandem-accumulate=accumulate=2 --tandem-assign-sections="points=2 sections=w0:0;w1:1" --tandem-plan="mesh=data=1" --tandem-shard --tandem-place-sections="mesh=pipe=2,data=1" --tandem-localize --tandem-outline-actions | FileCheck %s

// The backward pass of section 0 reads `e` and a conversion of it, so it makes the
// conversion: one tensor is held, not two. Of `h` it reads a conversion alone, which is held.
// CHECK: module @s0.F
// CHECK: return %{{[^,]*}}, %{{[^,]*}} : tensor<4x8xf32>, tensor<4x8xf64>
// CHECK: module @s0.W
// CHECK: nn.convert %{{.*}}nn.pass = #backward{{.*}} : (tensor<4x8xf64>) -> tensor<4x8xf32>

// W of section 1 reads `ds`, which I makes, and conversions of it.
// CHECK: module @s1.I
// CHECK: return %{{[^,]*}}, %{{[^,]*}} : tensor<4x8xf64>, tensor<4x8xf64>
// CHECK: module @s1.W
// CHECK: nn.convert
// CHECK: nn.convert

#f = #nn.pass<forward>
#b = #nn.pass<backward>
#u = #nn.pass<update>
!t = tensor<8x8xf64>
!v = tensor<8x8xf32>
func.func @step(%x: !t {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w0: !t {nn.role = #nn.role<parameter>, nn.name = "w0"}, %w1: !t {nn.role = #nn.role<parameter>, nn.name = "w1"})
    -> (!t {nn.role = #nn.role<parameter>, nn.name = "w0", nn.updates = 1 : i64}, !t {nn.role = #nn.role<parameter>, nn.name = "w1", nn.updates = 2 : i64}) {
  %h = nn.matmul %x, %w0 {nn.pass = #f} : (!t, !t) -> !t
  %ch = nn.convert %h {nn.pass = #f} : (!t) -> !v
  %e = nn.exp %h {nn.pass = #f} : (!t) -> !t
  %ce = nn.convert %e {nn.pass = #f} : (!t) -> !v
  %y = nn.matmul %e, %w1 {nn.pass = #f} : (!t, !t) -> !t
  %s = nn.exp %y {nn.pass = #f} : (!t) -> !t
  %t1 = nn.permute %w1 {nn.pass = #b, permutation = array<i64: 1, 0>} : (!t) -> !t
  %ds = nn.mul %s, %y {nn.pass = #b} : (!t, !t) -> !t
  %cs = nn.convert %ds {nn.pass = #b} : (!t) -> !v
  %rs = nn.convert %cs {nn.pass = #b} : (!v) -> !t
  %du = nn.matmul %ds, %t1 {nn.pass = #b} : (!t, !t) -> !t
  %de = nn.mul %du, %rs {nn.pass = #b} : (!t, !t) -> !t
  %ws = nn.mul %ds, %rs {nn.pass = #b} : (!t, !t) -> !t
  %te = nn.permute %e {nn.pass = #b, permutation = array<i64: 1, 0>} : (!t) -> !t
  %dw1 = nn.matmul %te, %ws {nn.pass = #b} : (!t, !t) -> !t
  %dm = nn.mul %de, %e {nn.pass = #b} : (!t, !t) -> !t
  %p = nn.mul %ce, %ch {nn.pass = #b} : (!v, !v) -> !v
  %cp = nn.convert %p {nn.pass = #b} : (!v) -> !t
  %dh = nn.mul %dm, %cp {nn.pass = #b} : (!t, !t) -> !t
  %tx = nn.permute %x {nn.pass = #b, permutation = array<i64: 1, 0>} : (!t) -> !t
  %dw0 = nn.matmul %tx, %dh {nn.pass = #b} : (!t, !t) -> !t
  %n0 = nn.sub %w0, %dw0 {nn.pass = #u} : (!t, !t) -> !t
  %n1 = nn.sub %w1, %dw1 {nn.pass = #u} : (!t, !t) -> !t
  return %n0, %n1 : !t, !t
}
