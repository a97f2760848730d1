// Package handler has ready-made task handlers: Transform evaluates expressions,
// HTTP makes one request, Exec runs one program. None of them is there unless
// the host puts it into its pawl.Handlers, under a task type of its choice:
//
//	handlers := pawl.Handlers{
//		"transform": handler.Transform(handler.TransformOptions{}),
//		"http":      handler.HTTP(handler.HTTPOptions{Hosts: []string{"api.example.com"}}),
//		"exec":      handler.Exec(handler.ExecOptions{Command: []string{"pdftotext", "--", "{}", "-"}}),
//	}
//
// The input of a task says what it asks for: its fields are those of the node's
// input mapping, and a field that is null counts as absent. An input that is not
// what the handler takes fails the task with CodeInvalidInput and a message that
// lists all that is wrong. docs/handlers.md describes inputs, outputs and limits.
//
// A handler is called at least once per task. Transform has no effects. HTTP
// and Exec hand the task's effect key on, and what they call must see to it that
// a repetition is harmless.
package handler

import (
	"fmt"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/workflow"
)

// The codes of the errors that the handlers return, all of them as a
// pawl.TaskError. Two families have a number in them: http_3xx, http_4xx,
// http_5xx for the class of a status, and exec_exit_1 to exec_exit_255 for an
// exit status.
const (
	// CodeInvalidInput: the input of the task is not what the handler takes, or
	// an expression does not compile. Permanent.
	CodeInvalidInput = "invalid_input"
	// CodeExpression: Transform's expression failed on this data. Permanent.
	CodeExpression = workflow.CodeExpression
	// CodeLimit: Transform met a limit of cost, depth or size. Permanent.
	CodeLimit = workflow.CodeLimit
	// CodeHTTPDenied: the options do not allow this URL or address. Permanent.
	CodeHTTPDenied = "http_denied"
	// CodeHTTPNetwork: no answer, or half of one: names, connections, TLS.
	// Retryable.
	CodeHTTPNetwork = "http_network"
	// CodeHTTPTimeout: the exchange took longer than its timeout. Retryable.
	CodeHTTPTimeout = "http_timeout"
	// CodeHTTPBody: the body is not the JSON that it says it is, or text that is
	// not UTF-8. Permanent.
	CodeHTTPBody = "http_body"
	// CodeHTTPTooLarge: the body is above the limit. Permanent.
	CodeHTTPTooLarge = "http_too_large"
	// CodeExecDenied: the options do not allow this program or variable.
	// Permanent.
	CodeExecDenied = "exec_denied"
	// CodeExecStart: the program could not be started. Permanent if it is
	// missing or may not be executed, else retryable.
	CodeExecStart = "exec_start"
	// CodeExecTimeout: the program ran longer than its timeout and was killed.
	// Retryable.
	CodeExecTimeout = "exec_timeout"
	// CodeExecSignal: something else killed the program. Retryable.
	CodeExecSignal = "exec_signal"
	// CodeExecOutput: standard output is not JSON, not UTF-8, or was left open by
	// a process that had gone its own way. Permanent.
	CodeExecOutput = "exec_output"
	// CodeExecTooLarge: standard output is above the limit; the program was
	// killed. Permanent.
	CodeExecTooLarge = "exec_too_large"
)

// permanentError returns an error that no policy retries.
func permanentError(code, format string, args ...any) pawl.TaskError {
	return pawl.TaskError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// retryableError returns an error that a policy of the node retries.
func retryableError(code, format string, args ...any) pawl.TaskError {
	return pawl.TaskError{Code: code, Message: fmt.Sprintf(format, args...), Retryable: true}
}

// positiveOr returns n, or the default if n is not positive.
func positiveOr[N int | int64 | uint64](n, otherwise N) N {
	if n <= 0 {
		return otherwise
	}
	return n
}
