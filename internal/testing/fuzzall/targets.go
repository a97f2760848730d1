package main

// least is how many executions a second of its processor time a target makes, unless the table says why it makes
// fewer. A target below that spends its time with something else than its inputs.
const least = 1000

// wholeEngine is why targets are slow whose test program has the whole engine in it.
const wholeEngine = "Go looks through the counters of its whole program after each input, which are 200,000 and more with an engine or a store in it"

// A target is a fuzz target of this module.
type target struct {
	pkg, name string
	foreign   bool   // it reads bytes that others may have written or changed
	slow      string // why it makes fewer than least executions a second; "" if it does not
}

// targets are all fuzz targets, by package and name.
var targets = []target{
	{pkg: "./api", name: "FuzzRoutes", foreign: true, slow: "each input is a request to an engine, and many of them commit"},
	{pkg: "./blob", name: "FuzzRefs"},
	{pkg: "./decision", name: "FuzzMessage", foreign: true},
	{pkg: "./decision", name: "FuzzRecord", foreign: true},
	{pkg: "./handler", name: "FuzzExecInput", slow: wholeEngine},
	{pkg: "./handler", name: "FuzzHTTPInput", slow: wholeEngine},
	{pkg: "./handler", name: "FuzzTransformInput", slow: wholeEngine},
	{pkg: "./internal/codec", name: "FuzzDecode", foreign: true},
	{pkg: "./internal/expr", name: "FuzzCompileEval", slow: "each input is compiled and evaluated twice, up to a cost of 20,000"},
	{pkg: "./internal/image", name: "FuzzImage", foreign: true},
	{pkg: "./internal/index", name: "FuzzRunID"},
	{pkg: "./internal/portable", name: "FuzzRead", foreign: true, slow: "each input is read twice, with the checksums of its values, and what it says is written and read again"},
	{pkg: "./internal/redo", name: "FuzzRead", foreign: true},
	{pkg: "./internal/sqlite", name: "FuzzCheckWAL", foreign: true},
	{pkg: "./internal/sqlite", name: "FuzzTape", foreign: true, slow: "each input is executed in a database of its own"},
	{pkg: "./internal/taskkey", name: "FuzzKey"},
	{pkg: "./internal/traceparent", name: "FuzzParse", foreign: true},
	{pkg: "./internal/value", name: "FuzzDecode", foreign: true},
	{pkg: "./internal/value", name: "FuzzParsePath"},
	{pkg: "./internal/value", name: "FuzzText", foreign: true},
	{pkg: "./pawltest", name: "FuzzLoad", foreign: true, slow: wholeEngine},
	{pkg: "./planning", name: "FuzzPatched", slow: "each patch that fits makes a graph, which is compiled twice"},
	{pkg: "./schedule", name: "FuzzParse", foreign: true, slow: "each input's expressions are compiled, and its instants computed"},
	{pkg: "./store", name: "FuzzAdvance", foreign: true, slow: wholeEngine},
	{pkg: "./store", name: "FuzzDatabase", foreign: true, slow: "each input is a database, which is copied, opened and verified"},
	{pkg: "./store", name: "FuzzLeafRows", foreign: true, slow: wholeEngine},
	{pkg: "./store", name: "FuzzLockRecord", slow: wholeEngine},
	{pkg: "./store", name: "FuzzLog", foreign: true, slow: "each input is written into a database and a run is loaded from it"},
	{pkg: "./worker", name: "FuzzProtocol", foreign: true, slow: "each input is a request to a pool of its own"},
	{pkg: "./workflow", name: "FuzzParseJSON", foreign: true},
	{pkg: "./workflow", name: "FuzzParseYAML", foreign: true},
}
