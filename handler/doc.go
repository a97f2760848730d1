// Package handler has ready-made task handlers: Transform evaluates expressions,
// HTTP makes one request, Exec runs one program. The host registers them in its
// pawl.Handlers, under task types of its choice:
//
//	handlers := pawl.Handlers{
//		"transform": handler.Transform(handler.TransformOptions{}),
//		"http":      handler.HTTP(handler.HTTPOptions{Hosts: []string{"api.example.com"}}),
//		"exec":      handler.Exec(handler.ExecOptions{Command: []string{"pdftotext", "--", "{}", "-"}}),
//	}
//
// The input of a task says what it asks for: its fields are those of the node's
// input mapping, and a field that is null counts as absent. An input that the
// handler does not accept fails the task with CodeInvalidInput and a message that
// lists all problems. docs/handlers.md describes inputs, outputs and limits.
//
// A handler is called at least once per task. Transform has no effects. HTTP
// and Exec pass on the task's effect key, and the service or program that they
// call must make a repetition harmless.
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
	// CodeInvalidInput: the handler does not accept the input of the task, or an
	// expression does not compile. Permanent.
	CodeInvalidInput = "invalid_input"
	// CodeExpression: Transform's expression failed on this data. Permanent.
	CodeExpression = workflow.CodeExpression
	// CodeLimit: Transform met a limit of cost, depth or size. Permanent.
	CodeLimit = workflow.CodeLimit
	// CodeHTTPDenied: the options do not allow this URL or address. Permanent.
	CodeHTTPDenied = "http_denied"
	// CodeHTTPNetwork: no answer, or an incomplete one: names, connections, TLS.
	// Retryable.
	CodeHTTPNetwork = "http_network"
	// CodeHTTPTimeout: the exchange took longer than its timeout. Retryable.
	CodeHTTPTimeout = "http_timeout"
	// CodeHTTPBody: the body is not the JSON that its type says, or text that is
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
	// a process that outlived the program. Permanent.
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
