package index

import (
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/decision"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// A BlobRef is a blob that a run refers to: a row of blob_refs.
type BlobRef struct {
	Hash     string
	Artifact bool // only as an artifact
}

// AppendRefs appends the blobs that a record of a run of g refers to: those that come
// with its message, those in the first state if the message starts the run, and
// those that joins have made. Other decisions only pass them on.
func AppendRefs(out []BlobRef, r *decision.Record, g *compiled.Graph) []BlobRef {
	out = appendMessageRefs(out, r.Message)
	if _, ok := r.Message.(state.Start); ok {
		out = appendRefsOf(out, g.Definition.State.Initial)
	}
	for _, d := range r.Decisions {
		if m, ok := d.(decision.MergeBranches); ok && m.Blob {
			out = appendRefsOf(out, m.Value)
		}
	}
	return out
}

// appendMessageRefs appends the blobs that a message itself refers to.
func appendMessageRefs(out []BlobRef, m state.Message) []BlobRef {
	measure := value.Measure{}
	switch m := m.(type) {
	case state.Start:
		measure = m.Measure
	case state.TaskCompleted:
		out, measure = appendReportRefs(out, m.Metadata, m.Artifacts), m.Measure
	case state.TaskFailed:
		out = appendReportRefs(out, m.Metadata, nil)
	case state.RunForked:
		for _, k := range m.Kept {
			out = appendReportRefs(out, k.Metadata, k.Artifacts)
		}
	default: // the others report nothing
	}
	if hasNoRefs(measure) {
		return out
	}
	return appendRefsOf(out, messagePayload(m))
}

// appendReportRefs appends the blobs of what a handler reported beside its output.
func appendReportRefs(out []BlobRef, metadata map[string]any, artifacts []workflow.Artifact) []BlobRef {
	out = appendRefsOf(out, metadata)
	for _, a := range artifacts {
		out = append(out, BlobRef{a.Hash, true})
	}
	return out
}

// hasNoRefs reports whether a value was measured, and has no references.
func hasNoRefs(m value.Measure) bool { return m != (value.Measure{}) && !m.Refs }

// appendRefsOf appends the references in a value. A value that only looks like one,
// as an expression may make it, is passed over: its reader will say so.
func appendRefsOf(out []BlobRef, v any) []BlobRef {
	refs, err := blob.Refs(v)
	if err == nil {
		for _, ref := range refs {
			out = append(out, BlobRef{ref.Hash, false})
		}
		return out
	}
	if ref, err := blob.ParseRef(v); err == nil {
		return append(out, BlobRef{ref.Hash, false})
	}
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			out = appendRefsOf(out, x)
		}
	case []any:
		for _, x := range v {
			out = appendRefsOf(out, x)
		}
	}
	return out
}

// messagePayload returns the value that a message brings, nil if it brings none.
func messagePayload(m state.Message) any {
	switch m := m.(type) {
	case state.Start:
		return m.Input
	case state.TaskCompleted:
		return m.Output
	case state.ChildEnded:
		return m.Output
	case state.Skip:
		return m.Output
	case state.Heartbeat:
		return m.Details
	case state.TaskFailed:
		return m.Details
	case state.TaskSnoozed:
		return m.Details
	case state.Signal:
		return m.Payload
	case state.Ballot:
		return m.Data
	case state.AddBranch:
		return m.Item
	case state.Patch:
		return m.Ops
	case state.RunForked:
		return givenOutputs(m)
	default:
		return nil
	}
}

// givenOutputs returns the results that are given in a fork, or kept there.
func givenOutputs(m state.RunForked) []any {
	var out []any
	for _, r := range m.Results {
		out = append(out, r.Output)
	}
	for _, k := range m.Kept {
		out = append(out, k.Output)
	}
	return out
}
