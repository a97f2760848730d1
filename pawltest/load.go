package pawltest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-run/pawl/internal/below"
	"github.com/pawl-run/pawl/internal/document"
	"github.com/pawl-run/pawl/internal/limits"
	"github.com/pawl-run/pawl/internal/value"
	"github.com/pawl-run/pawl/workflow"
)

// Load reads the scenarios of a file, or of all files in a folder and the folders
// below it, in the order of their paths, whose name ends in .yaml or .yml and
// whose first document has the field scenario. An error joins a *FileError for
// each file, or scenario of a file, that cannot be read; Load returns the other
// scenarios with it. It reads only regular files of at most 4 MiB, below the
// loaded folder (or that of the loaded file) or the current one. The same holds
// for definitions to which a scenario refers, and for the targets of links.
func Load(path string) ([]*Scenario, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Join(inFile(path, err))
	}
	if !info.IsDir() {
		out, errs := loadFile(filepath.Dir(path), path, true)
		return out, errors.Join(errs...)
	}
	var out []*Scenario
	var errs []error
	_ = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			errs = append(errs, inFile(at, err)) // the folder is passed over
			return nil
		}
		if ext := filepath.Ext(at); !d.IsDir() && (ext == ".yaml" || ext == ".yml") {
			scenarios, failed := loadFile(path, at, false)
			out, errs = append(out, scenarios...), append(errs, failed...)
		}
		return nil
	})
	err = errors.Join(errs...)
	if err == nil && len(out) == 0 {
		err = errors.Join(&FileError{File: path, Message: "no file in it holds a scenario"})
	}
	return out, err
}

// fileReason returns what an error of the file system says, without the path.
func fileReason(err error) string {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// maxFile bounds a file that is read, in bytes.
const maxFile = limits.MaxDefinitionBytes

// readBelow reads a file below the folder that is loaded, or below the current one.
func readBelow(root, path string) ([]byte, error) { return below.ReadFile(path, maxFile, root, ".") }

// loadFile reads one file. Unless every document must be a scenario, a file
// whose first document has no field scenario is something else, and passed over:
// a definition that scenarios refer to. A scenario that cannot be read keeps no other from being read.
func loadFile(root, path string, must bool) (out []*Scenario, errs []error) {
	data, err := readBelow(root, path)
	if err != nil {
		return nil, []error{inFile(path, err)}
	}
	documents, err := scenarioTexts.ReadYAMLStream(data)
	if err != nil {
		return nil, []error{inFile(path, err)}
	}
	switch {
	case !must && (len(documents) == 0 || documents[0].Member("scenario") == nil):
		return nil, nil
	case len(documents) == 0:
		return nil, []error{&FileError{File: path, Message: "the file is empty"}}
	}
	for _, e := range documents {
		s, err := newScenario(root, path, e)
		if err != nil {
			errs = append(errs, inFile(path, err))
			continue
		}
		out = append(out, s)
	}
	return out, errs
}

func inFile(path string, err error) error {
	var at *FileError
	var syntax *document.SyntaxError
	switch {
	case errors.As(err, &at):
		at.File = path
		return at
	case errors.As(err, &syntax):
		return &FileError{File: path, Line: syntax.Line, Column: syntax.Column, Message: syntax.Message, Err: err}
	}
	return &FileError{File: path, Message: fileReason(err), Err: err}
}

// scenarioTexts reads scenario files.
var scenarioTexts = document.Reader{Noun: "document", Depth: 200}

var statuses = []string{"completed", "failed", "timed_out", "cancelled", "refused", "running", "paused", "suspended"}

func newScenario(root, path string, e *document.Element) (*Scenario, error) {
	s := &Scenario{File: path, Line: e.Line}
	d := &s.document
	if err := decodeElement(e, d); err != nil {
		return nil, err
	}
	if err := checkFields(e, d); err != nil {
		return nil, err
	}
	s.Name = d.Scenario
	folder := filepath.Dir(path)
	var err error
	if d.Definition != nil {
		s.definition, err = sourceOf(d.Definition, root, folder)
	} else {
		s.definition, err = sourceFrom(e, root, folder, d.File)
	}
	if err != nil {
		return nil, err
	}
	for _, child := range d.Definitions {
		src, err := sourceOf(child, root, folder)
		if err != nil {
			return nil, err
		}
		s.definitions = append(s.definitions, src)
	}
	if err := s.checkNames(e); err != nil {
		return nil, err
	}
	if err := s.readSchedules(root, folder, e); err != nil {
		return nil, err
	}
	return s, nil
}

func checkFields(e *document.Element, d *scenarioFields) error {
	x := &d.Expect
	switch {
	case d.Scenario == "":
		return errorAt(e, "a scenario needs a name, in the field scenario")
	case (d.Definition == nil) == (d.File == ""):
		return errorAt(e, "a scenario has either a definition or a file")
	case e.Member("expect") == nil:
		return errorAt(e, "a scenario needs expect")
	case x.Status != "" && !slices.Contains(statuses, x.Status):
		return errorAt(e, "expect: status: %q is none of %s", x.Status, strings.Join(statuses, ", "))
	}
	for _, pair := range x.Before {
		if len(pair) != 2 {
			return errorAt(e, "expect: before: a list of pairs of nodes")
		}
	}
	for _, i := range x.Rejected {
		if i < 0 || i >= len(d.Events) {
			return errorAt(e, "expect: rejected: there is no event %d; the first is 0", i)
		}
	}
	return checkForks(e, d)
}

// sourceOf returns the definition in an element, or in the file that it names.
func sourceOf(e *document.Element, root, folder string) (source, error) {
	if len(e.Members) == 1 && e.Members[0].Key == "file" {
		return sourceFrom(e, root, folder, e.StringAt("file"))
	}
	if e.Depth() > value.DefaultDepth { // as in a file of its own
		return source{}, errorAt(e, "the definition has more than %d levels", value.DefaultDepth)
	}
	def, problem := workflow.Bounds{}.ParseElement(*e)
	return source{def, problem}, nil
}

func sourceFrom(e *document.Element, root, folder, file string) (source, error) {
	data, err := readBelow(root, filepath.Join(folder, filepath.FromSlash(file)))
	if err != nil {
		return source{}, errorAt(e, "file: %s: %s", file, fileReason(err))
	}
	def, problem := workflow.Parse(data)
	return source{def, problem}, nil
}
