// Package build makes a [workflow.Definition] in Go, and nothing else: one chain of calls for each node, instead of YAML or a struct literal.
//
//	b := build.New("order")
//	b.Task("reserve").Input("items", "input.items").To("charge")
//	b.Task("charge").Input("cents", "result.cents").To("ship").Catch("release", "declined")
//	b.Task("ship").Input("order", "run.id").Output("output.label", "result.label")
//	b.Task("release")
//	definition, err := b.Definition()
//
// Nodes and transitions stand in the definition in the order of the calls. The first node is where a run starts, if
// [Builder.StartAt] says no other. A node is named by its id, also before it is made. Conditions and mappings are expressions in CEL, as in YAML.
//
// No call fails: [Builder.Definition] returns all that is wrong at once, each problem with the file and the line of the
// call that it comes from. [Builder.Err] tells before that what is wrong with the calls so far, such as an expression that
// cannot be read.
//
// [TypedTask] makes a node from the function that [pawl.Typed] takes: the type of its result becomes the schema of the node's, and
// what the input mapping fills is compared with its input. [YAML] writes a definition as a text with the same hash.
//
// [pawl.Typed]: https://pkg.go.dev/github.com/pawl-run/pawl#Typed
package build
