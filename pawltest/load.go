package pawltest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-run/pawl/workflow"
)

// Load reads the scenarios of a file, or of every file of a folder and the
// folders in it whose name ends in .yaml or .yml and in which a document has the
// field scenario, in the order of their paths. An error is a *FileError, or
// joins several.
func Load(path string) ([]*Scenario, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &FileError{File: path, Message: reason(err), Err: err}
	}
	if !info.IsDir() {
		return loadFile(path, true)
	}
	var out []*Scenario
	var errs []error
	err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(at); err != nil || d.IsDir() || ext != ".yaml" && ext != ".yml" {
			return err
		}
		scenarios, err := loadFile(at, false)
		out, errs = append(out, scenarios...), append(errs, err)
		return nil
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, &FileError{File: path, Message: "no file in it holds a scenario"}
	}
	return out, nil
}

func reason(err error) string {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// maxFile bounds a scenario file, in bytes.
const maxFile = workflow.MaxDefinitionBytes

// loadFile reads one file. Unless every document must be a scenario, a file
// whose first document has no field scenario is something else, and passed over:
// a definition that scenarios refer to.
func loadFile(path string, must bool) ([]*Scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &FileError{File: path, Message: reason(err), Err: err}
	}
	if len(data) > maxFile {
		return nil, &FileError{File: path, Message: fmt.Sprintf("%d bytes are more than %d", len(data), maxFile)}
	}
	nodes, err := documents(data)
	if err != nil {
		return nil, inFile(path, err)
	}
	if !must && len(nodes) > 0 && !hasField(nodes[0], "scenario") {
		return nil, nil
	}
	var out []*Scenario
	for _, n := range nodes {
		s, err := newScenario(path, n)
		if err != nil {
			return nil, inFile(path, err)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, &FileError{File: path, Message: "the file is empty"}
	}
	return out, nil
}

func inFile(path string, err error) error {
	var at *FileError
	if errors.As(err, &at) {
		at.File = path
		return at
	}
	return &FileError{File: path, Message: err.Error(), Err: err}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// documents returns the documents of a file, with their aliases written out.
func documents(data []byte) (out []*yaml.Node, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			m := yamlLine.FindStringSubmatch(err.Error())
			e := &FileError{Message: err.Error(), Err: err}
			if m != nil {
				e.Line, _ = strconv.Atoi(m[1])
				e.Message = err.Error()[len(m[0]):]
			}
			return nil, e
		}
		e := expander{}
		root, err := e.expand(document.Content[0], 0)
		if err != nil {
			return nil, err
		}
		out = append(out, root)
	}
}

// An expander writes aliases out, within a bound.
type expander struct{ nodes int }

// Bounds of a document.
const (
	maxNodes = 1_000_000
	maxDepth = 200
)

func (e *expander) expand(n *yaml.Node, depth int) (*yaml.Node, error) {
	if e.nodes++; e.nodes > maxNodes || depth > maxDepth {
		return nil, wrong(n, "the document holds too much")
	}
	if n.Kind == yaml.AliasNode {
		return e.expand(n.Alias, depth+1)
	}
	out := *n
	out.Anchor, out.Content = "", make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		var err error
		if out.Content[i], err = e.expand(child, depth+1); err != nil {
			return nil, err
		}
	}
	return &out, nil
}

func hasField(n *yaml.Node, name string) bool {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return true
		}
	}
	return false
}

var statuses = []string{"completed", "failed", "timed_out", "cancelled", "refused", "running", "paused", "suspended"}

func newScenario(path string, n *yaml.Node) (*Scenario, error) {
	s := &Scenario{File: path, Line: n.Line}
	d := &s.document
	if err := decode(n, d); err != nil {
		return nil, err
	}
	if err := checkDocument(n, d); err != nil {
		return nil, err
	}
	s.Name = d.Scenario
	folder := filepath.Dir(path)
	var err error
	if d.Definition != nil {
		s.definition, err = sourceOf(d.Definition, folder)
	} else {
		s.definition, err = sourceFrom(n, folder, d.File)
	}
	if err != nil {
		return nil, err
	}
	for _, child := range d.Definitions {
		src, err := sourceOf(child, folder)
		if err != nil {
			return nil, err
		}
		s.definitions = append(s.definitions, src)
	}
	if err := s.checkNames(n); err != nil {
		return nil, err
	}
	return s, nil
}

// checkNames finds nodes that no definition has, which would be waited for, or
// kept from starting, in vain. A patch may add any.
func (s *Scenario) checkNames(n *yaml.Node) error {
	known := map[string]bool{}
	for _, src := range append(slices.Clone(s.definitions), s.definition) {
		if src.problem != nil {
			return nil
		}
		for i := range src.definition.Nodes {
			known[string(src.definition.Nodes[i].ID)] = true
		}
	}
	for i := range s.document.Events {
		if s.document.Events[i].Patch.set {
			return nil
		}
	}
	x := &s.document.Expect
	places := map[string][]string{
		"mocks": slices.Sorted(maps.Keys(s.document.Mocks)), "expect: nodes": slices.Sorted(maps.Keys(x.Nodes)),
		"expect: never": x.Never, "expect: before": slices.Concat(x.Before...),
	}
	if x.Path != nil {
		places["expect: path"] = *x.Path
	}
	for _, place := range slices.Sorted(maps.Keys(places)) {
		for _, node := range places[place] {
			if !known[node] {
				return wrong(n, "%s: no definition has a node %q", place, node)
			}
		}
	}
	return nil
}

func checkDocument(n *yaml.Node, d *document) error {
	x := &d.Expect
	switch {
	case d.Scenario == "":
		return wrong(n, "a scenario needs a name, in the field scenario")
	case (d.Definition == nil) == (d.File == ""):
		return wrong(n, "a scenario has either a definition or a file")
	case !hasField(n, "expect"):
		return wrong(n, "a scenario needs expect")
	case x.Status != "" && !slices.Contains(statuses, x.Status):
		return wrong(n, "expect: status: %q is none of %s", x.Status, strings.Join(statuses, ", "))
	}
	for _, pair := range x.Before {
		if len(pair) != 2 {
			return wrong(n, "expect: before: a list of pairs of nodes")
		}
	}
	for _, i := range x.Rejected {
		if i < 0 || i >= len(d.Events) {
			return wrong(n, "expect: rejected: there is no event %d; the first is 0", i)
		}
	}
	return nil
}

// sourceOf returns the definition in a node, or in the file that it names.
func sourceOf(n *yaml.Node, folder string) (source, error) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[0].Value == "file" {
		return sourceFrom(n, folder, n.Content[1].Value)
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return source{}, wrong(n, "%v", err)
	}
	def, problem := workflow.ParseYAML(text)
	return source{def, withoutPlaces(problem), true}, nil
}

// withoutPlaces drops lines and columns, which are not those of the file.
func withoutPlaces(err error) error {
	var de *workflow.DefinitionError
	if errors.As(err, &de) {
		for i := range de.Problems {
			de.Problems[i].Line, de.Problems[i].Column = 0, 0
		}
	}
	return err
}

func sourceFrom(n *yaml.Node, folder, file string) (source, error) {
	data, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(file)))
	if err != nil {
		return source{}, wrong(n, "file: %s: %s", file, reason(err))
	}
	def, problem := workflow.Parse(data)
	return source{def, problem, false}, nil
}
