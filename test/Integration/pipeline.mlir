// Two layers on two points, with a skip connection, a norm over the gradients of
// both and a momentum: the parameters that one device has, in every order.

// RUN: mkdir -p %t && %python -c "import torch; from safetensors.torch import save_file; torch.manual_seed(0); r = lambda *s: torch.randn(*s, dtype=torch.float64) / 4; save_file({'parameter/w0': r(8, 8), 'parameter/w1': r(8, 8), 'state/m': r(8, 8), 'batch.0/x': r(8, 8), 'batch.1/x': r(8, 8)}, r'%t/data.safetensors')"
// RUN: tandem-interpret %s --data %t/data.safetensors --steps 3 --save %t/expected.safetensors
// RUN: tandem-compile %s --mesh pipe=2 --pin 'w0:pipe=at(0)' --pin 'w1:pipe=at(1)' -o %t/one.tdm
// RUN: tandem-run %t/one.tdm --data %t/data.safetensors --steps 3 --save %t/one.safetensors
// RUN: %python %S/compare.py %t/one.safetensors %t/expected.safetensors
// RUN: tandem-compile %s --mesh data=2,pipe=2 --accumulate 4 --pin 'w0:pipe=at(0)' --pin 'w1:pipe=at(1)' -o %t/four.tdm
// RUN: tandem-run %t/four.tdm --print | FileCheck %s
// RUN: tandem-run %t/four.tdm --data %t/data.safetensors --steps 3 --save %t/four.safetensors
// RUN: %python %S/compare.py %t/four.safetensors %t/expected.safetensors
// RUN: tandem-compile %s --mesh pipe=2,model=2 --plan tensor-parallel --accumulate 2 --pin 'w0:pipe=at(1)' --pin 'w1:pipe=at(0)' -o %t/back.tdm
// RUN: tandem-run %t/back.tdm --data %t/data.safetensors --steps 3 --save %t/back.safetensors
// RUN: %python %S/compare.py %t/back.safetensors %t/expected.safetensors

// Both points run the check, and only one has the loss.
// CHECK-DAG: 0F3
// CHECK-DAG: 1I3
// CHECK-DAG: 1W3
// CHECK-DAG: '0U {{.+}}'
// CHECK-DAG: '1U {{.+}}'
// CHECK-DAG: check_finite

// Each action on two microbatches, of which one computes while the other communicates: equal bits.
// RUN: tandem-compile %s --mesh pipe=2,model=2 --plan tensor-parallel --accumulate 4 --sections 2 -o %t/turns.tdm
// RUN: tandem-run %t/turns.tdm --data %t/data.safetensors --steps 3 --save %t/turns.safetensors
// RUN: %python %S/compare.py %t/turns.safetensors %t/expected.safetensors
// RUN: tandem-compile %s --mesh pipe=2,model=2 --plan tensor-parallel --accumulate 2 --micro 2 --sections 2 --save-plan %t/strands.txt -o %t/strands.tdm
// RUN: tandem-run %t/strands.tdm --print | FileCheck %s --check-prefix=STRANDS
// RUN: tandem-run %t/strands.tdm --data %t/data.safetensors --steps 3 --save %t/strands.safetensors
// RUN: cmp %t/turns.safetensors %t/strands.safetensors
// RUN: tandem-compile %s --plan-file %t/strands.txt -o %t/again.tdm && cmp %t/strands.tdm %t/again.tdm
// RUN: tandem-compile %s --mesh pipe=2,model=2 --accumulate 2 --micro 2 --sections 2 --stop-after accumulate -o %t/strands.mlir
// RUN: tandem-compile %t/strands.mlir --from accumulate --plan tensor-parallel -o %t/again.tdm && cmp %t/strands.tdm %t/again.tdm
// What leaves a section leaves before the gradients of its parameters are made.
// STRANDS: '1I0 matmul'
// STRANDS: '1I1 matmul'
// STRANDS: 'send' stage 0 strand 1
// STRANDS: '1W0 matmul'
// STRANDS: '1W1 matmul'

// Each stage means what the one before means, actions too.
// RUN: tandem-compile %s --mesh data=2,pipe=2 --accumulate 4 --pin 'w0:pipe=at(0)' --pin 'w1:pipe=at(1)' --stop-after shard -o %t/planned.mlir
// RUN: tandem-opt %t/planned.mlir --tandem-place-sections=mesh=data=2,pipe=2 -o %t/shard.mlir
// RUN: tandem-interpret %t/shard.mlir --data %t/data.safetensors --steps 3 --save %t/shard.safetensors
// RUN: %python %S/compare.py %t/shard.safetensors %t/expected.safetensors
// RUN: tandem-compile %s --mesh data=2,pipe=2 --accumulate 4 --pin 'w0:pipe=at(0)' --pin 'w1:pipe=at(1)' --stop-after schedule -o %t/schedule.mlir
// RUN: tandem-interpret %t/schedule.mlir --data %t/data.safetensors --steps 3 --save %t/schedule.safetensors
// RUN: %python %S/compare.py %t/schedule.safetensors %t/expected.safetensors

// A loss that is not finite stops all points before anything is written.
// RUN: %python -c "from safetensors.torch import load_file, save_file; d = load_file(r'%t/data.safetensors'); d['batch.0/x'][3] = float('nan'); save_file(d, r'%t/nan.safetensors')"
// RUN: not tandem-run %t/four.tdm --data %t/nan.safetensors --steps 1 2>&1 | FileCheck %s --check-prefix=NAN
// NAN: tandem-run: error: {{.*}}step 1{{.*}}loss

// RUN: not tandem-compile %s --mesh data=2 --pin 'w0:pipe=at(0)' -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=AXIS
// AXIS: error: pins place sections on axis 'pipe', but the mesh is 'data=2', expected one with 'pipe'
// RUN: not tandem-compile %s --mesh pipe=2,data=2 --pin 'w0:pipe=at(0)' --pin 'w1:data=at(1)' -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=TWO
// TWO: error: pin 'w1:data=at(1)' places a section on axis 'data', and another one on axis 'pipe', expected one axis for all sections
// RUN: not tandem-compile %s --mesh pipe=2 --pin 'w0:pipe=at(0)' -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: point 1 of axis 'pipe' has no section, expected at least one for each of its 2 points
// RUN: not tandem-compile %s --mesh pipe=2 --accumulate 2 --sections 2 --timeline --stop-after lower -o %t/p.mlir 2>&1 | FileCheck %s --check-prefix=STOPS
// STOPS: tandem-compile: error: timeline is given beside sections on axis 'pipe' and an end behind the stage lower, expected all stages: it is the timeline of the Program
// RUN: not tandem-compile %s --mesh pipe=2 --sections 2 --accumulate 1000000 --micro 20000000000000 -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=MICRO
// MICRO: error: accumulate is 1000000 and micro is 20000000000000, expected fewer microbatches

// Sections by globs, by their number, and of each point of an axis with the name pipe.
// RUN: tandem-compile %s --mesh pipe=2 --accumulate 2 --sections 'w0;w1' -o %t/globs.tdm 2>&1 | FileCheck %s --check-prefix=SECTIONS
// RUN: tandem-run %t/globs.tdm --data %t/data.safetensors --steps 3 --save %t/globs.safetensors
// RUN: %python %S/compare.py %t/globs.safetensors %t/expected.safetensors
// RUN: tandem-compile %s --mesh pipe=2 --accumulate 2 --plan pipeline -o %t/plan.tdm 2>&1 | FileCheck %s --check-prefix=SECTIONS
// RUN: tandem-run %t/plan.tdm --data %t/data.safetensors --steps 3 --save %t/plan.safetensors
// RUN: %python %S/compare.py %t/plan.safetensors %t/expected.safetensors
// SECTIONS: remark: section 0 on point 0: w0; 5{{.*}} % of the FLOPs
// SECTIONS: remark: section 1 on point 1: w1; 4{{.*}} % of the FLOPs

// The file of an order says where sections lie.
// RUN: echo '1F0,1F1,1B0,1B1' > %t/order.csv && echo '0F0,0F1,0B0,0B1' >> %t/order.csv
// RUN: tandem-compile %s --mesh pipe=2 --accumulate 2 --sections 2 --order %t/order.csv -o %t/order.tdm 2>&1 | FileCheck %s --check-prefix=PLACES
// RUN: tandem-run %t/order.tdm --data %t/data.safetensors --steps 3 --save %t/order.safetensors
// RUN: %python %S/compare.py %t/order.safetensors %t/expected.safetensors
// PLACES: section 0 on point 1: w0
// PLACES: section 1 on point 0: w1

// RUN: not tandem-compile %s --mesh data=2 --sections 2 -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=NO-AXIS
// NO-AXIS: error: sections is given, but the mesh is 'data=2', expected one with 'pipe', such as 'pipe=2'
// RUN: not tandem-compile %s --mesh data=2 --plan pipeline -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=PRESET
// PRESET: error: plan 'pipeline' is given, but the mesh is 'data=2'
// RUN: not tandem-compile %s --mesh data=2 --order gpipe -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: error: order is 'gpipe', but the mesh is 'data=2'
// RUN: not tandem-compile %s --mesh pipe=2 --sections 1 -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=FEW
// FEW: error: sections is 1, but axis 'pipe' has 2 points, expected at least one for each
// RUN: not tandem-compile %s --mesh pipe=2 --sections=-2 -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// NEGATIVE: error: sections is -2, but axis 'pipe' has 2 points, expected at least one for each
// RUN: not tandem-compile %s --mesh pipe=2 --sections 2 --pin 'w0:pipe=at(0)' -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=BOTH
// BOTH: error: pin 'w0:pipe=at(0)' beside sections, expected one of the two
// RUN: not tandem-compile %s --mesh pipe=2 --sections 3 --order %t/order.csv -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: order.csv: section 2 stands in no row, expected the actions of all 3 sections
// RUN: not tandem-compile %s --mesh pipe=3 --accumulate 2 --order %t/order.csv -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=ROWS
// ROWS: order.csv: found 2 rows, but axis 'pipe' has 3 points, expected a row for each
// RUN: not tandem-compile %s --mesh pipe=2 --accumulate 4 --order %t/order.csv -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=MICROBATCHES
// MICROBATCHES: order of 2 points and 2 microbatches, expected 2 and 4

// RUN: not tandem-compile %s --mesh pipe=0 -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: error: mesh 'pipe=0': expected 'axis=size', a size of at least 1
// RUN: not tandem-compile %s --mesh pipe=9999999999999 --pin 'w0:pipe=at(0)' -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=HUGE
// HUGE: error: the mesh is 'pipe=9999999999999', expected fewer than 1000000 points of the pipe axis 'pipe'
// RUN: not tandem-compile %s --mesh pipe=2 --sections 'w0;;w1' -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=BLANK
// BLANK: error: section 1 of sections is empty, expected names of parameters
// RUN: not tandem-compile %s --mesh pipe=2,data=2 --pin 'w0:pipe=gather(0)' -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=SPLIT
// SPLIT: error: pin 'w0:pipe=gather(0)' splits a tensor over the pipe axis 'pipe', expected 'pipe=at(POINT)', or a form on another axis
// RUN: not tandem-compile %s --mesh pipe=2 --accumulate 3 -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: error: the batch of input 'x' has size 8, which does not divide into 3 equal parts (accumulate=3), expected a multiple

// A limit of memory is one of each point: of this one's values, not of all sections'.
// RUN: tandem-compile %s --mesh pipe=2 --accumulate 2 --memory 5kB -o %t/fits.tdm
// RUN: not tandem-compile %s --mesh pipe=2 --accumulate 2 --memory 2kB --no-locations -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: error: point 0 holds {{.*}} kB on each rank, {{.*}} more than the limit of 2 kB: it has section 0 (w0); most is held from 0F1 on, with 2 microbatches of section 0 in flight; largest: activations, gradients and what is received {{.*}}, 'x' 512 B, 'w0' 512 B; expected more memory, more points, a search, or another cut or order
// The memory of a cluster is one, too, of which each rank has that of its device; what is asked for comes first.
// RUN: not tandem-compile %s --mesh pipe=2,data=2 --accumulate 2 --cluster %S/Inputs/two-kinds.yaml -o %t/p.tdm 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: tandem-compile %s --mesh pipe=2,data=2 --accumulate 2 --cluster %S/Inputs/two-kinds.yaml --memory 4kB -o %t/fits.tdm
// RUN: sed 's/2 kB/4 kB/' %S/Inputs/two-kinds.yaml > %t/enough.yaml
// RUN: tandem-compile %s --mesh pipe=2,data=2 --accumulate 2 --cluster %t/enough.yaml -o %t/fits.tdm 2>&1 | FileCheck %s --check-prefix=ENOUGH
// ENOUGH-NOT: at its peak, a device of
// SMALL: error: point 1 holds {{.*}} more than the limit of 2 kB: it has section 1 (w1)

// A search plans no collective between points, as that of the norm: what has one is scheduled as without a plan.
// RUN: tandem-compile %s --mesh pipe=2,data=2 --accumulate 2 --search tandem -o %t/searched.tdm
// RUN: tandem-run %t/searched.tdm --data %t/data.safetensors --steps 3 --save %t/searched.safetensors
// RUN: %python %S/compare.py %t/searched.safetensors %t/expected.safetensors

// A pin may say the section, and the form on the other axes. The input is split over
// them, so each point gathers it, and the rows of microbatches are parts of what it made.
// RUN: tandem-compile %s --mesh pipe=2,model=2 --accumulate 2 --pin 'w0:pipe=at(0),model=gather(1)' --pin 'w1:model=gather(0),pipe=at(1)' -o %t/forms.tdm
// RUN: tandem-run %t/forms.tdm --data %t/data.safetensors --steps 3 --save %t/forms.safetensors
// RUN: %python %S/compare.py %t/forms.safetensors %t/expected.safetensors
// RUN: tandem-run %t/forms.tdm --print | FileCheck %s --check-prefix=FORMS
// FORMS: parameter/w0 {{.*}} form model: gather(1), pipe: at(0)

#f = #nn.pass<forward>
#b = #nn.pass<backward>
#u = #nn.pass<update>
!t = tensor<8x8xf64>
func.func @step(%x: !t {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w0: !t {nn.role = #nn.role<parameter>, nn.name = "w0"}, %w1: !t {nn.role = #nn.role<parameter>, nn.name = "w1"}, %m: !t {nn.role = #nn.role<state>, nn.name = "m", nn.of = "w0"})
    -> (tensor<f64> {nn.role = #nn.role<loss>, nn.name = "loss"}, !t {nn.role = #nn.role<parameter>, nn.name = "w0", nn.updates = 1 : i64}, !t {nn.role = #nn.role<parameter>, nn.name = "w1", nn.updates = 2 : i64}, !t {nn.role = #nn.role<state>, nn.name = "m", nn.updates = 3 : i64}) {
  %h = nn.matmul %x, %w0 {nn.pass = #f} : (!t, !t) -> !t
  %e = nn.exp %h {nn.pass = #f} : (!t) -> !t
  %y = nn.matmul %e, %w1 {nn.pass = #f} : (!t, !t) -> !t
  %s = nn.add %y, %e {nn.pass = #f} : (!t, !t) -> !t
  %loss = nn.sum %s {dims = array<i64: 0, 1>, nn.pass = #f} : (!t) -> tensor<f64>
  %ds = nn.constant dense<1.0> : !t {nn.pass = #b} -> !t
  %t1 = nn.permute %w1 {nn.pass = #b, permutation = array<i64: 1, 0>} : (!t) -> !t
  %de1 = nn.matmul %ds, %t1 {nn.pass = #b} : (!t, !t) -> !t
  %te = nn.permute %e {nn.pass = #b, permutation = array<i64: 1, 0>} : (!t) -> !t
  %dw1 = nn.matmul %te, %ds {nn.pass = #b} : (!t, !t) -> !t
  %de = nn.add %de1, %ds {nn.pass = #b} : (!t, !t) -> !t
  %dh = nn.mul %de, %e {nn.pass = #b} : (!t, !t) -> !t
  %tx = nn.permute %x {nn.pass = #b, permutation = array<i64: 1, 0>} : (!t) -> !t
  %dw0 = nn.matmul %tx, %dh {nn.pass = #b} : (!t, !t) -> !t
  %p0 = nn.mul %dw0, %dw0 {nn.pass = #u} : (!t, !t) -> !t
  %q0 = nn.sum %p0 {dims = array<i64: 0, 1>, nn.pass = #u} : (!t) -> tensor<f64>
  %p1 = nn.mul %dw1, %dw1 {nn.pass = #u} : (!t, !t) -> !t
  %q1 = nn.sum %p1 {dims = array<i64: 0, 1>, nn.pass = #u} : (!t) -> tensor<f64>
  %n = nn.add %q0, %q1 {nn.pass = #u} : (tensor<f64>, tensor<f64>) -> tensor<f64>
  %c = nn.rsqrt %n {nn.pass = #u} : (tensor<f64>) -> tensor<f64>
  %u0 = nn.mul %dw0, %c {nn.pass = #u} : (!t, tensor<f64>) -> !t
  %u1 = nn.mul %dw1, %c {nn.pass = #u} : (!t, tensor<f64>) -> !t
  %m1 = nn.add %m, %u0 {nn.pass = #u} : (!t, !t) -> !t
  %n0 = nn.sub %w0, %m1 {nn.pass = #u} : (!t, !t) -> !t
  %n1 = nn.sub %w1, %u1 {nn.pass = #u} : (!t, !t) -> !t
  return %loss, %n0, %n1, %m1 : tensor<f64>, !t, !t, !t
}
