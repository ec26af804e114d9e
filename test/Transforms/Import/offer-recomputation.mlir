// RUN: tandem-opt %s --tandem-offer-recomputation --split-input-file --verify-diagnostics | FileCheck %s

// A chain has a segment per operator. Each operator whose result is read is
// made again at its reader, and early for the next. The third and the fifth end
// groups: what is behind them is made of them, and they of what was saved only.
// CHECK-LABEL: @chain
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32> {{.*}}%[[W:[^:]*]]: tensor<4xf32> {nn.role = #nn.role<parameter>}
// CHECK-NEXT: %[[A1:.*]] = nn.mul %[[X]], %[[W]]
// CHECK-NEXT: %[[A2:.*]] = nn.exp %[[A1]]
// CHECK-NEXT: %[[A3:.*]] = nn.tanh %[[A2]]
// CHECK-NEXT: %[[A4:.*]] = nn.sigmoid %[[A3]]
// CHECK-NEXT: %[[A5:.*]] = nn.sin %[[A4]]
// CHECK-NEXT: %[[A6:.*]] = nn.cos %[[A5]]
// CHECK-NEXT: %[[R5:.*]] = nn.sin %[[A4]] {nn.again{{.*}}nn.pass = #backward}
// CHECK-NEXT: %[[D5:.*]] = nn.either %[[A5]], %[[R5]] {nn.pass = #backward}
// CHECK-NEXT: %[[G5:.*]] = nn.mul %{{.*}}, %[[D5]]
// CHECK-NEXT: %[[E3:.*]] = nn.tanh %[[A2]] {nn.again{{.*}}nn.pass = #backward}
// CHECK-NEXT: %[[C4:.*]] = nn.either %[[A3]], %[[E3]] {nn.pass = #backward}
// CHECK-NEXT: %[[R4:.*]] = nn.sigmoid %[[C4]] {nn.again{{.*}}nn.pass = #backward}
// CHECK-NEXT: %[[D4:.*]] = nn.either %[[A4]], %[[R4]] {nn.pass = #backward}
// CHECK-NEXT: %[[G4:.*]] = nn.mul %[[G5]], %[[D4]]
// CHECK-NEXT: %[[R3:.*]] = nn.tanh %[[A2]] {nn.again{{.*}}nn.pass = #backward}
// CHECK-NEXT: %[[D3:.*]] = nn.either %[[A3]], %[[R3]], %[[E3]] {nn.pass = #backward}
// CHECK-NEXT: %[[G3:.*]] = nn.mul %[[G4]], %[[D3]]
// CHECK-NEXT: %[[E1:.*]] = nn.mul %[[X]], %[[W]] {nn.again{{.*}}nn.pass = #backward}
// CHECK-NEXT: %[[C2:.*]] = nn.either %[[A1]], %[[E1]] {nn.pass = #backward}
// CHECK-NEXT: %[[R2:.*]] = nn.exp %[[C2]] {nn.again{{.*}}nn.pass = #backward}
// CHECK-NEXT: %[[D2:.*]] = nn.either %[[A2]], %[[R2]] {nn.pass = #backward}
// CHECK-NEXT: %[[G2:.*]] = nn.mul %[[G3]], %[[D2]]
// CHECK-NEXT: %[[R1:.*]] = nn.mul %[[X]], %[[W]] {nn.again{{.*}}nn.pass = #backward}
// CHECK-NEXT: %[[D1:.*]] = nn.either %[[A1]], %[[R1]], %[[E1]] {nn.pass = #backward}
// CHECK-NEXT: %[[G1:.*]] = nn.mul %[[G2]], %[[D1]]
// CHECK-NEXT: nn.mul %[[G1]], %[[X]]
// CHECK-NEXT: return
func.func @chain(%x: tensor<4xf32> {nn.role = #nn.role<input>}, %w: tensor<4xf32> {nn.role = #nn.role<parameter>}, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a1 = nn.mul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a2 = nn.exp %a1 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %a3 = nn.tanh %a2 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %a4 = nn.sigmoid %a3 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %a5 = nn.sin %a4 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %a6 = nn.cos %a5 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %g5 = nn.mul %dy, %a5 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g4 = nn.mul %g5, %a4 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g3 = nn.mul %g4, %a3 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g2 = nn.mul %g3, %a2 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g1 = nn.mul %g2, %a1 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g0 = nn.mul %g1, %x {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %a6, %g0 : tensor<4xf32>, tensor<4xf32>
}

// Half a block of a transformer is a segment: its residual is read behind what
// the branch makes. A norm makes its statistics again as well. A reshape is
// no choice: each reader has its own, of what it takes. The early clone of the segment before is made for all of them.
// CHECK-LABEL: @half_block
// CHECK: %[[H:.*]] = nn.matmul %{{.*}} {nn.pass = #forward}
// CHECK: %[[N:.*]], %[[M:.*]], %[[S:.*]] = nn.layer_norm %[[H]]
// CHECK: %[[U:.*]] = nn.tanh
// CHECK: %[[Y:.*]] = nn.add
// CHECK: nn.exp
// CHECK: %[[EN:.*]], %[[EM:.*]], %[[ES:.*]] = nn.layer_norm %[[H]] {{.*}}nn.again
// CHECK: nn.matmul {{.*}}nn.again
// CHECK-NEXT: %[[ET:.*]] = nn.either
// CHECK-NEXT: %[[ER:.*]] = nn.reshape %[[ET]] {nn.again
// CHECK-NEXT: %[[EU:.*]] = nn.tanh %[[ER]] {nn.again
// CHECK: %[[EY:.*]] = nn.add %[[H]], %{{.*}} {nn.again
// CHECK-NEXT: %[[C:.*]] = nn.either %[[Y]], %[[EY]]
// CHECK-NEXT: nn.exp %[[C]] {nn.again
// CHECK: %[[EH:.*]] = nn.matmul %{{.*}} {nn.again
// CHECK-NEXT: %[[C:.*]] = nn.either %[[H]], %[[EH]]
// CHECK-NEXT: %[[RN:.*]], %[[RM:.*]], %[[RS:.*]] = nn.layer_norm %[[C]] {{.*}}nn.again
// CHECK: %[[RU:.*]] = nn.tanh %{{.*}} {nn.again
// CHECK-NEXT: %[[D:.*]] = nn.either %[[U]], %[[RU]], %[[EU]]
// CHECK-NEXT: %[[DR:.*]] = nn.reshape %[[D]] {nn.again{{.*}} -> tensor<4x8xf32>
// CHECK-NEXT: %[[G:.*]] = nn.mul %{{.*}}, %[[DR]]
// CHECK-NEXT: %[[RH:.*]] = nn.matmul %{{.*}} {nn.again
// CHECK-NEXT: %[[DH:.*]] = nn.either %[[H]], %[[RH]], %[[EH]]
// CHECK-NEXT: %[[DM:.*]] = nn.either %[[M]], %[[RM]], %[[EM]]
// CHECK-NEXT: %[[DS:.*]] = nn.either %[[S]], %[[RS]], %[[ES]]
// CHECK-NEXT: nn.layer_norm_backward %[[G]], %[[DH]], %[[DM]], %[[DS]]
// CHECK: nn.either %[[N]], %[[RN]], %[[EN]]
func.func @half_block(%x: tensor<4x8xf32> {nn.role = #nn.role<input>}, %w0: tensor<8x8xf32> {nn.role = #nn.role<parameter>}, %w1: tensor<8x8xf32> {nn.role = #nn.role<parameter>}, %w2: tensor<8x8xf32> {nn.role = #nn.role<parameter>}, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>) {
  %h = nn.matmul %x, %w0 {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %n, %m, %r = nn.layer_norm %h {normalized_rank = 1 : i64, eps = 1.0e-5 : f64, nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
  %a = nn.matmul %n, %w1 {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %v = nn.reshape %a {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<32xf32>
  %t = nn.tanh %v {nn.pass = #nn.pass<forward>} : (tensor<32xf32>) -> tensor<32xf32>
  %u = nn.reshape %t {nn.pass = #nn.pass<forward>} : (tensor<32xf32>) -> tensor<4x8xf32>
  %b = nn.matmul %u, %w2 {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = nn.add %h, %b {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = nn.exp %y {nn.pass = #nn.pass<forward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %g0 = nn.mul %dy, %z {nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %g1 = nn.mul %g0, %u {nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %g2 = nn.layer_norm_backward %g1, %h, %m, %r {normalized_rank = 1 : i64, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %nt = nn.permute %n {permutation = array<i64: 1, 0>, nn.pass = #nn.pass<backward>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %dw = nn.matmul %nt, %g1 {nn.pass = #nn.pass<backward>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %z, %g1, %g2, %dw : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>
}

// Random numbers are drawn again with the same ordinal. What depends on no
// argument is not cloned, views of arguments are without a choice, and a single
// number is held.
// CHECK-LABEL: @dropout
// CHECK-SAME: %[[W:[^:]*]]: tensor<2x2xf32>
// CHECK: %[[I:.*]] = nn.iota
// CHECK: %[[VIEW:.*]] = nn.reshape %[[W]]
// CHECK: %[[P:.*]] = nn.philox %[[I]], {{.*}}ordinal = 3
// CHECK: %[[SUM:.*]] = nn.sum
// CHECK-NEXT: %[[V:.*]] = nn.reshape %[[W]] {nn.again
// CHECK-NEXT: nn.mul %{{.*}}, %[[V]] {nn.again
// CHECK-NEXT: %[[R:.*]] = nn.philox %[[I]], {{.*}}nn.again, {{.*}}ordinal = 3
// CHECK-NEXT: nn.either %[[P]], %[[R]]
// CHECK: nn.mul %{{.*}}, %[[SUM]] {nn.pass = #backward}
// CHECK: nn.mul %{{.*}}, %[[VIEW]] {nn.pass = #backward}
func.func @dropout(%x: tensor<4xf32> {nn.role = #nn.role<input>}, %w: tensor<2x2xf32> {nn.role = #nn.role<parameter>}, %seed: tensor<i64> {nn.role = #nn.role<seed>}, %step: tensor<i64> {nn.role = #nn.role<step>}) -> (tensor<4xf32>, tensor<4xf32>, tensor<f32>) {
  %i = nn.iota {nn.pass = #nn.pass<forward>} : tensor<4xi64>
  %c = nn.constant dense<7> : tensor<i64> {nn.pass = #nn.pass<forward>} -> tensor<i64>
  %w1 = nn.reshape %w {nn.pass = #nn.pass<forward>} : (tensor<2x2xf32>) -> tensor<4xf32>
  %a = nn.mul %x, %w1 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %r = nn.philox %i, %seed, %step {ordinal = 3 : i64, nn.pass = #nn.pass<forward>} : (tensor<4xi64>, tensor<i64>, tensor<i64>) -> tensor<4xi64>
  %k = nn.compare lt %r, %c {nn.pass = #nn.pass<forward>} : (tensor<4xi64>, tensor<i64>) -> tensor<4xi1>
  %m = nn.convert %k {nn.pass = #nn.pass<forward>} : (tensor<4xi1>) -> tensor<4xf32>
  %d = nn.mul %a, %m {nn.pass = #nn.pass<forward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %s = nn.sum %d {dims = array<i64: 0>, nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<f32>
  %0 = nn.mul %d, %s {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = nn.mul %0, %m {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.mul %1, %w1 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %d, %2, %s : tensor<4xf32>, tensor<4xf32>, tensor<f32>
}

// A term of the loss that each layer adds is small, and read behind segments
// as well: they end all the same. A reader of one value twice has one choice.
// CHECK-LABEL: @experts
// CHECK: nn.exp %{{.*}} {nn.again
// CHECK-NEXT: %[[E:.*]] = nn.either
// CHECK-NEXT: nn.sin %[[E]] {nn.again
// CHECK-NEXT: %[[C:.*]] = nn.either
// CHECK-NEXT: nn.mul %[[C]], %[[C]]
func.func @experts(%x: tensor<64xf32> {nn.role = #nn.role<input>}, %w: tensor<64xf32> {nn.role = #nn.role<parameter>}) -> (tensor<1xf32>, tensor<64xf32>) {
  %a = nn.mul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %l = nn.sum %a {dims = array<i64: 0>, keepdim = true, nn.pass = #nn.pass<forward>} : (tensor<64xf32>) -> tensor<1xf32>
  %b = nn.exp %a {nn.pass = #nn.pass<forward>} : (tensor<64xf32>) -> tensor<64xf32>
  %c = nn.sin %b {nn.pass = #nn.pass<forward>} : (tensor<64xf32>) -> tensor<64xf32>
  %m = nn.sum %c {dims = array<i64: 0>, keepdim = true, nn.pass = #nn.pass<forward>} : (tensor<64xf32>) -> tensor<1xf32>
  %y = nn.add %l, %m {nn.pass = #nn.pass<forward>} : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %g = nn.mul %c, %c {nn.pass = #nn.pass<backward>} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %y, %g : tensor<1xf32>, tensor<64xf32>
}

// What is alive all along (a skip) is held once, and no reason not to cut the
// chain beside it where least is held: behind the third and the sixth.
// CHECK-LABEL: @skip
// CHECK: %[[S:.*]] = nn.mul %{{.*}}, %{{.*}} {nn.pass = #forward}
// CHECK-NEXT: nn.exp
// CHECK-NEXT: nn.tanh
// CHECK-NEXT: %[[A3:.*]] = nn.sigmoid
// CHECK-NEXT: nn.sin
// CHECK-NEXT: nn.cos
// CHECK-NEXT: %[[A6:.*]] = nn.exp
// CHECK: nn.tanh %[[A6]] {nn.again, nn.early
// CHECK: nn.add %{{.*}}, %[[S]] {nn.again, nn.early
// CHECK: nn.sin %[[A3]] {nn.again, nn.early
// CHECK: %[[E6:.*]] = nn.exp %{{.*}} {nn.again, nn.early
// CHECK-NEXT: %[[C:.*]] = nn.either %[[A6]], %[[E6]]
// CHECK-NEXT: nn.tanh %[[C]] {nn.again, nn.pass
func.func @skip(%x: tensor<4xf32> {nn.role = #nn.role<input>}, %w: tensor<4xf32> {nn.role = #nn.role<parameter>}, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = nn.mul %x, %w {nn.pass = #nn.pass<forward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a1 = nn.exp %s {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %a2 = nn.tanh %a1 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %a3 = nn.sigmoid %a2 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %a4 = nn.sin %a3 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %a5 = nn.cos %a4 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %a6 = nn.exp %a5 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %a7 = nn.tanh %a6 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %a8 = nn.sigmoid %a7 {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %y = nn.add %a8, %s {nn.pass = #nn.pass<forward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = nn.exp %y {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
  %g9 = nn.mul %dy, %z {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g8 = nn.mul %g9, %a8 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g7 = nn.mul %g8, %a7 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g6 = nn.mul %g7, %a6 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g5 = nn.mul %g6, %a5 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g4 = nn.mul %g5, %a4 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g3 = nn.mul %g4, %a3 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g2 = nn.mul %g3, %a2 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g1 = nn.mul %g2, %a1 {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g0 = nn.mul %g1, %s {nn.pass = #nn.pass<backward>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %z, %g0 : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @scheduled(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{operator 'sched.step' in a step, expected operators of nn and spmd}}
  %0, %done = sched.step on compute stage 0 strand 0 {
    %1 = nn.neg %x {nn.pass = #nn.pass<forward>} : (tensor<4xf32>) -> tensor<4xf32>
    sched.yield %1 : tensor<4xf32>
  } : tensor<4xf32>
  return %0 : tensor<4xf32>
}
