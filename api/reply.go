package api

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/history"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/crowd"
	"github.com/pawl-run/pawl/internal/hiding"
	"github.com/pawl-run/pawl/internal/refusal"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/replay"
	"github.com/pawl-run/pawl/workflow"
)

const (
	typeJSON   = "application/json"
	typeLines  = "application/x-ndjson"
	typeStream = "text/event-stream"

	readTime  = 30 * time.Second // for a body
	writeTime = time.Minute      // for an answer, and for each part of a stream
)

// partTime returns how long a caller may take for a part of an answer. On the socket that is long: a person may read it in a
// pager, and the connection breaks when the program ends.
func (s *server) partTime() time.Duration {
	if s.local {
		return blobTime
	}
	return writeTime
}

// encodeJSON returns a value as one line, with its line feed.
func encodeJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // it is never put into a page as it is
	err := e.Encode(v)
	return text.Bytes(), err
}

// reply answers a request.
func (c *call) reply(v any) error { return c.replyStatus(http.StatusOK, v) }

func (c *call) replyStatus(status int, v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	writeBody(c.w, status, typeJSON, text)
	return nil
}

// replyTagged answers about a run with a tag of what it says. A caller who has it already gets status 304. The tag is a hash of the body,
// so it needs no version of the run, is right for what each caller sees (rights and Redact change the body), and survives a restart. It
// saves sending, not reading: the run is read before the tag is known. A PUT is always answered in full, since its status says whether a
// run was made.
func (c *call) replyTagged(status int, v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	c.w.Header().Set("ETag", tag)
	if c.r.Method != http.MethodPut && c.hasTag(tag) {
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	writeBody(c.w, status, typeJSON, text)
	return nil
}

// hasTag reports whether the caller has an answer already. A proxy that packs answers weakens their tags.
func (c *call) hasTag(tag string) bool {
	for _, line := range c.r.Header.Values("If-None-Match") {
		for one := range strings.SplitSeq(line, ",") {
			if strings.TrimPrefix(strings.TrimSpace(one), "W/") == tag {
				return true
			}
		}
	}
	return false
}

// writeBody writes an answer with its status and its headers. All answers but streams, lines and exports go through it, whole, with their
// length: a caller sees a broken connection as an answer that is too short.
func writeBody(w http.ResponseWriter, status int, kind string, text []byte) {
	setHeaders(w, kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	crowd.SetWriteTimeout(w, writeTime)
	w.WriteHeader(status)
	_, _ = w.Write(text) // who is gone asks again
}

// setHeaders sets the headers that every answer has, whatever its type. no-store keeps the values of runs out of caches on the way; Vary
// is there because one path answers JSON, lines or a stream by Accept.
func setHeaders(w http.ResponseWriter, kind string) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
}

// An errorReply is the body of a refusal.
type errorReply struct {
	Error *Error      `json:"error"`
	Batch *batchReply `json:"batch,omitzero"` // what was done until then, of a batch that the error has ended
}

// writeError answers with an error. Nothing may have been written before: a serve function that has begun its answer tells the error in
// it and returns nil. Where nothing was done it says after how many seconds to come back.
func (c *call) writeError(err error) {
	w, e := c.w, c.viewerOf("").showRefusal(err)
	text, _ := encodeJSON(errorReply{e, e.batch}) // texts and numbers
	if again := refusal.RetryAfter(err); again != "" {
		w.Header().Set("Retry-After", again)
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
	}
	writeBody(w, e.Status, typeJSON, text)
}

// acceptsType reports whether the caller asks for a type of answer, and for it before others that the path has: that of the highest
// weight, and of equal ones the first. The type must be named: */* means JSON, which a browser or curl gets, as does a caller who accepts
// nothing that there is.
func (c *call) acceptsType(kind string, before ...string) bool {
	weight, at := c.weightOf(kind)
	for _, other := range before {
		if w, n := c.weightOf(other); w > weight || w == weight && n < at {
			return false
		}
	}
	return weight > 0
}

// weightOf returns how much the caller wants a type, from 0 to 1, and at which entry of Accept; JSON by a wildcard comes behind all that
// is named.
func (c *call) weightOf(kind string) (weight float64, at int) {
	entries := strings.Split(strings.Join(c.r.Header.Values("Accept"), ","), ",")
	at = len(entries)
	for i, one := range entries {
		media, params, err := mime.ParseMediaType(one)
		if err != nil {
			continue
		}
		w, _ := strconv.ParseFloat(cmp.Or(params["q"], "1"), 64) // what is no number accepts nothing
		switch {
		case media == kind:
			return w, i
		case kind == typeJSON && (media == "*/*" || media == "application/*"):
			weight = max(weight, w)
		}
	}
	return weight, at
}

// replyLines answers with a list, one entry a line. An error that comes when something was written is its last line. The list is read while
// it is sent and is never in memory as a whole. The status is 200 once the first line is out, so a later error can only be a line;
// decodeLine of the Client knows it by its first bytes. An error before that is returned, and answered with its own status. A limit of the
// query bounds the entries; without one there is no bound, as a list is read while it is sent.
func (c *call) replyLines(list iter.Seq2[any, error]) error {
	begun, most := false, 0
	if q := c.query(); q.textOf("limit") != "" {
		most = q.limit()
	}
	if c.r.Method == http.MethodHead {
		most = 1 // which tells the status
	}
	for x, err := range firstOf(list, most) {
		var text []byte
		if err == nil {
			text, err = encodeJSON(x)
		}
		if err != nil && !begun {
			return err
		}
		if err != nil {
			text, _ = encodeJSON(errorReply{Error: c.viewerOf("").showRefusal(err)})
		}
		if !begun {
			begun = true
			setHeaders(c.w, typeLines)
		}
		crowd.SetWriteTimeout(c.w, c.partTime())
		if _, gone := c.w.Write(text); gone != nil || err != nil {
			return nil
		}
		crowd.SetWriteTimeout(c.w, 0) // the next entry may be far
	}
	if !begun {
		writeBody(c.w, http.StatusOK, typeLines, nil)
	}
	return nil
}

// mapList returns a list with each entry as it is shown. It ends after an error, even if the reader goes on.
func mapList[T any](list iter.Seq2[T, error], show func(*T) any) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		for x, err := range list {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(show(&x), nil) {
				return
			}
		}
	}
}

// keepEntries leaves out entries of a list. It is how a page begins behind its cursor in a list
// that the engine gives from the beginning. Errors always pass.
func keepEntries[T any](list iter.Seq2[T, error], keep func(*T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for x, err := range list {
			if (err != nil || keep(&x)) && !yield(x, err) {
				return
			}
		}
	}
}

// firstEntries returns the entries of a list up to the first that does not belong to it. For lists in sequence that are read as of a
// record: nothing behind it is looked at, where keepEntries would read the list to its end.
func firstEntries[T any](list iter.Seq2[T, error], belongs func(*T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for x, err := range list {
			if err == nil && !belongs(&x) || !yield(x, err) {
				return
			}
		}
	}
}

// readPage returns at most limit entries of a list, and whether there are more. One entry more than the limit is asked for, and dropped:
// it alone says whether there is a next page, so that no cursor leads to an empty one. An error comes with what was found before it.
func readPage[T any](list iter.Seq2[T, error], limit int) (page []T, more bool, err error) {
	page = []T{} // an empty list is [] in JSON
	for x, err := range list {
		if err != nil {
			return page, false, err
		}
		if len(page) == limit {
			return page, true, nil
		}
		page = append(page, x)
	}
	return page, false, nil
}

// A viewer shows a caller what it may see of a run. The values that it gets belong to the engine; it copies them where it leaves
// something out. Every answer about a run goes through one of its show methods: a new field that holds a value, or a text that may quote
// one, must be left out here, or it is seen by callers without Values. The zero rights see nothing.
type viewer struct {
	run    workflow.RunID
	rights Rights
	redact func(run workflow.RunID, path string, value any) any
}

func (c *call) viewerOf(run workflow.RunID) *viewer {
	return &viewer{run, c.rights, c.options.Redact}
}

// seesTexts reports whether texts are shown in which values may stand. With a hook, texts go too: a message such as "card 4111... is
// declined" has the value in the middle of a sentence, where the hook cannot be asked about it.
func (v *viewer) seesTexts() bool { return v.rights&Values != 0 && v.redact == nil }

// showValue returns a value at a path as it is shown. The hook is asked from the outside in: about "state", then about "state.offer" in
// what it has returned, and so on, so that it can replace a whole object without seeing each leaf. Containers are copied at each level,
// as the originals belong to the engine. nil is not asked about.
func (v *viewer) showValue(path string, x any) any {
	if v.rights&Values == 0 {
		return nil
	}
	if v.redact == nil || x == nil {
		return x
	}
	switch x := v.redact(v.run, path, x).(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for key, member := range x {
			out[key] = v.showValue(path+"."+key, member)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, element := range x {
			out[i] = v.showValue(fmt.Sprintf("%s[%d]", path, i), element)
		}
		return out
	default:
		return x
	}
}

// showObject is showValue for what is an object. An object that the hook has replaced by something
// else than an object is left out, since the field has no other type.
func (v *viewer) showObject(path string, x map[string]any) map[string]any {
	if x == nil {
		return nil
	}
	out, _ := v.showValue(path, x).(map[string]any)
	return out
}

// showFailure returns a failure without its message, unless texts are shown. The code stays, since
// definitions and operators choose by it: docs/api.md says to keep values out of codes.
func (v *viewer) showFailure(f *workflow.Failure) *workflow.Failure {
	if f == nil || v.seesTexts() {
		return f
	}
	return hiding.HideMessages(f)
}

// showOutcome returns an outcome with its output and failure as they are shown. o is a copy, but its maps and the failure are the
// engine's, and are replaced, not changed. Artifacts go with Values.
func (v *viewer) showOutcome(o workflow.Outcome) workflow.Outcome {
	o.Output, o.Failure = v.showObject("output", o.Output), v.showFailure(o.Failure)
	if v.rights&Values == 0 {
		o.Artifacts = nil
	}
	return o
}

func (v *viewer) showSummary(s *pawl.RunSummary) any {
	out := *s
	out.Outcome = v.showOutcome(s.Outcome)
	return out
}

// showToken returns a token as it is shown. The key is a capability: its holder can complete the attempt. So it takes Act, not View.
func (v *viewer) showToken(t *pawl.Token) any {
	out := *t
	out.Input, out.Details = v.showValue("input", t.Input), v.showValue("details", t.Details)
	out.Failure = v.showFailure(t.Failure)
	if v.rights&Act == 0 {
		out.Key = ""
	}
	return out
}

func (v *viewer) showBranch(b *pawl.BranchView) any {
	out := *b
	out.Failure, out.Item = v.showFailure(b.Failure), v.showValue("item", b.Item)
	out.State, out.Output = v.showObject("state", b.State), v.showObject("output", b.Output)
	return out
}

func (v *viewer) showSignal(s *pawl.KeptSignal) any {
	out := *s
	out.Payload = v.showValue("payload", s.Payload)
	return out
}

func (v *viewer) showEvent(e *history.Event) any { return v.eventOf(e) }

// eventOf returns an event as it is shown. Data is cloned even if nothing is left out, as the keys are deleted from it below.
func (v *viewer) eventOf(e *history.Event) history.Event {
	out := *e
	out.Data = maps.Clone(v.showObject("data", e.Data))
	if v.rights&Act == 0 {
		delete(out.Data, "key") // who has that of a task can complete it
	}
	if v.redact == nil {
		return out
	}
	hideMessages(out.Data)
	return out
}

// hideMessages deletes the messages of the failure that the data of an event is or has, and of its causes: they may quote values.
func hideMessages(data map[string]any) {
	delete(data, "message")
	for _, key := range []string{"error", "failure", "cause"} {
		if failure, ok := data[key].(map[string]any); ok {
			failure = maps.Clone(failure)
			hideMessages(failure)
			data[key] = failure
		}
	}
}

func (v *viewer) showApproval(a *pawl.Approval) any {
	out := *a
	out.Input = v.showValue("input", a.Input)
	if !v.seesTexts() {
		out.Message = ""
	}
	return out
}

func (v *viewer) showDeadLetter(l *pawl.DeadLetter) any {
	out := *l
	out.Input, out.Failure = v.showValue("input", l.Input), *v.showFailure(&l.Failure)
	return out
}

// A Record is one record of a run's journal: a message, and what was decided.
type Record struct {
	Seq       int64     `json:"record"`
	At        time.Time `json:"at"`
	Kind      string    `json:"kind"`             // kind of the message, such as TaskCompleted
	By        string    `json:"by,omitzero"`      // who asked for it; "" if unknown
	Reason    string    `json:"reason,omitzero"`  // likewise
	Message   string    `json:"message,omitzero"` // in one line
	Decisions []string  `json:"decisions"`        // in one line each
}

func (v *viewer) showRecord(r *pawl.Record) any { return v.recordOf(r) }

// recordOf returns a record as it is shown. Without texts a record keeps the kind of its message and of each decision, the word before
// the first space, so that View is enough to follow how a run moves.
func (v *viewer) recordOf(of *pawl.Record) Record {
	r := acts.RecordOf(of)
	act := state.ActOf(r.Message)
	out := Record{Seq: r.Seq, At: r.At, Kind: state.MessageName(r.Message), By: act.By, Reason: act.Reason, Decisions: []string{}}
	if v.seesTexts() {
		out.Message = state.DescribeMessage(r.Message)
	}
	for _, d := range r.Decisions {
		text := d.String()
		if !v.seesTexts() {
			text, _, _ = strings.Cut(text, " ")
		}
		out.Decisions = append(out.Decisions, text)
	}
	return out
}

// showNotes returns as it is shown why something was decided. A note has a text in words, which goes, and the readings of a condition,
// which stay where the hook leaves something of them: reads is a new slice, as the one of the note is shared.
func (v *viewer) showNotes(notes []history.Note) []history.Note {
	if v.seesTexts() {
		return notes
	}
	out := make([]history.Note, len(notes))
	for i, n := range notes {
		n.Text = ""
		var reads []history.Reading
		for _, r := range n.Reads {
			if r.Value, _ = v.showValue(r.Path, r.Value).(string); r.Value != "" {
				reads = append(reads, r)
			}
		}
		n.Reads = reads
		out[i] = n
	}
	return out
}

func (v *viewer) showArrival(a *replay.Arrival) *replay.Arrival {
	if a == nil || v.seesTexts() {
		return a
	}
	out := *a
	out.Message, _, _ = strings.Cut(a.Message, " ")
	out.Notes = v.showNotes(a.Notes)
	return &out
}

// showExplanation returns an explanation as it is shown. x is a copy whose slices are not: they are cloned before an
// element is replaced. The failures below are of other runs, so the hook is asked in the name of each.
func (v *viewer) showExplanation(x history.Explanation) history.Explanation {
	x.Failure, x.Failed, x.Waits = v.showFailure(x.Failure), slices.Clone(x.Failed), slices.Clone(x.Waits)
	for i := range x.Failed {
		x.Failed[i].Failure, x.Failed[i].Came = v.showFailure(x.Failed[i].Failure), v.showArrival(x.Failed[i].Came)
		x.Failed[i].Below = slices.Clone(x.Failed[i].Below)
		for j := range x.Failed[i].Below {
			below := &x.Failed[i].Below[j]
			below.Failure = (&viewer{below.Run, v.rights, v.redact}).showFailure(below.Failure)
		}
	}
	for i := range x.Waits {
		w := &x.Waits[i]
		w.Failure, w.Rejected, w.Came = v.showFailure(w.Failure), v.showFailure(w.Rejected), v.showArrival(w.Came)
	}
	return x
}
