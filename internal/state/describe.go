package state

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// maxMessageText bounds the description of a message, in bytes.
const maxMessageText = 400

// MessageName returns the name of a message's type; "" for nil. It is the name under which the journal has the
// message.
func MessageName(m Message) string {
	if m == nil {
		return ""
	}
	return reflect.TypeOf(m).Name()
}

// DescribeMessage describes a message in one line, without its values. Outputs, payloads and inputs are left out:
// they may be large, and need not be for everybody's eyes who sees a list of records. It goes by the names of fields,
// so that a new message is described without a change here.
func DescribeMessage(m Message) string {
	text := MessageName(m)
	if text == "" {
		return text
	}
	v, act := reflect.ValueOf(m), ActOf(m)
	for _, name := range []string{"Token", "Node", "Attempt", "Name", "By", "Status"} {
		if f := v.FieldByName(name); f.IsValid() && !f.IsZero() {
			text += fmt.Sprintf(" %s=%v", strings.ToLower(name), f.Interface())
		}
	}
	// A ballot says by whom it is, and the call that brought it may have been made in another's name.
	switch by := v.FieldByName("By"); {
	case act.By == "" || by.IsValid() && by.String() == act.By:
	case by.IsValid():
		text += " asked=" + act.By // for whoever it is by
	default:
		text += " by=" + act.By
	}
	if act.Reason != "" {
		text += fmt.Sprintf(" reason=%q", act.Reason)
	}
	if f := failureOf(m); f != nil {
		text += " failure=" + f.Error()
	}
	return value.Shorten(text, maxMessageText)
}

// failureOf returns the failure that a message tells, nil if it tells none.
func failureOf(m Message) *workflow.Failure {
	switch f := reflect.ValueOf(m).FieldByName("Failure"); {
	case !f.IsValid() || f.IsZero():
		return nil
	// ChildEnded may lack a failure and has a pointer; TaskFailed always has one.
	case f.Kind() == reflect.Pointer:
		failure, _ := f.Interface().(*workflow.Failure)
		return failure
	default:
		failure, _ := f.Interface().(workflow.Failure)
		return &failure
	}
}

// ActOf returns who has asked for a message, and why; zero if that is not known.
func ActOf(m Message) Act {
	if m == nil {
		return Act{}
	}
	if f := reflect.ValueOf(m).FieldByName("Act"); f.IsValid() {
		act, _ := f.Interface().(Act)
		return act
	}
	return Act{}
}

// TokenOf returns the token that a message is for; 0 if it names none. Messages that may name a node instead, such as
// Retry, have 0 if they do.
func TokenOf(m Message) workflow.TokenID {
	if m == nil {
		return 0
	}
	if f := reflect.ValueOf(m).FieldByName("Token"); f.IsValid() {
		return workflow.TokenID(f.Int())
	}
	return 0
}
