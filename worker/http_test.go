package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/blob"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/remote"
	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/workflow"
)

const secret = "correct horse"

// A slowBody is read to its end when that channel is closed.
type slowBody struct {
	io.Reader
	end chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		<-b.end
	}
	return n, err
}

// All bodies that are held have a bound together, and those of one caller: who comes beyond is asked to come back, and others are served.
func TestBodiesAreBoundedTogether(t *testing.T) {
	harness.InTurn(t, 4)
	synctest.Test(t, func(t *testing.T) {
		p, _ := newPool(t, Options{Identify: func(r *http.Request) (Caller, error) {
			return Caller{Worker: cmp.Or(r.Header.Get("User"), every), Types: []string{every}}, nil
		}})
		h := p.Handler()
		post := func(who, path string, body io.Reader) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, path, body)
			r.Header.Set("User", who)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		register := func(who, worker string) int {
			return post(who, "/v1/register", strings.NewReader(`{"version": "1.0", "worker": "`+worker+`", "types": ["work"], "capacity": 1}`)).Code
		}
		end := make(chan struct{})
		var open sync.WaitGroup
		full := strings.Repeat(" ", int(p.options.MaxBody))
		hold := func(who string, n int) {
			for range n {
				open.Go(func() { post(who, "/v1/complete", &slowBody{strings.NewReader(full), end}) })
			}
			synctest.Wait()
		}
		hold("ann", mostBodiesOf)
		refused := post("ann", "/v1/heartbeat", strings.NewReader(`{"worker": "ann"}`))
		require.Equal(t, http.StatusServiceUnavailable, refused.Code, refused.Body)
		require.Contains(t, refused.Body.String(), remote.CodeBusy)
		for i := range 600 { // a poll holds no place while it waits, though there are fewer left than these
			id := fmt.Sprint("w", i)
			require.Equal(t, http.StatusOK, register("", id))
			open.Go(func() {
				post("", "/v1/poll", strings.NewReader(`{"version": "1.0", "worker": "`+id+`", "wait": "30s"}`))
			})
		}
		synctest.Wait()
		require.Equal(t, http.StatusOK, register("bob", "bob"))
		hold("bob", mostBodies-mostBodiesOf)
		require.Equal(t, http.StatusServiceUnavailable, register("cid", "cid"))
		close(end)
		open.Wait()
		require.Equal(t, http.StatusOK, register("ann", "ann"))
	})
}

// Every refusal is JSON with a status, a code, and a message that says what to
// do.
func TestRefusals(t *testing.T) {
	p, f := newPool(t, Options{MaxBody: 1000})
	joined(t, p, "ann", 1, "a")
	f.dispatch("a", "k1")
	poll1(t, client(p, "ann", 1))
	complete := func(fields string) string {
		return `{"version": "1.0", "worker": "ann", "key": "k1"` + fields + `}`
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		code, says         string
	}{
		{"POST", "/v1/poll", ``, 400, remote.CodeInvalid, "the body is empty: send one JSON object"},
		{"POST", "/v1/poll", `{`, 400, remote.CodeInvalid, "not the JSON object that this path takes"},
		{"POST", "/v1/poll", `[]`, 400, remote.CodeInvalid, "not the JSON object"},
		{"POST", "/v1/poll", `{"workre": "ann"}`, 400, remote.CodeInvalid, `unknown field "workre"`},
		{"POST", "/v1/poll", `{"WORKER": "ann"}`, 400, remote.CodeInvalid, `unknown field "WORKER"`},
		{"POST", "/v1/poll", `{"worker": "bob", "worker": "ann"}`, 400, remote.CodeInvalid, `the field "worker" is there twice`},
		{"POST", "/v1/poll", `{"worker": "bob", "w\u006frker": "ann"}`, 400, remote.CodeInvalid, `the field "worker" is there twice`},
		{"POST", "/v1/poll", `{"worker": "\ud800"}`, 400, remote.CodeInvalid, "worker: half of a surrogate pair at byte 12"},
		{"POST", "/v1/register", `{"types": ["a", "\uDfff\u0041"], "worker": "ann"}`, 400, remote.CodeInvalid, "types[1]: half of a surrogate pair at byte 17"},
		{"POST", "/v1/poll", `{"wait": "0s", "worker": "` + "ann\xff" + `"}`, 400, remote.CodeInvalid, "worker: string is not UTF-8 at byte"},
		{"POST", "/v1/complete", complete(`, "status": "completed", "artifacts": [{"name": "\udc00"}]`), 400, remote.CodeInvalid, "artifacts[0].name: half of a surrogate pair"},
		{"POST", "/v1/poll", `null`, 400, remote.CodeInvalid, "it is no JSON object"},
		{"POST", "/v1/complete", complete(`, "status": "failed", "error": {"code": "a", "Code": "b", "message": ""}`), 400, remote.CodeInvalid, `unknown field "Code"`},
		{"POST", "/v1/complete", complete(`, "status": "completed", "artifacts": [{"name": "a", "blob": {"$blob": "x", "size": 1, "size": 2}}]`), 400, remote.CodeInvalid, `the field "size" is there twice`},
		{"POST", "/v1/complete", complete(`, "status": "completed", "result": NaN`), 400, remote.CodeInvalid, "not the JSON object that this path takes"},
		{"POST", "/v1/poll", `{"worker": 7}`, 400, remote.CodeInvalid, "worker"},
		{"POST", "/v1/poll", `{"worker": "ann"} {}`, 400, remote.CodeInvalid, "one object per request"},
		{"POST", "/v1/poll", `{"worker": "ann", "wait": "soon"}`, 400, remote.CodeInvalid, `a duration like "30s"`},
		{"POST", "/v1/poll", `{"worker": "ann", "wait": "-1s"}`, 400, remote.CodeInvalid, `a duration like "30s"`},
		{"POST", "/v1/poll", `{"worker": "ann", "max": -1}`, 400, remote.CodeInvalid, "must be positive"},
		{"POST", "/v1/poll", `{"version": "2.0", "worker": "ann"}`, 400, remote.CodeVersion, `send "version": "1.0"`},
		{"POST", "/v1/poll", `{"worker": "bob"}`, 404, remote.CodeUnknownWorker, "register it again"},
		{"POST", "/v1/poll", `{}`, 400, remote.CodeInvalid, "the id of a worker is missing"},
		{"POST", "/v1/poll", `{"worker": "` + strings.Repeat("x", 1000) + `"}`, 413, remote.CodeTooLarge, "more than 1000 bytes: store large results elsewhere and send a resultRef"},
		{"GET", "/v1/poll", ``, 405, remote.CodeMethod, "takes POST, not GET"},
		{"POST", "/v1/status", `{}`, 405, remote.CodeMethod, "takes GET, HEAD, not POST"},
		{"HEAD", "/v1/poll", ``, 405, remote.CodeMethod, "takes POST, not HEAD"},
		{"POST", "/v2/poll", `{}`, 404, remote.CodeVersion, "use the paths under /v1"},
		{"POST", "/poll", `{}`, 404, remote.CodeNotFound, "there are /v1/register"},
		{"POST", "//v1/poll", `{}`, 404, remote.CodeNotFound, "no such path"},
		{"POST", "/v1/register", `{"worker": "ann"}`, 400, remote.CodeInvalid, "name the task types that it takes"},
		{"POST", "/v1/heartbeat", `{"keys": []}`, 400, remote.CodeInvalid, "the id of a worker is missing"},
		{"POST", "/v1/leave", `{}`, 400, remote.CodeInvalid, "the id of a worker is missing"},
		{"POST", "/v1/complete", `{"worker": "ann", "key": "k1", "status": "completed"}`, 400, remote.CodeVersion, `has no version: send "version": "1.0"`},
		{"POST", "/v1/complete", `{"version": "0.9", "worker": "ann"}`, 400, remote.CodeVersion, "this pool speaks 1.0"},
		{"POST", "/v1/complete", `{"version": "1.0", "worker": "ann"}`, 400, remote.CodeInvalid, "send the key of the task"},
		{"POST", "/v1/complete", complete(``), 400, remote.CodeInvalid, `must be "completed", "failed" or "snoozed"`},
		{"POST", "/v1/complete", complete(`, "status": "failed"`), 400, remote.CodeInvalid, `send "error"`},
		{"POST", "/v1/complete", complete(`, "status": "completed", "error": {}`), 400, remote.CodeInvalid, "or no error"},
		{"POST", "/v1/complete", complete(`, "status": "completed", "result": 1, "resultRef": "x"`), 400, remote.CodeInvalid, "send one of them"},
		{"POST", "/v1/complete", complete(`, "status": "completed", "after": "1s"`), 400, remote.CodeInvalid, `the field after: send "status": "snoozed", or no after`},
		{"POST", "/v1/complete", complete(`, "status": "completed", "take": -1`), 400, remote.CodeInvalid, "take is -1"},
		{"POST", "/v1/complete", complete(`, "status": "failed", "error": {}, "result": 1`), 400, remote.CodeInvalid, `the field result: send "status": "completed", or no result`},
		{"POST", "/v1/complete", complete(`, "status": "failed", "error": {}, "resultRef": "x"`), 400, remote.CodeInvalid, "the field resultRef"},
		{"POST", "/v1/complete", complete(`, "status": "failed", "error": {}, "artifacts": [{"name": "x", "blob": {"$blob": "x", "size": 1}}]`), 400, remote.CodeInvalid, "the field artifacts"},
		{"POST", "/v1/complete", complete(`, "status": "failed", "error": {}, "after": "1s"`), 400, remote.CodeInvalid, "the field after"},
		{"POST", "/v1/complete", complete(`, "status": "snoozed", "after": "1s", "result": 1`), 400, remote.CodeInvalid, "the field result"},
		{"POST", "/v1/complete", complete(`, "status": "snoozed", "after": "1s", "resultRef": "x"`), 400, remote.CodeInvalid, "the field resultRef"},
		{"POST", "/v1/complete", complete(`, "status": "snoozed", "after": "1s", "error": {}`), 400, remote.CodeInvalid, `the field error: send "status": "failed", or no error`},
		{"POST", "/v1/complete", complete(`, "status": "completed", "metadata": []`), 400, remote.CodeInvalid, "metadata must be an object"},
		{"POST", "/v1/complete", complete(`, "status": "failed", "error": {}, "metadata": 1`), 400, remote.CodeInvalid, "metadata must be an object"},
		{"POST", "/v1/complete", complete(`, "status": "completed", "run": "other"`), 400, remote.CodeInvalid, `the key is of run "run", not "other"`},
		{"POST", "/v1/complete", complete(`, "status": "completed", "node": "other"`), 400, remote.CodeInvalid, `the key is of node "node", not "other"`},
		{"POST", "/v1/blobs?worker=bob&key=k1", `content`, 409, remote.CodeNotHolder, "drop the result"},
		{"POST", "/v1/blobs?worker=ann&key=k9", `content`, 409, remote.CodeStale, "drop the result"},
		{"POST", "/v1/blobs", `content`, 400, remote.CodeInvalid, "the id of a worker is missing"},
		{"GET", "/v1/blobs", ``, 400, remote.CodeInvalid, "hash: "},
		{"GET", "/v1/blobs?hash=sha256:" + strings.Repeat("0", 64), ``, 404, remote.CodeNotFound, "send the $blob of a reference"},
		{"PUT", "/v1/blobs", ``, 405, remote.CodeMethod, "takes GET, HEAD, POST, not PUT"},
		{"POST", "/v1/complete", `{"version": "1.0", "worker": "bob", "key": "k1", "status": "completed"}`, 409, remote.CodeNotHolder, "drop the result"},
		{"POST", "/v1/complete", `{"version": "1.0", "worker": "bob", "key": "k9", "status": "completed"}`, 409, remote.CodeStale, "drop the result"},
	} {
		status, e := ask(p, c.method, c.path, c.body)
		require.NotNil(t, e, "%s %s", c.path, c.body)
		require.Equal(t, c.status, status, "%s %s: %v", c.path, c.body, e)
		require.Equal(t, status, e.Status)
		require.Equal(t, c.code, e.Code, "%s %s: %v", c.path, c.body, e)
		require.Contains(t, e.Message, c.says)
	}
	require.Empty(t, f.results, "nothing of it did anything")
	require.Len(t, p.Status().Active, 1)
}

// Nobody else may speak for a worker of this process.
func TestInProcessWorkersHaveNoProtocol(t *testing.T) {
	p, f := newPool(t, Options{})
	begun, finish := make(chan bool), make(chan bool)
	require.NoError(t, p.Start(Registration{ID: "here"}, pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) {
		begun <- true
		<-finish
		return "here", nil
	}}))
	f.dispatch("a", "k1")
	<-begun
	for path, body := range map[string]string{
		"register": `"types": ["a"]`, "poll": `"wait": "0s"`, "heartbeat": `"keys": ["k1"]`, "leave": `"version": "1"`,
		"complete": `"version": "1.0", "key": "k1", "status": "completed"`,
	} {
		status, e := ask(p, "POST", "/v1/"+path, `{"worker": "here", `+body+`}`)
		require.Equal(t, 400, status, path)
		require.Contains(t, e.Message, "choose another id")
	}
	finish <- true
	require.NoError(t, p.Drain(t.Context()))
	require.Equal(t, "here", f.result("k1"))
}

// The completion carries version, key, run, node, status, result or reference,
// and metadata.
func TestCompletions(t *testing.T) {
	p, f := newPool(t, Options{})
	joined(t, p, "ann", 9, "a")
	for i, c := range []struct {
		fields string
		want   any
	}{
		{`"version": "1.0", "status": "completed"`, nil},
		{`"version": "1.7", "status": "completed", "result": {"n": 9007199254740992}`, map[string]any{"n": int64(9007199254740992)}},
		{`"version": "1.0", "status": "completed", "run": "run", "node": "node", "result": [1.5]`, []any{1.5}},
		{`"version": "1.0", "status": "completed", "resultRef": "s3://bucket/x"`, map[string]any{"$ref": "s3://bucket/x"}},
	} {
		k := keysOf(9)[i]
		f.dispatch("a", k)
		status, e := ask(p, "POST", "/v1/complete", fmt.Sprintf(`{"worker": "ann", "key": %q, %s}`, k, c.fields))
		require.Nil(t, e)
		require.Equal(t, 200, status)
		require.Equal(t, c.want, f.result(k))
	}
	f.dispatch("a", "m", "x")
	_, e := ask(p, "POST", "/v1/complete", `{"version": "1", "worker": "ann", "key": "m", "status": "completed", "result": 1, "metadata": {"execution_time_ms": 1234}}`)
	require.Nil(t, e)
	require.Equal(t, pawl.Result{Output: int64(1), Metadata: map[string]any{"execution_time_ms": int64(1234)}}, f.result("m"))
	_, e = ask(p, "POST", "/v1/complete", `{"version": "1", "worker": "ann", "key": "x", "status": "failed", "error": {"code": "gone", "message": "no", "retryable": false}}`)
	require.Nil(t, e)
	require.Equal(t, pawl.TaskError{Code: "gone", Message: "no"}, f.result("x"))
	f.dispatch("a", "costly")
	_, e = ask(p, "POST", "/v1/complete", `{"version": "1", "worker": "ann", "key": "costly", "status": "failed", "error": {"message": "no"}, "metadata": {"tokens_used": 7}}`)
	require.Nil(t, e)
	require.Equal(t, map[string]any{"tokens_used": int64(7)}, pawl.ErrorMetadata(f.result("costly").(error)))
	for body, says := range map[string]string{
		`{"worker": "ann", "keys": [], "details": {"x": 1}}`:                                                   `which is not among keys: send it there as well`,
		`{"worker": "ann", "keys": ["x"], "details": {"x": "` + strings.Repeat("x", limits.MaxDetails) + `"}}`: `the details of key "x`,
	} {
		_, e = ask(p, "POST", "/v1/heartbeat", body)
		require.Contains(t, e.Message, says)
	}
	f.dispatch("a", "s")
	_, e = ask(p, "POST", "/v1/complete", `{"version": "1", "worker": "ann", "key": "s", "status": "snoozed", "after": "30s"}`)
	require.Nil(t, e)
	require.Equal(t, pawl.Snooze(30*time.Second), f.result("s"))
	for _, after := range []string{"", "30", "-1s", "soon"} {
		_, e = ask(p, "POST", "/v1/complete", fmt.Sprintf(`{"version": "1", "worker": "ann", "key": "x", "status": "snoozed", "after": %q}`, after))
		require.Equal(t, fmt.Sprintf(`after is %q: send a duration such as "30s"`, after), e.Message)
	}
	for _, after := range []string{"30", "-1s", "soon"} {
		_, e = ask(p, "POST", "/v1/complete", fmt.Sprintf(`{"version": "1", "worker": "ann", "key": "x", "status": "failed", "error": {"retryAfter": %q}}`, after))
		require.Equal(t, fmt.Sprintf(`retryAfter is %q: send a duration such as "30s"`, after), e.Message)
	}
}

// JSON that is no value of a run fails its task for good, and says where it is wrong: refused, it would come again for ever. Metadata of a failure are
// replaced by what is wrong with them.
func TestResultsThatNoRunCanKeep(t *testing.T) {
	p, f := newPool(t, Options{})
	joined(t, p, "ann", 1, "a")
	complete := func(k pawl.Key, fields string) any {
		t.Helper()
		f.dispatch("a", k)
		_, e := ask(p, "POST", "/v1/complete", fmt.Sprintf(`{"version": "1.0", "worker": "ann", "key": %q, %s}`, k, fields))
		require.Nil(t, e, fields)
		return f.result(k)
	}
	for k, tt := range map[pawl.Key]struct{ fields, says string }{
		"number":   {`"result": {"n": [1, 9007199254740993]}`, "result: $.n[1]: "},
		"large":    {`"result": 1e400`, "result: $: "},
		"twice":    {`"result": {"a": 1, "a": 2}`, "result: $.a: key twice in one object at byte 14"},
		"half":     {`"result": {"a": "\ud800"}`, "result: $.a: "},
		"bytes":    {`"result": ["` + "\xff" + `"]`, "result: $[0]: "},
		"deep":     {`"result": ` + strings.Repeat("[", 150) + strings.Repeat("]", 150), "result: $[0][0]"},
		"metadata": {`"result": 1, "metadata": {"a": 1e999}`, "metadata: $.a: "},
		"artifact": {`"artifacts": [{"name": "x", "blob": {"$blob": "md5:1", "size": 1}}]`, `the artifact "x": `},
	} {
		failure, failed := complete(k, `"status": "completed", `+tt.fields).(pawl.TaskError)
		require.True(t, failed, k)
		require.Equal(t, workflow.CodeInvalidResult, failure.Code, k)
		require.Contains(t, failure.Message, tt.says, k)
		require.False(t, failure.Retryable, k)
	}
	spoken := complete("spoken", `"status": "failed", "error": {"code": "gone", "message": "no file \udc80"}`)
	require.Equal(t, pawl.TaskError{Code: "gone", Message: "no file \uFFFD", Retryable: true}, spoken)
	cause := complete("failed", `"status": "failed", "result": null, "error": {"code": "gone"}, "metadata": {"a": 1e999}`).(error)
	require.ErrorAs(t, cause, &pawl.TaskError{})
	require.Contains(t, pawl.ErrorMetadata(cause)["invalid_metadata"], "metadata: $.a: ")
	require.Empty(t, p.Status().Active)
}

// HEAD answers as GET does, without a body.
func TestHead(t *testing.T) {
	p, _ := newPool(t, Options{})
	server := httptest.NewServer(p.Handler())
	defer server.Close()
	for path, status := range map[string]int{
		"/v1/status":              http.StatusOK,
		"/v1/blobs?hash=" + large: http.StatusOK,
		"/v1/blobs?hash=sha256:" + strings.Repeat("0", 64): http.StatusNotFound,
		"/v1/blobs?hash=md5:1":                             http.StatusBadRequest,
	} {
		response, err := server.Client().Head(server.URL + path)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Empty(t, body)
		require.Equal(t, status, response.StatusCode, path)
		require.Equal(t, path == "/v1/blobs?hash="+large, response.Header.Get("Content-Type") == "application/octet-stream", path)
	}
}

// take answers a completion with the next task.
func TestACompletionMayTakeTheNextTask(t *testing.T) {
	p, f := newPool(t, Options{})
	ann := joined(t, p, "ann", 2, "a")
	f.dispatch("a", keysOf(4)...)
	require.Equal(t, []pawl.Key{"k1", "k2"}, poll1(t, ann))
	r := httptest.NewRequest("POST", "/v1/complete", strings.NewReader(p.tagText(`{"version": "1.0", "worker": "ann", "key": "k1", "status": "completed", "take": 2}`)))
	r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, r)
	var a completeReply
	require.NoError(t, json.Unmarshal([]byte(untagText(w.Body.String())), &a))
	require.Equal(t, "accepted", a.Status)
	require.Len(t, a.Tasks, 1, "its capacity leaves one")
	require.EqualValues(t, "k3", a.Tasks[0].Key)
}

// Completions that take the next task, at once, do not take the same, nor what an
// answer on its way has; what a poll was about to return goes with them.
func TestCompletionsTakeDifferentTasks(t *testing.T) {
	p, f := newPool(t, Options{})
	joined(t, p, "ann", 3, "a")
	f.dispatch("a", keysOf(3)...)
	for i := range 2 {
		tasks, _, err := p.pollTasks(t.Context(), want{worker: "ann", most: 1, more: true})
		require.NoError(t, err)
		require.Len(t, tasks, 1)
		require.Equal(t, keysOf(2)[i], tasks[0].Key)
	}
	s := p.queue.workers["ann"]
	waiting := &poll{done: make(chan struct{})}
	waiting.endPoll(s.held["k2"])
	p.polls[s] = waiting
	tasks, _, err := p.pollTasks(t.Context(), want{worker: "ann", most: 1, more: true})
	require.NoError(t, err)
	require.Len(t, tasks, 2)
	require.Equal(t, []pawl.Key{"k2", "k3"}, []pawl.Key{tasks[0].Key, tasks[1].Key})
	require.Empty(t, waiting.items)
}

// An answer has at most 8 MiB of inputs, or one task; the next poll brings the
// rest, which is held until then.
func TestLargeInputsComeInSeveralAnswers(t *testing.T) {
	harness.InTurn(t, 4)
	p, f := newPool(t, Options{})
	ann := joined(t, p, "ann", 20, "a")
	sizes := []int{9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	for i, n := range sizes {
		f.send(pawl.Task{Key: keysOf(20)[i], Type: "a", Input: map[string]any{"x": strings.Repeat("<", n<<20)}})
	}
	var got []pawl.Key
	for _, n := range []int{1, 7, 3} {
		more := poll1(t, ann, got...)
		require.Len(t, more, n)
		got = append(got, more...)
		require.Len(t, p.Status().Active, len(sizes))
	}
	require.Equal(t, keysOf(len(sizes)), got)
	require.Empty(t, poll1(t, ann, got...))
}

func TestTokens(t *testing.T) {
	p, _ := newPool(t, Options{Token: secret})
	for _, c := range []struct {
		header []string
		status int
	}{
		{nil, 401},
		{[]string{"Authorization", "Bearer "}, 401},
		{[]string{"Authorization", "Bearer " + secret + "x"}, 401},
		{[]string{"Authorization", "Basic " + secret}, 401},
		{[]string{"Authorization", secret}, 401},
		{[]string{"Authorization", "Bearer " + secret}, 200},
		{[]string{"Authorization", "bearer " + secret, "From", "192.0.2.1:7", "Host", "pool.example"}, 200},
		{[]string{"Authorization", "Bearer " + secret, "Sec-Fetch-Site", "cross-site"}, 403},
	} {
		status, e := ask(p, "POST", "/v1/leave", `{"worker": "x"}`, c.header...)
		require.Equal(t, c.status, status, "%v", c.header)
		if status == 401 {
			require.Equal(t, remote.CodeUnauthorized, e.Code)
			require.Contains(t, e.Message, "Authorization: Bearer TOKEN")
			require.NotContains(t, e.Message, secret)
		}
	}
	c := client(p, "ann", 1)
	_, err := c.Register(t.Context(), "a")
	require.ErrorContains(t, err, "the token is missing or wrong")
	require.ErrorContains(t, c.Run(t.Context(), pawl.Handlers{"a": func(context.Context, pawl.Task) (any, error) { return nil, nil }}), "unauthorized", "Run does not try for ever")
	c.Token = secret
	_, err = c.Register(t.Context(), "a")
	require.NoError(t, err)
}

func TestWithoutATokenThisMachineIsServed(t *testing.T) {
	p, _ := newPool(t, Options{})
	for _, c := range []struct {
		header []string
		status int
	}{
		{nil, 200},
		{[]string{"From", "[::1]:7", "Host", "localhost:80"}, 200},
		{[]string{"From", "[::ffff:127.0.0.1]:7", "Host", "[::1]"}, 200},
		{[]string{"From", "192.0.2.1:7"}, 403},
		{[]string{"From", "nonsense"}, 403},
		{[]string{"Host", "rebound.example"}, 403}, // a page that made its own name point here
		{[]string{"Origin", "http://page.example"}, 403},
	} {
		status, e := ask(p, "POST", "/v1/leave", `{"worker": "x"}`, c.header...)
		require.Equal(t, c.status, status, "%v %v", c.header, e)
	}
}

func TestListen(t *testing.T) {
	p, _ := newPool(t, Options{})
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "pool.example:0"} {
		_, err := p.Listen(address)
		require.ErrorIs(t, err, ErrTokenNeeded, address)
	}
	_, err := p.Listen("127.0.0.1:none")
	require.ErrorContains(t, err, "serve workers")
	address, err := p.Listen("127.0.0.1:0")
	require.NoError(t, err)
	require.True(t, address.(*net.TCPAddr).IP.IsLoopback())
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &Client{URL: "http://" + address.String() + "/", ID: "ann", HTTP: &http.Client{Transport: transport}}
	_, err = c.Register(t.Context(), "a")
	require.NoError(t, err)
	require.Empty(t, poll1(t, c))

	open, _ := newPool(t, Options{Token: secret})
	for _, address := range []string{"0.0.0.0:0", ":0"} {
		_, err = open.Listen(address)
		require.ErrorIs(t, err, ErrTLSNeeded, address)
	}
	plain, _ := newPool(t, Options{Token: secret, PlainHTTP: true})
	_, err = plain.Listen("0.0.0.0:0")
	require.NoError(t, err)
}

// A host mounts the handler where it likes.
func TestHandlerBehindAPrefix(t *testing.T) {
	p, f := newPool(t, Options{})
	mux := http.NewServeMux()
	mux.Handle("/pool/", http.StripPrefix("/pool", p.Handler()))
	server := httptest.NewServer(mux)
	defer server.Close()
	c := &Client{URL: server.URL + "/pool", ID: "ann", HTTP: server.Client()}
	_, err := c.Register(t.Context(), "a")
	require.NoError(t, err)
	f.dispatch("a", "k1")
	require.Equal(t, []pawl.Key{p.tags.tagKey("ann", "k1")}, poll1(t, c))
}

// After a restart a blob may come before the engine has dispatched its task: it is
// to come again, not to be thrown away.
func TestABlobBeforeTheDispatch(t *testing.T) {
	p, f := newPool(t, Options{})
	joined(t, p, "ann", 1, "a")
	f.know("k1")
	for range 2 {
		status, e := ask(p, "POST", "/v1/blobs?worker=ann&key=k1", "content")
		require.Equal(t, 503, status)
		require.Equal(t, remote.CodeBusy, e.Code)
	}
	status, _ := ask(p, "POST", "/v1/blobs?worker=bob&key=k1", "content")
	require.Equal(t, 409, status, "who was first is the holder")
}

// A blob that cannot be read to its end breaks the connection: no reader takes the part for the whole. A Client
// compares the content with the hash, and needs no broken connection to know of the damage; its errors are those of the
// engine's process.
func TestADamagedBlob(t *testing.T) {
	p, _ := newPool(t, Options{})
	server := httptest.NewServer(p.Handler())
	defer server.Close()
	c := &Client{URL: server.URL, ID: "ann", HTTP: server.Client()}
	read := func(hash string) error {
		content, err := c.Open(t.Context(), blob.Ref{Hash: hash})
		if err == nil {
			defer content.Close()
			_, err = io.ReadAll(content)
		}
		return err
	}
	for hash, want := range map[string]struct {
		is   error
		code string // of the pool's answer; "" if it sent the content
		of   string // the task that returns the error
	}{
		damaged:                             {blob.ErrDamaged, "", workflow.CodeBlobDamaged},
		folder:                              {blob.ErrDamaged, remote.CodeDamaged, workflow.CodeBlobDamaged},
		"sha256:" + strings.Repeat("0", 64): {blob.ErrMissing, remote.CodeNotFound, workflow.CodeBlobMissing},
	} {
		err := read(hash)
		about, refused := &blob.Error{}, &Error{}
		require.ErrorAs(t, err, &about)
		require.Equal(t, hash, about.Hash)
		require.ErrorIs(t, err, want.is)
		require.Equal(t, want.code != "", errors.As(err, &refused), "%v", err)
		require.Equal(t, want.code, refused.Code)
		failed := remote.NewCompletion(pawl.Task{}, nil, err)
		require.Equal(t, want.of, failed.Error.Code)
		require.False(t, *failed.Error.Retryable)
	}
	err := read(broken)
	require.Error(t, err)
	require.NotErrorIs(t, err, blob.ErrDamaged, "the next attempt may have it")

	response, err := server.Client().Get(server.URL + "/v1/blobs?hash=" + damaged)
	if err == nil {
		defer response.Body.Close()
		_, err = io.ReadAll(response.Body)
	}
	require.Error(t, err, "a worker that compares nothing")
}

// A request whose time is over is not told that there is no engine where there is one.
func TestARequestThatEndsHasTheEngine(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	p, _ := newPool(t, Options{})
	for range 100 {
		_, err := p.awaitEngine(over)
		require.NoError(t, err)
	}
	bare := mustNew(Options{NoToken: true})
	_, err := bare.awaitEngine(over)
	require.ErrorIs(t, err, &Error{Code: remote.CodeBusy})
	require.NoError(t, bare.Close(t.Context()))
	_, err = bare.awaitEngine(over)
	require.ErrorIs(t, err, errClosed)
}

func FuzzProtocol(f *testing.F) {
	for _, s := range []struct{ path, body, token string }{
		{"/v1/register", `{"worker": "ann", "types": ["a"], "capacity": 1}`, secret},
		{"/v1/poll", `{"worker": "ann", "holding": ["k1"], "wait": "0s"}`, secret},
		{"/v1/poll", `{"worker": "ann", "max": -1}`, secret},
		{"/v1/heartbeat", `{"worker": "ann", "keys": ["k1", "k9"]}`, secret},
		{"/v1/complete", `{"version": "1.0", "worker": "ann", "key": "k1", "status": "completed", "result": {"a": [1, null]}, "take": 1}`, secret},
		{"/v1/complete", `{"version": "1.0", "worker": "bob", "key": "k1", "status": "failed", "error": {"code": "x", "message": "y"}}`, secret},
		{"/v1/complete", `{"version": "9.0", "worker": "bob", "key": "k1"}`, secret},
		{"/v1/leave", `{"worker": "ann"}`, secret},
		{"/v1/status", ``, secret},
		{"/v2/poll", `{}`, secret},
		{"/v1/poll", `{}`, "wrong"},
		{"/v1/poll", strings.Repeat(" ", 5000), secret},
		{"/v1/complete", strings.Repeat(`{"result":`, 400), secret},
		{"/v1/poll", "\xff\x00", secret},
	} {
		f.Add(s.path, []byte(s.body), s.token)
	}
	f.Fuzz(func(t *testing.T, path string, body []byte, token string) {
		p, engine := newPool(t, Options{Token: secret, MaxBody: 4096, MaxWorkers: 3})
		engine.dispatch("a", keysOf(3)...)
		joined := client(p, "ann", 1)
		joined.Token = secret
		_, err := joined.Register(t.Context(), "a")
		require.NoError(t, err)
		r := httptest.NewRequest("POST", "http://127.0.0.1/", bytes.NewReader(body))
		r.URL.Path, r.RemoteAddr = path, "127.0.0.1:1"
		r.Header.Set("Authorization", "Bearer "+token)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // a poll may wait a minute
		defer cancel()
		r = r.WithContext(ctx)
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, r)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.True(t, json.Valid(w.Body.Bytes()), "%s", w.Body)
		if w.Code != http.StatusOK {
			var e errorReply
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e))
			require.Equal(t, w.Code, e.Error.Status)
			require.Less(t, w.Code, 500, "%s", w.Body)
			require.NotEmpty(t, e.Error.Code)
			require.NotEmpty(t, e.Error.Message)
		}
		if token != secret {
			require.Equal(t, 401, w.Code)
		}
		s := p.Status()
		require.LessOrEqual(t, len(s.Workers), 3)
		require.LessOrEqual(t, s.Queued+len(s.Active)+len(engine.results), 4)
	})
}

// An answer that is not a pool's is an error that says so.
func TestAnswersOfOthers(t *testing.T) {
	for answer, want := range map[string]string{"<html>": "not one of a pool", `{"a": 1}`: "not one of a pool"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, answer)
		}))
		c := &Client{URL: server.URL, ID: "ann", HTTP: server.Client()}
		_, err := c.Register(t.Context(), "a")
		require.ErrorContains(t, err, want)
		server.Close()
	}
	c := &Client{URL: ":", ID: "ann"}
	_, err := c.Register(t.Context(), "a")
	require.ErrorContains(t, err, "it must be the address of the pool")
	c = &Client{URL: "http://pool", ID: "ann", HTTP: &http.Client{Transport: endless{}}}
	_, err = c.Register(t.Context(), "a")
	require.ErrorContains(t, err, "the answer is larger than 67108864 bytes")
}

// endless is a transport to something that answers without an end.
type endless struct{}

func (endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(wanted{context.Background()})}, nil
}
