// Package problem has the codes of a workflow.Problem. A code is part of the API: programs go by it. The code of a
// warning says that it is one; with any other a definition is invalid. docs/definition.md lists them for users; a test
// compares the two.
package problem

// The codes of a problem that parsing reports.
const (
	Syntax       = "syntax"        // the text is not JSON or YAML
	TooLarge     = "too_large"     // the definition is beyond a limit of the engine
	UnknownField = "unknown_field" // the format has no such field
	DuplicateKey = "duplicate_key" // an object has a key twice
	WrongType    = "wrong_type"    // e.g. a number where a string is needed
	UnknownValue = "unknown_value" // not one of the values of an enumerated field
)

// The codes of a problem with one field.
const (
	Missing       = "missing"        // a field that is needed is not there
	OutOfRange    = "out_of_range"   // a number or a duration is too small or too large
	InvalidName   = "invalid_name"   // a name, an id or a code that cannot be one
	InvalidValue  = "invalid_value"  // a value that JSON cannot represent, or that its schema refuses
	InvalidField  = "invalid_field"  // a field that has no meaning where it stands
	Conflict      = "conflict"       // fields that exclude each other
	Schema        = "schema"         // not a JSON Schema
	SchemaKeyword = "schema_keyword" // warning: a schema has a keyword that JSON Schema does not know
)

// The codes of a problem with an expression or a path.
const (
	Expression       = "expression"        // not an expression, or its types do not fit
	UnknownVariable  = "unknown_variable"  // there is no such variable
	UnboundVariable  = "unbound_variable"  // the variable never has a value at this place
	UnknownReference = "unknown_reference" // warning: an expression names a node or a loop that does not exist
	UnwrittenState   = "unwritten_state"   // warning: an expression reads a field of the state that nothing writes
	ForbiddenState   = "forbidden_state"   // warning: a field of the state is written that its schema does not allow
	ResultType       = "result_type"       // warning: the result of an expression is never of the type that is needed there
	HandlerType      = "handler_type"      // warning: a mapping or an expression does not fit the types of a task's handler
	HandlerMissing   = "handler_missing"   // warning: no handler performs the task type of a node
	LiteralText      = "literal_text"      // warning: a text that is taken as it is looks like an expression
	InvalidPath      = "invalid_path"      // not a path, or one that cannot be written
	OverlappingPaths = "overlapping_paths" // two targets of one mapping touch the same place
)

// The codes of a problem with the graph: what no node or transition shows alone.
const (
	DuplicateID      = "duplicate_id"      // two nodes or two transitions have the same id
	Dangling         = "dangling"          // an id that no node has
	Unreachable      = "unreachable"       // warning: no path leads to a node
	MayMatchNothing  = "may_match_nothing" // warning: a token may end at a node because no condition holds
	Cycle            = "cycle"             // dag: a cycle
	EndlessCycle     = "endless_cycle"     // warning: a cycle without a bounded loop or an exit
	UnknownGroup     = "unknown_group"     // a join of a sibling group that nobody spawns
	UnjoinableGroup  = "unjoinable_group"  // warning: a sibling group that can never be joined
	HalfRegion       = "half_region"       // warning: cancels names a fan-out and its branches, and not the node that their join leads to
	DisagreeingJoins = "disagreeing_joins" // joins of one group that differ
	Quorum           = "quorum"            // a quorum that can never be met
)
