package inspector

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/compiled"
	"github.com/pawl-run/pawl/internal/diagram"
	"github.com/pawl-run/pawl/internal/differ"
	"github.com/pawl-run/pawl/workflow"
)

// A definitionData is a definition of a run: drawn, as JSON, and by how it differs from the revision before. Size is in bytes, and may be
// more than Text has.
type definitionData struct {
	difference

	Text      string
	Size      int
	Revision  int
	Of        int         // revisions
	Revisions []choiceRow // the other ones, and this; none of a run that was never patched
	Patch     []actLink
}

// A changeRow is something in which a definition differs from another one.
type changeRow struct {
	Word   string // added, removed, changed
	What   string // a node, a transition; "" of the definition itself
	Name   string
	Fields []fieldRow
}

// A fieldRow is a field that differs; Before or After is "" where the definition had or has no such field.
type fieldRow struct{ Name, Before, After string }

// The bounds of texts of a definition in a page.
const (
	maxDefinitionText = 96 << 10
	maxFieldText      = 400
	shownRevisions    = 50
)

// viewDefinition shows what the run executes or, for a revision, the definition of that and the changes that came with it.
//
// Revision 1 is what the run was started with, and each patch makes another one.
func (v *viewer) viewDefinition() (any, error) {
	revision := v.ov.Revision
	if text := v.r.URL.Query().Get("revision"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > v.ov.Revision {
			return nil, errNoPage
		}
		revision = n
	}
	g, err := v.revisionOf(revision)
	if err != nil {
		return nil, err
	}
	text, size, err := definitionText(g.Definition)
	if err != nil {
		return nil, err
	}
	data := definitionData{Text: text, Size: size, Revision: revision, Of: v.ov.Revision}
	if data.Of > 1 {
		for n := max(1, data.Of-shownRevisions+1); n <= data.Of; n++ {
			data.Revisions = append(data.Revisions, choiceRow{Value: v.link("view", "definition", "revision", strconv.Itoa(n)), Text: strconv.Itoa(n), Chosen: n == revision})
		}
	}
	// A run that has ended is not patched any more.
	if !v.ov.Status.Final() {
		data.Patch = v.actLinks(pawl.Target{Run: v.id}, "patch")
		for _, link := range data.Patch {
			data.Patch = append(data.Patch, actLink{Text: "Migrate to the latest version…", Href: link.Href + "&to=latest"})
		}
	}
	link := func(id workflow.NodeID) string { return v.link("view", "tokens", "node", string(id)) }
	if revision == 1 {
		data.picture = v.drawGraph(g, nil, link)
		return data, nil
	}
	// Later revisions are drawn with what came with them.
	before, err := v.revisionOf(revision - 1)
	if err == nil {
		data.difference, err = v.drawDifference(before, g, nil, link)
	}
	return data, err
}

// definitionText returns a definition as JSON that people read, in short, and how long it is.
//
// < and > are not escaped here: the template escapes what HTML needs.
func definitionText(d *workflow.Definition) (text string, size int, err error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(d)
	return shortText(b.String(), maxDefinitionText), b.Len(), err
}

// revisionOf returns the compiled definition that the run had at a revision.
//
// That of now is graphOf; earlier ones are read from the run, compiled, and kept likewise.
func (v *viewer) revisionOf(revision int) (*compiled.Graph, error) {
	if revision == v.ov.Revision {
		return v.graphOf()
	}
	key := graphKey{v.lifeOf(), revision}
	if g, ok := v.s.graphs.find(key); ok {
		return g, nil
	}
	d, err := v.s.engine.Revision(v.ctx, v.id, revision)
	if err != nil {
		return nil, err
	}
	g, err := compiled.Compile(compiled.Boundless(), d)
	if err != nil {
		return nil, err
	}
	return v.s.graphs.keepValue(key, g), nil
}

// A difference is a definition drawn with what it has in common with an earlier one, and with what it has no more.
//
// If not all changes are listed, Kinds says how many there are of each kind, and Listed which part this is.
type difference struct {
	picture

	Changes []changeRow
	Kinds   []kindCount // of all changes, where not all are listed
	Listed  listPart
}

// A kindCount says how many changes are of a kind.
type kindCount struct {
	Word string
	N    int
}

// drawDifference draws a difference, and says it in words: if there are many changes, those that the query of the page chooses.
//
// Revisions of a run, versions that are published, and a patch that is about to be made are all shown in this way.
func (p *page) drawDifference(before, after *compiled.Graph, run *diagram.Run, link func(workflow.NodeID) string) (out difference, err error) {
	changes, err := workflow.CompareDefinitions(before.Definition, after.Definition)
	if err != nil {
		return out, err
	}
	out.picture = p.drawPicture(p.keyOf(run, link, before, after), link, func() *diagram.Diagram {
		return diagram.NewDifference(before, after, changes, run)
	})
	q := p.r.URL.Query()
	q.Del("told") // what was done is told once
	// The page is itself with another parameter, whatever it is the page of.
	another := func(from string) string {
		q.Set("changes", from)
		return "?" + q.Encode()
	}
	if p.isForm() { // which may be too long for an address
		another = nil
	}
	if out.Listed = p.partOf("changes", len(changes), another); !out.Listed.Whole() {
		out.Kinds = countKinds(changes)
	}
	for _, c := range changes[out.Listed.From-1 : out.Listed.To] {
		out.Changes = append(out.Changes, rowOfChange(&c))
	}
	return out, nil
}

// countKinds counts changes by kind, in the order added, removed, changed; kinds without changes are left out.
func countKinds(changes []workflow.DefinitionChange) (out []kindCount) {
	for _, kind := range []workflow.ChangeKind{workflow.ChangeAdded, workflow.ChangeRemoved, workflow.ChangeChanged} {
		n := 0
		for i := range changes {
			if changes[i].Kind == kind {
				n++
			}
		}
		if n > 0 {
			out = append(out, kindCount{string(kind), n})
		}
	}
	return out
}

// rowOfChange describes a change of a node, of a transition, or of the definition itself.
func rowOfChange(c *workflow.DefinitionChange) changeRow {
	row := changeRow{Word: string(c.Kind)}
	switch {
	case c.Node != "":
		row.What, row.Name = "node", string(c.Node)
	case c.Transition != "":
		row.What, row.Name = "transition", string(c.Transition)
	}
	for _, f := range c.Fields {
		row.Fields = append(row.Fields, fieldOf(&f))
	}
	return row
}

// fieldOf returns how a field differs; for long texts it returns the part around the first difference.
//
// Two texts of many characters that differ at the end would both be cut to what they have in common. So both are cut at the same place: a
// quarter of the room shows what they share, and the rest what follows.
func fieldOf(f *workflow.FieldChange) fieldRow {
	before, after := []rune(string(f.Before)), []rune(string(f.After))
	same := 0
	// Characters are compared, so that none is cut in two.
	for same < min(len(before), len(after)) && before[same] == after[same] {
		same++
	}
	from := 0
	if max(len(before), len(after)) > maxFieldText {
		from = max(0, same-maxFieldText/4)
	}
	cut := func(text []rune) string {
		if from == 0 {
			return shortText(string(text), maxFieldText)
		}
		return shortText("…"+string(text[from:]), maxFieldText)
	}
	return fieldRow{f.Field, cut(before), cut(after)}
}

// migrationOf returns the operations of a patch that make of the definition of a run the latest one that is published under its name.
//
// A node or transition that differs is replaced as a whole. The error is errAct if there is nothing to change, or nothing is published.
func (s *server) migrationOf(p *page, id workflow.RunID) (string, error) {
	has, _, err := s.engine.Definition(p.r.Context(), id)
	if err != nil {
		return "", err
	}
	latest, err := s.engine.Published(p.r.Context(), has.Name, 0)
	if errors.Is(err, pawl.ErrNotPublished) {
		return "", fmt.Errorf("%w: no definition is published under the name %s", errAct, has.Name)
	}
	if err != nil {
		return "", err
	}
	ops, err := differ.FindOperations(has, latest)
	if err != nil {
		return "", err
	}
	if len(ops) == 0 {
		return "", fmt.Errorf("%w: the run has the latest version of %s already", errAct, has.Name)
	}
	text, err := json.MarshalIndent(ops, "", " ")
	return string(text), err
}
