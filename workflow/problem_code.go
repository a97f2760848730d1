package workflow

// The codes of a Problem that parsing reports. A code is part of the API: programs go by it. The code of a warning
// says that it is one; with any other a definition is invalid.
const (
	ProblemSyntax       = "syntax"        // the text is not JSON or YAML
	ProblemTooLarge     = "too_large"     // the definition is beyond a limit of the engine
	ProblemUnknownField = "unknown_field" // the format has no such field
	ProblemDuplicateKey = "duplicate_key" // an object has a key twice
	ProblemWrongType    = "wrong_type"    // e.g. a number where a string is needed
	ProblemUnknownValue = "unknown_value" // not one of the values of an enumerated field
)

// The codes of a Problem with one field.
const (
	ProblemMissing      = "missing"       // a field that is needed is not there
	ProblemOutOfRange   = "out_of_range"  // a number or a duration is too small or too large
	ProblemInvalidName  = "invalid_name"  // a name, an id or a code that cannot be one
	ProblemInvalidValue = "invalid_value" // a value that JSON cannot say, or that its schema refuses
	ProblemInvalidField = "invalid_field" // a field that has no meaning where it stands
	ProblemConflict     = "conflict"      // fields that exclude each other
	ProblemSchema       = "schema"        // not a JSON Schema
)

// The codes of a Problem with an expression or a path.
const (
	ProblemExpression       = "expression"        // not an expression, or its types do not fit
	ProblemUnknownVariable  = "unknown_variable"  // there is no such variable
	ProblemUnboundVariable  = "unbound_variable"  // the variable never has a value at this place
	ProblemUnknownReference = "unknown_reference" // warning: an expression names a node or a loop that does not exist
	ProblemLiteralText      = "literal_text"      // warning: a text that is taken as it is looks like an expression
	ProblemInvalidPath      = "invalid_path"      // not a path, or one that cannot be written
	ProblemOverlappingPaths = "overlapping_paths" // two targets of one mapping touch the same place
)

// The codes of a Problem with the graph: what no node or transition shows alone.
const (
	ProblemDuplicateID      = "duplicate_id"      // two nodes or two transitions have the same id
	ProblemDangling         = "dangling"          // an id that no node has
	ProblemUnreachable      = "unreachable"       // warning: no path leads to a node
	ProblemMayMatchNothing  = "may_match_nothing" // warning: a token may end at a node because no condition holds
	ProblemCycle            = "cycle"             // dag: a cycle
	ProblemEndlessCycle     = "endless_cycle"     // warning: a cycle without a bounded loop or an exit
	ProblemUnknownGroup     = "unknown_group"     // a join of a sibling group that nobody spawns
	ProblemUnjoinableGroup  = "unjoinable_group"  // warning: a sibling group that can never be joined
	ProblemHalfRegion       = "half_region"       // warning: cancels names a fan-out and its branches, and not the node that their join leads to
	ProblemDisagreeingJoins = "disagreeing_joins" // joins of one group that differ
	ProblemQuorum           = "quorum"            // a quorum that can never be met
)
