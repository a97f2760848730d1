package inspector_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/inspector"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/schedule"
	"github.com/pawl-run/pawl/workflow"
)

// askDirectly returns what sends requests as ann to a page of an engine, forms by POST: in virtual time, in which there are no connections.
func askDirectly(t *testing.T, e *pawl.Engine) func(address string, form url.Values) (status int, page string, header http.Header) {
	h := inspector.Handler(e, inspector.Options{Identify: inspector.FromThisMachine("ann", api.All)})
	return func(address string, form url.Values) (int, string, http.Header) {
		method := http.MethodGet
		if form != nil {
			method = http.MethodPost
		}
		r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost/"+address, strings.NewReader(form.Encode()))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String(), w.Header()
	}
}

// threeWaits needs three signals, one after the other.
const threeWaits = "name: waits\nstart: a\nnodes: [{id: a, wait: {event: go}}, {id: b, wait: {event: go}}, {id: c, wait: {event: go}}]\ntransitions: [{from: a, to: b}, {from: b, to: c}]\n"

// A form that is sent twice is done once, and answered in the same way; also if the process has ended in between, of a signal.
// Another form, or one that was left undone, is done.
func TestAFormIsDoneOnce(t *testing.T) {
	s := openShop(t)
	s.start("w", threeWaits, nil)
	ann := s.serve(as("ann", api.All))
	waitsAt := func(node string) {
		t.Helper()
		require.Contains(t, textOf(t, s.see("run/w?view=tokens")), " "+node+" waits for an event")
	}
	waitsAt("a")
	form := wholeFormOf(ann.see("act?do=signal&target=0+w"))
	form.Set("name", "go")
	status, page, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 400, status)
	require.Contains(t, textOf(t, page), "say why")
	form.Set("reason", "paid")
	status, _, first := ann.post("act", form, "same-origin")
	require.Equal(t, 303, status)
	waitsAt("b")
	status, _, second := ann.post("act", form, "same-origin")
	require.Equal(t, 303, status)
	require.Equal(t, first.Get("Location"), second.Get("Location"))
	waitsAt("b")
	status, _, _ = s.serve(as("ann", api.All)).post("act", form, "same-origin")
	require.Equal(t, 303, status)
	waitsAt("b")

	form.Set("reason", "paid twice")
	status, page, _ = ann.post("act", form, "same-origin")
	require.Equal(t, 409, status)
	require.Contains(t, textOf(t, page), "this one was done before, with other fields: nothing more was done")
	require.Contains(t, page, `name="reason" value="paid twice"`)
	waitsAt("b")
	again := wholeFormOf(page)
	again.Set("name", "go")
	again.Set("reason", "paid twice")
	status, _, _ = ann.post("act", again, "same-origin")
	require.Equal(t, 303, status)
	waitsAt("c")
}

// A form that was refused in part is not done once more to the others, and says again which were refused.
func TestAFormRefusedInPartIsDoneOnce(t *testing.T) {
	s := openShop(t)
	s.start("over", "name: short\nstart: a\nsignals: [go]\nnodes: [{id: a}]\n", nil)
	s.start("w", threeWaits, nil)
	ann := s.serve(as("ann", api.All))
	form := wholeFormOf(ann.see("act?do=signal&target=0+w&target=0+over"))
	form.Set("name", "go")
	form.Set("reason", "paid")
	status, first, _ := ann.post("act", form, "same-origin")
	require.Equal(t, 409, status)
	require.Contains(t, textOf(t, first), "1 signalled, 1 refused over run \"over\": the run has ended")
	before := s.journals()
	status, second, header := ann.post("act", form, "same-origin")
	require.Equal(t, 409, status)
	require.Equal(t, first, second)
	require.Equal(t, "text/html; charset=utf-8", header.Get("Content-Type"))
	require.Equal(t, before, s.journals())

	bob := s.serve(as("bob", api.All))
	_, _, _ = bob.post("act", form, "same-origin")
	require.Equal(t, before, s.journals(), "the signal of this form counts once, whoever has its name")
}

// A form by which nothing was done is tried again when it is sent again, alone or for all of a filter.
func TestAFormThatWasRefusedIsTriedAgain(t *testing.T) {
	s := openShop(t)
	s.start("w", "name: short\nstart: a\nnodes: [{id: a, task: f, retry: {maxAttempts: 1, exhausted: park}}]\n", nil)
	ann := s.serve(as("ann", api.All))
	retry := wholeFormOf(ann.see("act?do=retry&target=1+w"))
	retry.Set("reason", "it is up")
	signal := wholeFormOf(ann.see("act?do=signal&all=1&name=go"))
	signal.Set("name", "go")
	signal.Set("reason", "paid")
	for _, form := range []url.Values{retry, signal} {
		status, page, _ := ann.post("act", form, "same-origin")
		require.Equal(t, 409, status)
		require.Contains(t, textOf(t, page), ", 1 refused")
	}
	require.NoError(t, s.engine.Fail(t.Context(), s.key("w", "a"), pawl.TaskError{Code: "boom", Message: "x"}))
	status, page, _ := ann.post("act", retry, "same-origin")
	require.Equal(t, 303, status, page)
	ops := []any{map[string]any{"op": "add", "path": "/signals", "value": []any{"go"}}}
	require.NoError(t, s.engine.Do(t.Context(), "w", pawl.Patch{Base: 1, Ops: ops}))
	status, page, _ = ann.post("act", signal, "same-origin")
	require.Equal(t, 303, status, page)
	before := s.journals()
	for _, form := range []url.Values{retry, signal} {
		status, _, _ := ann.post("act", form, "same-origin")
		require.Equal(t, 303, status)
	}
	require.Equal(t, before, s.journals(), "each was done once")
}

// A second click while the first is under way waits for it, and does not start another run of a schedule, or send another signal.
func TestASecondClickWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{}
		disk.run.Store("")
		e, err := pawl.Open(t.Context(), replays.Dir(t), pawl.Options{Executor: later{}, Codec: disk})
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		_, err = e.Publish(t.Context(), parse(t, threeWaits))
		require.NoError(t, err)
		_, err = e.Schedules().Apply(t.Context(), []schedule.Schedule{{ID: "nightly", Workflow: schedule.Workflow{Name: "waits"}, Every: 24 * time.Hour, Overlap: schedule.OverlapAllow}}, pawl.ApplyOptions{})
		require.NoError(t, err)
		ask := askDirectly(t, e)
		_, page, _ := ask("schedule-act?do=trigger&id=nightly", nil)
		form := wholeFormOf(page)
		form.Set("reason", "now")
		disk.run.Store("nightly") // whose run takes its time to be stored
		answers := make(chan string, 2)
		for range 2 {
			go func() {
				_, _, header := ask("schedule-act", form)
				answers <- header.Get("Location")
			}()
			<-time.After(time.Second)
		}
		synctest.Wait()
		require.Empty(t, answers)
		first := <-answers
		require.Contains(t, first, "schedule?id=nightly&told=")
		require.Equal(t, first, <-answers)
		disk.run.Store("")
		require.Equal(t, 1, countRuns(t, e))

		status, page, _ := ask("schedule-act?do=trigger&id=nightly", nil)
		require.Equal(t, http.StatusOK, status, textOf(t, page))
		form = wholeFormOf(page)
		form.Set("reason", "once more")
		status, page, _ = ask("schedule-act", form)
		require.Equal(t, http.StatusSeeOther, status, textOf(t, page))
		require.Equal(t, 2, countRuns(t, e), "another form starts another run")

		_, page, _ = ask("schedule-act?do=delete&id=nightly", nil)
		form = wholeFormOf(page)
		form.Set("reason", "closed")
		for range 2 {
			status, page, header := ask("schedule-act", form)
			require.Equal(t, http.StatusSeeOther, status, textOf(t, page))
			require.Contains(t, header.Get("Location"), "schedules?told=")
		}
	})
}

func countRuns(t *testing.T, e *pawl.Engine) (n int) {
	t.Helper()
	for _, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		n++
	}
	return n
}

// A form that is too large is answered with the status of the API, the bound and what to do instead.
func TestAFormThatIsTooLarge(t *testing.T) {
	s := openShop(t)
	s.start("w", threeWaits, nil)
	ann := s.serve(as("ann", api.All))
	form := url.Values{"do": {"signal"}, "target": {"0 w"}, "name": {"go"}, "reason": {"paid"}, "value": {`"` + strings.Repeat("x", 2<<20) + `"`}}
	for address, most := range map[string]string{"act": "2,097,152", "schedule-act": "65,536", "theme": "65,536"} {
		status, page, _ := ann.post(address, form, "same-origin")
		require.Equal(t, http.StatusRequestEntityTooLarge, status, address)
		require.Contains(t, textOf(t, page), "the form is too large: it has more than "+most+" bytes as browsers send it, and nothing was done. Act with the command pawl or through the API", address)
	}
	ov, err := s.engine.Overview(t.Context(), "w")
	require.NoError(t, err)
	require.Equal(t, workflow.RunRunning, ov.Status)
}
