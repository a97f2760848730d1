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
	v := reflect.ValueOf(m)
	if act := v.FieldByName("Act"); act.IsValid() && !act.IsZero() {
		text += fmt.Sprintf(" %+v", act.Interface())
	}
	for _, name := range []string{"Token", "Node", "Attempt", "Name", "By", "Status", "Failure"} {
		if f := v.FieldByName(name); f.IsValid() && !f.IsZero() {
			text += fmt.Sprintf(" %s=%v", strings.ToLower(name), f.Interface())
		}
	}
	return value.Shorten(text, maxMessageText)
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
