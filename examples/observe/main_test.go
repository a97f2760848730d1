package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracescollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/telemetry"
	"github.com/pawl-run/pawl/workflow"
)

// asProgram is the environment variable that makes the test binary the program.
const asProgram = "PAWL_OBSERVE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	if load := strings.Fields(os.Getenv(asLoad)); len(load) == 3 {
		if err := runWork(load[0], load[1], load[2] == "true"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// counts are the sums of counters, and how many values histograms have, by name and some labels.
type counts map[string]int64

// add adds a value to a series, of which only these labels count.
func (c counts) add(name string, labels map[string]string, n int64) {
	for _, l := range []string{"pawl.run.status", "pawl.task.outcome", "pawl.task.type"} {
		if v := labels[l]; v != "" {
			name += " " + v
		}
	}
	c[name] += n
}

// wanted are the metrics that journals tell as well.
var wanted = map[string]bool{"pawl.run.started": true, "pawl.run.ended": true, "pawl.task.duration": true, "pawl.commit.records": true}

// A receiver is a collector that takes metrics and traces by OTLP.
type receiver struct {
	*httptest.Server
	got chan counts

	mu    sync.Mutex
	spans []*traces.Span
}

// spansNamed returns how many spans it has got with names that begin so.
func (r *receiver) spansNamed(prefix string) (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if strings.HasPrefix(s.Name, prefix) {
			n++
		}
	}
	return n
}

// takeSpans takes the spans of a request.
func (r *receiver) takeSpans(body []byte) error {
	var request tracescollector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	return nil
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{got: make(chan counts)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err == nil && q.URL.Path == "/v1/traces" {
			if err = r.takeSpans(body); err == nil {
				return
			}
		}
		var request collector.ExportMetricsServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || q.URL.Path != "/v1/metrics" {
			http.Error(w, "this is no request", http.StatusBadRequest)
			return
		}
		select {
		case r.got <- countsOf(&request):
		case <-t.Context().Done():
		case <-q.Context().Done():
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// countsOf returns what a collector is told.
func countsOf(request *collector.ExportMetricsServiceRequest) counts {
	out := counts{}
	for _, r := range request.ResourceMetrics {
		for _, s := range r.ScopeMetrics {
			for _, m := range s.Metrics {
				addMetric(out, m)
			}
		}
	}
	return out
}

func addMetric(out counts, m *metrics.Metric) {
	for _, p := range m.GetSum().GetDataPoints() {
		labels := map[string]string{}
		for _, a := range p.Attributes {
			labels[a.Key] = a.Value.GetStringValue()
		}
		if wanted[m.Name] {
			out.add(m.Name, labels, p.GetAsInt())
		}
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		labels := map[string]string{}
		for _, a := range p.Attributes {
			labels[a.Key] = a.Value.GetStringValue()
		}
		if wanted[m.Name] {
			out.add(m.Name, labels, int64(p.GetCount()))
		}
	}
}

// A process is the program.
type process struct {
	cmd *exec.Cmd
	url string // of its metrics
}

// startProgram starts the program, and returns when it serves.
func startProgram(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, append([]string{"-listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, "%s", &stderr)
	return &process{cmd, strings.TrimSpace(strings.TrimPrefix(line, "metrics "))}
}

// scrape reads the metrics as Prometheus does.
func (p *process) scrape(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	r, err := http.Get(p.url)
	require.NoError(t, err)
	defer r.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r.Body)
	require.NoError(t, err)
	return families
}

// countsOfScrape returns the same figures as Prometheus has them.
func countsOfScrape(families map[string]*dto.MetricFamily) counts {
	out := counts{}
	for _, d := range telemetry.Instruments() {
		if !wanted[d.Name] {
			continue
		}
		for _, m := range families[telemetry.PrometheusName(d)].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[strings.ReplaceAll(l.GetName(), "_", ".")] = l.GetValue()
			}
			out.add(d.Name, labels, int64(m.GetCounter().GetValue())+int64(m.GetHistogram().GetSampleCount()))
		}
	}
	return out
}

// journals returns what the journals in a directory tell.
func journals(t *testing.T, dir string) counts {
	t.Helper()
	e, err := pawl.Open(t.Context(), dir, pawl.Options{Maintenance: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close(context.Background())) }()
	out := counts{}
	types := map[workflow.NodeID]string{"quote": "quote", "ship": "ship"}
	outcomes := map[workflow.EventType]string{
		workflow.EventTaskCompleted: "completed", workflow.EventTaskFailed: "failed", workflow.EventTaskRetrying: "retried", workflow.EventTaskParked: "parked",
	}
	for run, err := range e.Runs(t.Context(), pawl.RunFilter{}) {
		require.NoError(t, err)
		for _, err := range e.Journal(t.Context(), run.Run, pawl.EventsOptions{}) {
			require.NoError(t, err)
			out["pawl.commit.records"]++
		}
		for event, err := range e.Events(t.Context(), run.Run, pawl.EventsOptions{}) {
			require.NoError(t, err)
			switch event.Type {
			case workflow.EventWorkflowStarted:
				out["pawl.run.started"]++
			case workflow.EventWorkflowCompleted:
				out["pawl.run.ended completed"]++
			case workflow.EventWorkflowFailed:
				out["pawl.run.ended failed"]++
			default:
				if o := outcomes[event.Type]; o != "" {
					out["pawl.task.duration "+o+" "+types[event.Node]]++
				}
			}
		}
	}
	return out
}

const orderCount = 20

// A process is killed in the middle of all orders, and another one finishes them. The figures that the collector has got
// of both, and those that Prometheus has read, add up to the journals, and so do the spans.
func TestCountersAddUpToTheJournals(t *testing.T) {
	dir := t.TempDir()
	data, gate := filepath.Join(dir, "data"), filepath.Join(dir, "gate")
	received := newReceiver(t)
	args := []string{"-dir", data, "-gate", gate, "-otlp", received.URL, "-every", "100ms", "-orders", fmt.Sprint(orderCount)}

	first := startProgram(t, args...)
	// All orders but those without an address are being shipped, and each of them waits.
	failed := int64(orderCount / 5)
	atTheGate := func(c counts) bool {
		return c["pawl.task.duration completed quote"] == 3*orderCount && c["pawl.run.ended failed"] == failed && c["pawl.task.duration failed ship"] == failed
	}
	before := settled(t, received, func(c counts) bool {
		return atTheGate(c) && received.spansNamed("start order") == orderCount && received.spansNamed("task quote") == 4*orderCount &&
			received.spansNamed("join") == orderCount && received.spansNamed("task ship") == failed && received.spansNamed("run order") == failed
	})
	require.Equal(t, before, countsOfScrape(first.scrape(t)))
	requireEachMetric(t, first.scrape(t))
	require.NoError(t, first.cmd.Process.Kill())
	require.Error(t, first.cmd.Wait())
	require.Equal(t, journals(t, data), before)

	second := startProgram(t, args...)
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	after := settled(t, received, func(c counts) bool { return c["pawl.run.ended completed"] == orderCount-failed })
	require.Equal(t, after, countsOfScrape(second.scrape(t)))
	checkPrometheus(t, second)
	require.NoError(t, second.cmd.Process.Signal(os.Interrupt))
	go func() { // the last figures
		for range received.got {
		}
	}()
	require.NoError(t, second.cmd.Wait())
	sum := counts{}
	for _, c := range []counts{before, after} {
		for series, n := range c {
			sum[series] += n
		}
	}
	told := journals(t, data)
	require.Equal(t, told, sum)
	checkTraces(t, received, told)
}

// checkTraces checks the spans that the collector has got of both processes: the parent of each is there, and there is one for each run and
// each attempt that journals tell of.
func checkTraces(t *testing.T, r *receiver, told counts) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	known := map[string]bool{"": true}
	for _, s := range r.spans {
		id := string(s.TraceId) + string(s.SpanId)
		require.False(t, known[id], "%s is there twice", s.Name)
		known[id] = true
	}
	names := map[string]int64{}
	for _, s := range r.spans {
		names[s.Name]++
		require.True(t, len(s.ParentSpanId) == 0 || known[string(s.TraceId)+string(s.ParentSpanId)], "the parent of %s is missing", s.Name)
	}
	require.Equal(t, told["pawl.run.started"], names["start order"])
	require.Equal(t, told["pawl.run.ended completed"]+told["pawl.run.ended failed"], names["run order"])
	for _, kind := range []string{"quote", "ship"} {
		attempts := int64(0)
		for series, n := range told {
			if strings.HasPrefix(series, "pawl.task.duration ") && strings.HasSuffix(series, " "+kind) {
				attempts += n
			}
		}
		require.Equal(t, attempts, names["task "+kind], kind)
	}
	require.Equal(t, names["task quote"], names["ask the supplier"])
	require.Equal(t, told["pawl.task.duration completed ship"], names["hand over"])
	require.Equal(t, told["pawl.run.started"], names["join"])
}

// settled returns what the collector has been told when that is reached and tells no more.
func settled(t *testing.T, r *receiver, reached func(counts) bool) (last counts) {
	t.Helper()
	for same := 0; same < 3; {
		select {
		case c := <-r.got:
			if same++; !reached(c) || !equal(c, last) {
				same = 0
			}
			last = c
		case <-time.After(2 * time.Minute):
			require.Fail(t, "the figures are not reached", "%v", last)
		}
	}
	return last
}

func equal(a, b counts) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// requireEachMetric fails unless Prometheus has the metrics that are told at once under the names that PrometheusName has.
func requireEachMetric(t *testing.T, families map[string]*dto.MetricFamily) {
	t.Helper()
	names := map[string]bool{}
	for _, d := range telemetry.Instruments() {
		names[telemetry.PrometheusName(d)] = true
	}
	found := 0
	for name := range families {
		if strings.HasPrefix(name, "pawl_") {
			found++
			require.True(t, names[name], name)
		}
	}
	require.Greater(t, found, 18)
}

// checkPrometheus has Prometheus itself read the program, with the alert rules, if it is installed; PAWL_PROMETHEUS=required fails without.
func checkPrometheus(t *testing.T, p *process) {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil && os.Getenv("PAWL_PROMETHEUS") != "required" {
		t.Log("SKIPPED: Prometheus is not installed")
		return
	}
	require.NoError(t, err)
	dir := t.TempDir()
	target, err := url.Parse(p.url)
	require.NoError(t, err)
	rules, err := filepath.Abs(filepath.Join("..", "..", "dashboards", "rules.yaml"))
	require.NoError(t, err)
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 200ms, evaluation_interval: 200ms}
rule_files: [%s]
scrape_configs: [{job_name: pawl, static_configs: [{targets: [%q]}]}]
`, rules, target.Host), 0o600))
	cmd := exec.CommandContext(t.Context(), binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address=127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	address := ""
	lines := bufio.NewScanner(stderr)
	listens := regexp.MustCompile(`(?:address=|Listening on" address=)"?(127\.0\.0\.1:[1-9][0-9]*)`)
	for address == "" && lines.Scan() {
		if m := listens.FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
	}
	require.NotEmpty(t, address)
	go func() { _, _ = io.Copy(io.Discard, stderr) }()
	awaitPrometheus(t, "http://"+address)
}

// awaitPrometheus waits until Prometheus has what the program tells, and has evaluated all rules without an error.
func awaitPrometheus(t *testing.T, base string) {
	t.Helper()
	ask := func(path string, to any) error {
		r, err := http.Get(base + path)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return errors.New(r.Status)
		}
		return json.NewDecoder(r.Body).Decode(to)
	}
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	late := time.After(5 * time.Minute)
	for {
		var rules struct {
			Data struct {
				Groups []struct {
					Rules []struct{ Name, Health, LastError string }
				}
			}
		}
		var found struct {
			Data struct {
				Result []struct{ Value [2]any }
			}
		}
		query := url.QueryEscape(`sum(pawl_run_ended_total) + sum(pawl_actor_active)`)
		if ask("/api/v1/rules", &rules) == nil && ask("/api/v1/query?query="+query, &found) == nil && len(found.Data.Result) == 1 && len(rules.Data.Groups) == 1 {
			unknown := 0
			for _, r := range rules.Data.Groups[0].Rules {
				require.NotEqual(t, "err", r.Health, "%s: %s", r.Name, r.LastError)
				if r.Health != "ok" {
					unknown++
				}
			}
			if unknown == 0 {
				require.Greater(t, len(rules.Data.Groups[0].Rules), 10)
				return
			}
		}
		select {
		case <-look.C:
		case <-late:
			require.Fail(t, "Prometheus has not evaluated the rules within a minute")
		}
	}
}
