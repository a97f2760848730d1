package inspector

import (
	"errors"
	"slices"
	"strconv"

	"github.com/pawl-run/pawl"
	"github.com/pawl-run/pawl/internal/compiled"
)

// The bounds of what is shown of published definitions.
const (
	listedPublished = 1_000 // versions of all names
	shownVersions   = 50    // of one name, around the one that is shown
)

// latestVersion stands in an address for the highest version that is published.
const latestVersion = "latest"

// A publishedRow is a name under which definitions are published.
type publishedRow struct {
	Name, Href string
	Versions   int
	Latest     int
}

// listPublished lists the names under which definitions are published; more is true if there are others.
//
// Definitions come by name, then by version, so that the last version of a name is its latest.
func (s *server) listPublished(p *page) (rows []publishedRow, more bool, err error) {
	n := 0
	for d, err := range s.engine.Definitions(p.r.Context(), pawl.DefinitionFilter{}) {
		if err != nil {
			return nil, false, err
		}
		if n++; n > listedPublished {
			return rows, true, nil
		}
		if len(rows) == 0 || rows[len(rows)-1].Name != d.Name {
			rows = append(rows, publishedRow{Name: d.Name, Href: p.versionLink(d.Name, 0)})
		}
		last := &rows[len(rows)-1]
		last.Versions++
		last.Latest = d.Version
	}
	return rows, false, nil
}

// versionLink leads to a version of a published definition; 0 is the latest.
//
// A link to the latest goes on to lead there when another version is published.
func (p *page) versionLink(name string, version int) string {
	text := latestVersion
	if version > 0 {
		text = strconv.Itoa(version)
	}
	return p.pageLink("definitions", "workflow", name, "version", text)
}

// versionsOf returns the versions that are published under a name, in order.
//
// There are none of a name under which nothing is published.
func (s *server) versionsOf(p *page, name string) (versions []int, err error) {
	for d, err := range s.engine.Definitions(p.r.Context(), pawl.DefinitionFilter{Workflow: name}) {
		if err != nil {
			return nil, err
		}
		versions = append(versions, d.Version)
	}
	return versions, nil
}

// chooseVersions returns links to the versions of a name around the one at an index, which is chosen; -1 if
// none is: then the last ones.
//
// At most shownVersions are offered: of 200 with the one at 100 chosen, those from 75 to 124.
func (p *page) chooseVersions(name string, versions []int, chosen int) (rows []choiceRow) {
	from := chosen - shownVersions/2
	if chosen < 0 {
		from = len(versions)
	}
	from = max(0, min(from, len(versions)-shownVersions))
	for i := from; i < min(from+shownVersions, len(versions)); i++ {
		rows = append(rows, choiceRow{Value: p.versionLink(name, versions[i]), Text: strconv.Itoa(versions[i]), Chosen: i == chosen})
	}
	return rows
}

// A versionBody is a definition that is published.
//
// Runs leads to the runs of this version. The difference has no changes if it is the first version.
type versionBody struct {
	difference // against the version before

	Name      string
	Version   int
	All, Runs string
	Versions  []choiceRow
	Before    int // the version before, 0 of the first
	Text      string
	Size      int
}

// showVersion shows a definition that is published, and what its version changed.
//
// The version before is the next lower one that is published: numbers may be missing between them.
func (s *server) showVersion(p *page, name, text string) error {
	versions, err := s.versionsOf(p, name)
	if err != nil {
		return err
	}
	if len(versions) == 0 {
		return errNoPage
	}
	at := len(versions) - 1
	if text != latestVersion {
		version, err := strconv.Atoi(text)
		if at = slices.Index(versions, version); err != nil || at < 0 {
			return errNoPage
		}
	}
	b := versionBody{Name: name, Version: versions[at], All: p.pageLink("definitions"), Versions: p.chooseVersions(name, versions, at)}
	b.Runs = p.pageLink("runs", "workflow", name, "where", "version == "+strconv.Itoa(b.Version))
	g, err := s.publishedGraph(p, name, b.Version)
	if err != nil {
		return err
	}
	if b.Text, b.Size, err = definitionText(g.Definition); err != nil {
		return err
	}
	// The first version has nothing to be compared with.
	if at == 0 {
		b.picture = p.drawGraph(g, nil, nil)
		return p.showPage("version.html", name, "definitions", b)
	}
	b.Before = versions[at-1]
	before, err := s.publishedGraph(p, name, b.Before)
	if err == nil {
		b.difference, err = p.drawDifference(before, g, nil, nil)
	}
	if err != nil {
		return err
	}
	return p.showPage("version.html", name, "definitions", b)
}

// publishedGraph returns a published definition compiled.
//
// It is compiled for each page, as these pages are not watched.
func (s *server) publishedGraph(p *page, name string, version int) (*compiled.Graph, error) {
	d, err := s.engine.Published(p.r.Context(), name, version)
	if errors.Is(err, pawl.ErrNotPublished) {
		return nil, errNoPage
	}
	if err != nil {
		return nil, err
	}
	return compiled.Compile(compiled.Boundless(), d)
}
