package api

import (
	"reflect"
	"slices"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/refusal"
)

// A Documented is a type of a body, by the name of its schema.
type Documented struct {
	Name string
	Type reflect.Type
}

// Pages are the types of lists.
var Pages = []Documented{
	{"Error", reflect.TypeFor[errorReply]()},
	{"Batch", reflect.TypeFor[batchReply]()},
	{"Refusal", reflect.TypeFor[refusalReply]()},
	{"Target", reflect.TypeFor[pawl.Target]()},
	{"DiskUses", reflect.TypeFor[diskUses]()},
	{"RunPage", reflect.TypeFor[runPage]()},
	{"TokenPage", reflect.TypeFor[tokenPage]()},
	{"BranchPage", reflect.TypeFor[branchPage]()},
	{"SignalPage", reflect.TypeFor[signalPage]()},
	{"RevisionPage", reflect.TypeFor[revisionPage]()},
	{"EventPage", reflect.TypeFor[eventPage]()},
	{"RecordPage", reflect.TypeFor[recordPage]()},
	{"ApprovalPage", reflect.TypeFor[approvalPage]()},
	{"DefinitionPage", reflect.TypeFor[definitionPage]()},
	{"SchedulePage", reflect.TypeFor[schedulePage]()},
	{"ScheduleEvents", reflect.TypeFor[scheduleEvents]()},
	{"DeadLetterPage", reflect.TypeFor[deadLetterPage]()},
}

// OpenAPI is the document.
var OpenAPI = openAPI

// RouteParams returns the names of the parameters of queries, by the methods and paths of routes.
func RouteParams() map[string][]string {
	out := map[string][]string{}
	for _, r := range routes() {
		out[r.method+" "+r.path] = r.params
	}
	return out
}

// Codes returns the codes of errors.
func Codes() []string {
	out := []string{codeUnauthorized, codeForbidden, codeNotFound, codeMethod, codeNotAccepted}
	for _, r := range refusal.Rows() {
		out = append(out, r.Code)
	}
	return out
}

// ActFields returns which fields acts take besides by and reason, and token and node, which paths name.
func ActFields() map[string][]string {
	out := map[string][]string{}
	for _, v := range acts.All() {
		out[v.Name] = slices.DeleteFunc(v.Fields(), func(name string) bool { return name == "token" || name == "node" })
	}
	return out
}
