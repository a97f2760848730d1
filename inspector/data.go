package inspector

import (
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/api"
	"github.com/pawl-run/pawl/internal/acts"
	"github.com/pawl-run/pawl/internal/state"
	"github.com/pawl-run/pawl/workflow"
)

// A dataData is what the view of the values of a run shows. Each value is nil if the run has none yet, and says that it is not shown to
// those who may not see it.
type dataData struct {
	Input   *shownValue
	State   *shownValue
	Output  *shownValue
	Failure string
	Tenant  string
	Version int
	Files   []shownArtifact
}

// A shownArtifact is an artifact with the address of its content, which is "" where values are redacted.
type shownArtifact struct {
	workflow.Artifact
	Href string
}

// viewData shows the values of a run.
func (v *viewer) viewData() (any, error) {
	snapshot, err := v.snapshot(v.ctx, v.id)
	if err != nil {
		return nil, err
	}
	data := dataData{State: v.valueAt(v.id, "state", snapshot.State, largeValue), Failure: v.failureAt(snapshot.Failure), Tenant: snapshot.Tenant, Version: snapshot.Version}
	if v.rights&api.Values != 0 {
		for i, a := range snapshot.Artifacts { // their names may be values
			data.Files = append(data.Files, shownArtifact{Artifact: a})
			if v.seesTexts() && !v.redacted {
				data.Files[i].Href = v.link("view", "artifact", "n", strconv.Itoa(i))
			}
		}
	}
	if snapshot.Output != nil {
		data.Output = v.valueAt(v.id, "output", snapshot.Output, largeValue)
	}
	// The input is in the message of the first record; no more of the journal is read.
	for r, err := range acts.Records(v.s.engine.Journal(v.ctx, v.id, pawl.EventsOptions{})) {
		if err != nil {
			return nil, err
		}
		if m, ok := r.Message.(state.Start); ok {
			data.Input = v.valueAt(v.id, "input", m.Input, largeValue)
		}
		break
	}
	return data, nil
}

// serveArtifact answers the content of an artifact, as a file to be saved: a browser shows nothing of what a handler has stored. It is no
// frame of a live page: those are kept in memory, whole.
func (v *viewer) serveArtifact() error {
	if v.framed || !v.seesTexts() {
		return errNoPage
	}
	artifacts := v.ov.Artifacts
	if !v.ov.Status.Final() {
		snapshot, err := v.snapshot(v.ctx, v.id)
		if err != nil {
			return err
		}
		artifacts = snapshot.Artifacts
	}
	v.leaveWhole() // the run is read, and the viewer may take long to read the artifact
	n, err := strconv.Atoi(v.r.URL.Query().Get("n"))
	if err != nil || n < 0 || n >= len(artifacts) {
		return errNoPage
	}
	a := artifacts[n]
	content, err := v.s.engine.OpenArtifact(v.ctx, a)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }() // it is only read
	h := v.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(a.Name)}))
	if v.r.Method == http.MethodHead {
		return nil
	}
	if _, err := io.Copy(v.w, content); err != nil {
		panic(http.ErrAbortHandler) // so that nobody takes it for the whole
	}
	return nil
}

// shownFamily bounds the children that a page lists.
const shownFamily = 200

// A familyData is what hangs together with a run: the runs that its subworkflow nodes have started, and those that were forked from it.
// Counts and Total are of at most countedNeeds children, Children of those the first.
type familyData struct {
	Children []runRow
	Counts   []count
	Total    int
	Forks    []runRow
	Diff     string // "" for those who may not compare
	Self     workflow.RunID
}

// viewFamily lists the child runs of a run.
func (v *viewer) viewFamily() (any, error) {
	data := familyData{Diff: textIf(v.seesTexts(), v.pageLink("diff")), Self: v.id}
	t := tally{}
	for r, err := range v.s.engine.Runs(v.ctx, pawl.RunFilter{Parent: v.id, Limit: countedNeeds}) {
		if err != nil {
			return nil, err
		}
		t[runStanding(r.Status)]++
		if len(data.Children) < shownFamily {
			data.Children = append(data.Children, v.rowOf(&r))
		}
	}
	for r, err := range v.s.engine.Runs(v.ctx, pawl.RunFilter{ForkedFrom: v.id, Limit: shownFamily}) {
		if err != nil {
			return nil, err
		}
		data.Forks = append(data.Forks, v.rowOf(&r))
	}
	data.Counts, data.Total = t.Counts(), t.Total()
	return data, nil
}
