package expr

import (
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"

	"github.com/pawl-run/pawl/internal/pace"
)

// The library charges for a call after it was made, and by figures which do not
// see how large its arguments are. Here every call is replaced by one that
// charges first; work whose size cannot be told before is charged as it is done.
// The sum never depends on how a value is represented, only on the value.

// A meter charges the evaluation that is under way. The zero meter is free.
//
// The tracker is the library's count for this evaluation, id the call that is charged for. The
// methods that charge are called by operations as they go, and need not look at the limit:
// chargeUnits does not return once it is exceeded.
type meter struct {
	tracker *cost.Tracker
	id      int64
}

// chargeUnits adds n units. The library ends the evaluation, by a panic that it
// recovers itself, once the sum exceeds the limit.
// One unit is what nearly every call charges, and Qualify adds one without a detour.
func (m meter) chargeUnits(n int) {
	switch {
	case m.tracker == nil || n <= 0:
	case n == 1:
		m.tracker.Qualify(m.id)
	default:
		m.tracker.EvalUnary(nil, m.id, surcharge{}, types.Int(n), nil)
	}
}

// A surcharge is the call by which a meter tells the tracker a price.
type surcharge struct{}

const surchargeName = "@charge"

// Function implements cost.Call.
func (surcharge) Function() string { return surchargeName }

// OverloadID implements cost.Call.
func (surcharge) OverloadID() string { return surchargeName }

// prices tell the tracker the price of a surcharge; all else has the price that
// the library gives it.
type prices struct{}

// CallCost implements cost.ActualCostEstimator.
func (prices) CallCost(function, _ string, args []ref.Val, _ ref.Val) *uint64 {
	if function != surchargeName {
		return nil
	}
	n := uint64(args[0].(types.Int))
	return &n
}

// bytesPerUnit is how much of a string is touched for one unit.
const bytesPerUnit = 10

// chargeText charges for touching the bytes of v, if it is a string.
func (m meter) chargeText(v ref.Val) {
	switch v := v.(type) {
	case types.String:
		m.chargeUnits(len(v) / bytesPerUnit)
	case types.Bytes:
		m.chargeUnits(len(v) / bytesPerUnit)
	}
}

// An operation is what a call does. One of the fields is set for the number of
// arguments that the call has; many takes any number.
//
// It returns noOverload for arguments that it is not for, as the library does.
type operation struct {
	one  func(m meter, a ref.Val) ref.Val
	two  func(m meter, a, b ref.Val) ref.Val
	many func(m meter, args []ref.Val) ref.Val
}

// meterCalls replaces the calls in a plan, as a decorator of the library.
//
// Calls are replaced when a program is planned, once. NotStrictlyFalse, by which macros such as
// all stop early, must see the errors of its arguments and stays the library's.
func meterCalls(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	c, ok := i.(interpreter.InterpretableCall)
	if !ok {
		return i, nil
	}
	switch c.Function() {
	case operators.NotStrictlyFalse, operators.OldNotStrictlyFalse: //nolint:staticcheck // old plans still hold it
		return i, nil // takes errors as arguments
	}
	return &call{InterpretableV2: i, args: c.Args(), function: c.Function(), operation: operationOf(c)}, nil
}

// operationOf returns the package's own operation, or that of the library.
//
// It looks up the price, the implementation, and whether a time zone has to be checked,
// so that no evaluation has to.
func operationOf(c interpreter.InterpretableCall) operation {
	if c.Function() == matchesFunction {
		return matchOperation(c.Args())
	}
	if op, ok := operations[c.Function()]; ok {
		return op
	}
	price, zoned := surcharges[c.Function()], hasZone(c)
	// A call whose overload is chosen at run time has no id of one: it is known by its function.
	o, ok := library[c.OverloadID()]
	if !ok {
		o, ok = library[c.Function()]
	}
	if !ok {
		o = &functions.Overload{}
	}
	ofInts := integral[c.Function()]
	return operation{many: func(m meter, args []ref.Val) ref.Val {
		if price != nil {
			price(m, args)
		}
		if ofInts != nil {
			if v := ofInts(args); v != nil {
				return v
			}
		}
		if zoned {
			if err := checkZone(args[1]); err != nil {
				return err
			}
		}
		return callLibrary(c, o, args)
	}}
}

// callLibrary calls an implementation of the library, as the library would.
//
// The library has a function of one, of two or of any number of arguments, or asks the first
// argument itself, if that is a receiver. A trait that is missing means that the overload is
// not for these arguments.
func callLibrary(c interpreter.InterpretableCall, o *functions.Overload, args []ref.Val) ref.Val {
	fits := o.OperandTrait == 0 || len(args) > 0 && args[0].Type().HasTrait(o.OperandTrait)
	switch {
	case fits && o.Unary != nil && len(args) == 1:
		return o.Unary(args[0])
	case fits && o.Binary != nil && len(args) == 2:
		return o.Binary(args[0], args[1])
	case fits && o.Function != nil:
		return o.Function(args...)
	case len(args) > 0 && args[0].Type().HasTrait(traits.ReceiverType):
		return args[0].(traits.Receiver).Receive(c.Function(), c.OverloadID(), args[1:])
	default:
		return types.NewErr("no such overload: %s", c.Function())
	}
}

// A call evaluates its arguments, charges for them, and does its operation. The
// embedded plan gives only the id: the type must not offer more, or else the
// library would take it for a call of its own.
type call struct {
	interpreter.InterpretableV2
	function  string
	args      []interpreter.InterpretableV2
	operation operation
}

// Eval implements interpreter.InterpretableV2.
func (c *call) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

// Exec implements interpreter.InterpretableV2.
// The unit for the call comes before its arguments are evaluated, so that deep nesting is paid
// for on the way down.
func (c *call) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	m := meter{frame.CostTracker(), c.ID()}
	m.chargeUnits(1)
	// Cost is the measure of how long this takes: by it the evaluation steps back for others.
	if m.tracker != nil {
		pace.At(m.tracker.ActualCost())
	}
	switch {
	case len(c.args) == 1 && c.operation.one != nil:
		return c.execUnary(m, frame)
	case len(c.args) == 2 && c.operation.two != nil:
		return c.execBinary(m, frame)
	default:
		return c.execVariadic(m, frame)
	}
}

// execUnary and execBinary spare the slice of arguments, as most calls have one or two. An
// argument that is an error is the result, as CEL has it.
func (c *call) execUnary(m meter, frame *interpreter.ExecutionFrame) ref.Val {
	a := c.args[0].Exec(frame)
	if types.IsUnknownOrError(a) {
		return a
	}
	m.chargeText(a)
	return c.labelError(c.operation.one(m, a))
}

func (c *call) execBinary(m meter, frame *interpreter.ExecutionFrame) ref.Val {
	a := c.args[0].Exec(frame)
	if types.IsUnknownOrError(a) {
		return a
	}
	b := c.args[1].Exec(frame)
	if types.IsUnknownOrError(b) {
		return b
	}
	m.chargeText(a)
	m.chargeText(b)
	return c.labelError(c.operation.two(m, a, b))
}

// execVariadic does a call with any other number of arguments.
func (c *call) execVariadic(m meter, frame *interpreter.ExecutionFrame) ref.Val {
	args := make([]ref.Val, len(c.args))
	for i, arg := range c.args {
		args[i] = arg.Exec(frame)
		if types.IsUnknownOrError(args[i]) {
			return args[i]
		}
		m.chargeText(args[i])
	}
	if c.operation.many == nil {
		return c.labelError(noOverload)
	}
	return c.labelError(c.operation.many(m, args))
}

// noOverload is an error that the library shares between all evaluations.
var noOverload = types.NoSuchOverloadErr()

// labelError gives an error its place. The shared one must not be written to.
func (c *call) labelError(v ref.Val) ref.Val {
	if v == noOverload {
		return types.NewErrWithNodeID(c.ID(), "no such overload: %s", c.function)
	}
	return types.LabelErrNode(c.ID(), v)
}
