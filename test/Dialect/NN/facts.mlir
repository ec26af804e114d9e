// RUN: tandem-opt %s --split-input-file --verify-diagnostics

// One case per error of the attributes that nn declares (Facts.cpp).

func.func @case0(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'nn.pass' "backward", expected a pass such as #nn.pass<forward>}}
  %0 = nn.exp %x {nn.pass = "backward"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case1(%x: tensor<4xf32>) {
  // expected-error @+2 {{expected ::tandem::nn::PassKind to be one of: forward, backward, update}}
  // expected-error @+1 {{failed to parse}}
  %0 = nn.exp %x {nn.pass = #nn.pass<bakward>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case2(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the unknown attribute 'nn.stand', did you mean 'nn.strand'}}
  %0 = nn.exp %x {nn.stand = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{argument 0 has the unknown attribute 'nn.rule', did you mean 'nn.role'}}
func.func @case3(%x: tensor<4xf32> {nn.rule = #nn.role<input>}) {
  return
}

// -----

func.func @case4(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'nn.id' "one", expected an i64 from 0 on}}
  %0 = nn.exp %x {nn.id = "one"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case5(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'nn.id' 1 : i32, expected an i64 from 0 on}}
  %0 = nn.exp %x {nn.id = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case6(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'nn.strand' -1 : i64, expected an i64 from 0 on}}
  %0 = nn.exp %x {nn.strand = -1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case7(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'nn.join' unit, expected a change of form such as "reduce -> full"}}
  %0 = nn.exp %x {nn.join} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case8(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has 'nn.role', which stands on an argument or a result, not on an operator}}
  %0 = nn.exp %x {nn.role = #nn.role<input>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @+1 {{argument 0 has 'nn.pass', which stands on an operator, not on an argument}}
func.func @case9(%x: tensor<4xf32> {nn.pass = #nn.pass<forward>}) {
  return
}

// -----

// expected-error @+1 {{result 0 has 'nn.batch_dim', which stands on an argument, not on a result}}
func.func @case10(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32> {nn.batch_dim = 0 : i64}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{'builtin.module' has 'nn.id', which stands on an operator, not on a module}}
module attributes {nn.id = 0 : i64} {}

// -----

// expected-error @+1 {{'func.func' has 'nn.id', which stands on an operator, not on a function}}
func.func @case12() attributes {nn.id = 0 : i64} {
  return
}

// -----

// expected-error @+1 {{argument 0 has the 'nn.role' "parameter", expected a role such as #nn.role<parameter>}}
func.func @case13(%x: tensor<4xf32> {nn.role = "parameter"}) {
  return
}

// -----

// expected-error @+2 {{expected ::tandem::nn::Role to be one of: parameter, state, buffer, step, seed, learning_rate, input, loss, gradient, output}}
// expected-error @+1 {{failed to parse}}
func.func @case14(%x: tensor<4xf32> {nn.role = #nn.role<weight>}) {
  return
}

// -----

// expected-error @+1 {{argument 0 has the 'nn.role' loss, which only results have}}
func.func @case15(%x: tensor<4xf32> {nn.role = #nn.role<loss>}) {
  return
}

// -----

// expected-error @+1 {{argument 0 has the 'nn.name' 1 : i64, expected a string}}
func.func @case16(%x: tensor<4xf32> {nn.name = 1 : i64}) {
  return
}

// -----

// expected-error @+1 {{argument 0 has the 'nn.aliases' [1], expected a list of strings}}
func.func @case17(%x: tensor<4xf32> {nn.aliases = [1]}) {
  return
}

// -----

// expected-error @+1 {{argument 0 has the 'nn.of' 1 : i64, expected a string}}
func.func @case18(%x: tensor<4xf32> {nn.of = 1 : i64}) {
  return
}

// -----

// expected-error @+1 {{argument 0 has the 'nn.part' "w", expected a place such as #nn.part<"w" [8, 4], dim = 0, offset = 2>}}
func.func @case19(%x: tensor<4xf32> {nn.part = "w"}) {
  return
}

// -----

// expected-error @+1 {{part of 'w' lies on dimension 1, expected one below the rank 1}}
func.func @case19a(%x: tensor<4xf32> {nn.part = #nn.part<"w" [8], dim = 1, offset = 0>}) {
  return
}

// -----

// expected-error @+1 {{part of 'w' begins at 8, expected a number in [0, 8)}}
func.func @case19b(%x: tensor<4xf32> {nn.part = #nn.part<"w" [8], dim = 0, offset = 8>}) {
  return
}

// -----

// expected-error @+1 {{argument 0 has the 'nn.batch_dim' 1, expected one below the rank of 'tensor<4xf32>'}}
func.func @case20(%x: tensor<4xf32> {nn.batch_dim = 1 : i64}) {
  return
}

// -----

// expected-error @+1 {{argument 0 has the 'nn.range' [3, 1], expected two numbers in ascending order}}
func.func @case21(%x: tensor<4xf32> {nn.range = [3, 1]}) {
  return
}

// -----

// expected-error @+1 {{argument 0 has the 'nn.range' [3], expected two numbers in ascending order}}
func.func @case22(%x: tensor<4xf32> {nn.range = [3]}) {
  return
}

// -----

// expected-error @+1 {{result 0 has the 'nn.updates' -1 : i64, expected an i64 from 0 on}}
func.func @case23(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32> {nn.updates = -1 : i64}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{result 0 updates argument 2, but there are 2}}
func.func @case24(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32> {nn.updates = 2 : i64}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{result 0 of type 'tensor<4xf32>' updates argument 1 of type 'tensor<8xf32>'}}
func.func @case25(%x: tensor<4xf32>, %y: tensor<8xf32>) -> (tensor<4xf32> {nn.updates = 1 : i64}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{result 0 has the 'nn.name' "b", but updates argument 0 with "a", expected the same}}
func.func @case26(%x: tensor<4xf32> {nn.name = "a"}, %y: tensor<4xf32> {nn.name = "b"}) -> (tensor<4xf32> {nn.name = "b", nn.updates = 0 : i64}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @+1 {{result 0 has the 'nn.role' #nn.role<state>, but updates argument 0 with #nn.role<parameter>, expected the same}}
func.func @case27(%x: tensor<4xf32> {nn.role = #nn.role<parameter>}) -> (tensor<4xf32> {nn.role = #nn.role<state>, nn.updates = 0 : i64}) {
  return %x : tensor<4xf32>
}

// -----

func.func @case28(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'nn.join' "bogus", expected a change of form such as "reduce -> full"}}
  %0 = nn.exp %x {nn.join = "bogus"} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

// Names without the prefix of a dialect, or with that of none.
func.func @case29(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the unknown attribute 'strand', did you mean 'nn.strand'}}
  %0 = nn.exp %x {strand = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case30(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the unknown attribute 'n.strand', did you mean 'nn.strand'}}
  %0 = nn.exp %x {n.strand = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case10(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'nn.again' true, expected no value}}
  %0 = nn.exp %x {nn.again = true} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case11(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.either' has the 'nn.source' -1 : i64, expected an i64 from 0 on}}
  %0 = nn.either %x, %x {nn.source = -1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @case12(%x: tensor<4xf32>) {
  // expected-error @+1 {{'nn.exp' has the 'nn.source', expected it on 'nn.either' only}}
  %0 = nn.exp %x {nn.source = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
