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

// MessageName returns the name of a message's type; "" for nil.
func MessageName(m Message) string {
	if m == nil {
		return ""
	}
	return reflect.TypeOf(m).Name()
}

// DescribeMessage describes a message in one line, without its values.
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

// TokenOf returns the token that a message is for; 0 if it names none.
func TokenOf(m Message) workflow.TokenID {
	if m == nil {
		return 0
	}
	if f := reflect.ValueOf(m).FieldByName("Token"); f.IsValid() {
		return workflow.TokenID(f.Int())
	}
	return 0
}
