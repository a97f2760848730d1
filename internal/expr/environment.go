package expr

import (
	"fmt"
	"regexp"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"
	"cel.dev/cel-go/parser"
)

// The bounds of the parser.
const (
	maxNodes    = 10_000 // expressions after macros are expanded
	maxNesting  = 100    // expressions inside each other; the checker takes their third power
	maxRecovery = 4      // errors after which the parser gives up
)

// Functions that only rewrite calls; @ cannot be written in a source.
const (
	orderedFunction = "@ordered"
	keyFunction     = "@key"
	anyFunction     = "@any"
	branchFunction  = "@branch"
)

// replaced are the operators of the standard library that are declared anew.
//
// The standard library declares them for single types: it has no overload for int + double, so
// the checker would refuse that, or, if the values are dyn, the evaluation. The declarations
// below have the mixed overloads.
var replaced = []string{
	operators.Add, operators.Subtract, operators.Multiply, operators.Divide, operators.Modulo,
	operators.Equals, operators.NotEquals,
}

// base is the environment of all expressions, without variables; library holds
// the implementations of its functions by name and by overload. Both are built
// once and never changed.
var (
	base    = newBase()
	library = newLibrary(base)
)

// newBase panics if the environment cannot be made, which no input can cause: it is a mistake
// in this function.
func newBase() *cel.Env {
	subset := env.NewLibrarySubset()
	for _, name := range replaced {
		subset.AddExcludedFunctions(env.NewFunction(name))
	}
	e, err := cel.NewCustomEnv(
		cel.CustomTypeAdapter(adapter{}),
		cel.StdLib(cel.StdLibSubset(subset)),
		cel.OptionalTypes(cel.OptionalTypesVersion(4)),
		cel.EnableErrorOnBadPresenceTest(true),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.EnableHiddenAccumulatorName(true),
		cel.ParserExpressionSizeLimit(-1), // the Compiler checks the bytes
		cel.ParserRecursionLimit(maxNesting),
		cel.ParserErrorRecoveryLimit(maxRecovery),
		cel.ExpressionNodeLimit(maxNodes),
		ext.Bindings(ext.BindingsVersion(0)),
		ext.Strings(ext.StringsVersion(5)),
		ext.Lists(ext.ListsVersion(3)),
		ext.Math(ext.MathVersion(2)),
		ext.Sets(),
		ext.Encoders(ext.EncodersVersion(0)),
		ext.TwoVarComprehensions(),
		cel.Macros(parser.ExistsOneMacroNew), // the library has exists_one alone, and existsOne with two variables
		operatorDeclarations(),
	)
	if err != nil {
		panic(fmt.Sprintf("expr: base environment: %v", err))
	}
	return e
}

// operatorDeclarations declares the operators and the internal functions. They
// have no binding: the metered calls implement them.
//
// The checker needs declarations only. When a program is planned, meterCalls puts the package's
// own operation in place of each call.
func operatorDeclarations() cel.EnvOption {
	a := cel.TypeParamType("A")
	options := []cel.EnvOption{
		cel.Function(orderedFunction, cel.Overload("pawl_ordered", []*cel.Type{a}, cel.DynType)),
		cel.Function(anyFunction, cel.Overload("pawl_any", []*cel.Type{a}, cel.DynType)),
		cel.Function(branchFunction, declareBranch()...),
		cel.Function(keyFunction, cel.Overload("pawl_key", []*cel.Type{a}, a)),
		cel.Function(operators.Add, declareArithmetic("add", additions...)...),
		cel.Function(operators.Subtract, declareArithmetic("subtract", subtractions...)...),
		cel.Function(operators.Multiply, declareArithmetic("multiply")...),
		cel.Function(operators.Divide, declareArithmetic("divide")...),
		cel.Function(operators.Modulo, declareArithmetic("modulo")...),
		cel.Function(operators.Equals, declareEquality("equals")...),
		cel.Function(operators.NotEquals, declareEquality("not_equals")...),
	}
	return func(e *cel.Env) (*cel.Env, error) {
		for _, option := range options {
			if _, err := option(e); err != nil {
				return nil, err
			}
		}
		return e, nil
	}
}

// A signature is the operands and the result of one overload of an operator.
type signature struct{ left, right, result *cel.Type }

var (
	numeric = []signature{
		{cel.IntType, cel.IntType, cel.IntType},
		{cel.UintType, cel.UintType, cel.UintType},
		{cel.DoubleType, cel.DoubleType, cel.DoubleType},
		{cel.IntType, cel.DoubleType, cel.DoubleType},
		{cel.DoubleType, cel.IntType, cel.DoubleType},
	}
	anyList   = cel.ListType(cel.DynType) // [1] + [2.5] is no error
	additions = []signature{
		{cel.StringType, cel.StringType, cel.StringType},
		{cel.BytesType, cel.BytesType, cel.BytesType},
		{anyList, anyList, anyList},
		{cel.TimestampType, cel.DurationType, cel.TimestampType},
		{cel.DurationType, cel.TimestampType, cel.TimestampType},
		{cel.DurationType, cel.DurationType, cel.DurationType},
	}
	subtractions = []signature{
		{cel.TimestampType, cel.TimestampType, cel.DurationType},
		{cel.TimestampType, cel.DurationType, cel.TimestampType},
		{cel.DurationType, cel.DurationType, cel.DurationType},
	}
)

// declareArithmetic declares an operator with the overloads that all five have, and more. The
// slice is capped, so that append copies.
func declareArithmetic(name string, more ...signature) []cel.FunctionOpt {
	return declareOverloads(name, append(numeric[:len(numeric):len(numeric)], more...))
}

// declareEquality takes any two values: numbers are equal across their types, values
// of different types are not equal.
func declareEquality(name string) []cel.FunctionOpt {
	return declareOverloads(name, []signature{{cel.DynType, cel.DynType, cel.BoolType}})
}

// declareBranch declares a function that leaves types as they are, and makes an int a double: c ? 1 : 2.5 has branches of one type then,
// and c ? 1 : "a" has not.
func declareBranch() []cel.FunctionOpt {
	out := []cel.FunctionOpt{cel.Overload("pawl_branch_int", []*cel.Type{cel.IntType}, cel.DoubleType)}
	for _, t := range []*cel.Type{
		cel.DoubleType, cel.StringType, cel.BoolType, cel.NullType, cel.BytesType, cel.TimestampType, cel.DurationType,
		anyList, cel.MapType(cel.DynType, cel.DynType), cel.OptionalType(cel.DynType),
	} {
		out = append(out, cel.Overload("pawl_branch_"+t.TypeName(), []*cel.Type{t}, t))
	}
	return out
}

// declareOverloads gives each overload an id of the package, since ids of the library would
// bind the library's code.
func declareOverloads(name string, signatures []signature) []cel.FunctionOpt {
	var out []cel.FunctionOpt
	for i, s := range signatures {
		id := fmt.Sprintf("pawl_%s_%d", name, i)
		out = append(out, cel.Overload(id, []*cel.Type{s.left, s.right}, s.result))
	}
	return out
}

// newLibrary finds the implementations of all functions of the library: meterCalls takes the
// calls out of the library's hands, and calls these itself, after it has charged for them.
func newLibrary(e *cel.Env) map[string]*functions.Overload {
	out := map[string]*functions.Overload{}
	for _, declared := range e.Functions() {
		bindings, err := declared.Bindings()
		if err != nil {
			panic(fmt.Sprintf("expr: bindings of %s: %v", declared.Name(), err))
		}
		for _, b := range bindings {
			out[b.Operator] = b
		}
	}
	return out
}

// programOptions meter every call and bound the sum.
//
// meterCalls comes before allowNull; they replace different things, calls and attributes. The
// limit ends an evaluation as soon as the sum exceeds it.
func programOptions(costLimit uint64) []cel.ProgramOption {
	return []cel.ProgramOption{
		cel.CustomDecoratorV2(meterCalls),
		cel.CustomDecoratorV2(allowNull),
		cel.CostTracking(prices{}),
		cel.CostLimit(costLimit),
	}
}

// offset is the form of the time zones which are not read from files.
var offset = regexp.MustCompile(`^[+-]?[0-9]{2}:[0-9]{2}$`)

// hasZone reports whether a call is an accessor of a timestamp with a time zone.
//
// The accessors without a zone are in UTC, and need no check.
func hasZone(c interpreter.InterpretableCall) bool {
	if len(c.Args()) != 2 {
		return false
	}
	switch c.Function() {
	case overloads.TimeGetFullYear, overloads.TimeGetMonth, overloads.TimeGetDayOfYear,
		overloads.TimeGetDayOfMonth, overloads.TimeGetDate, overloads.TimeGetDayOfWeek,
		overloads.TimeGetHours, overloads.TimeGetMinutes, overloads.TimeGetSeconds,
		overloads.TimeGetMilliseconds:
		return true
	default:
		return false
	}
}

// checkZone refuses time zones by name: their rules come with the machine.
//
// The database of zones differs from machine to machine and from year to year: a run that is
// replayed elsewhere would decide differently.
func checkZone(v ref.Val) ref.Val {
	switch zone := textOf(v); {
	case zone == "", zone == "UTC", offset.MatchString(zone):
		return nil
	default:
		return types.NewErr("time zone %.40q: only UTC and offsets such as +02:00 are known here", zone)
	}
}
