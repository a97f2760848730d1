package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A pkg is one package, and what it imports.
type pkg struct {
	Path    string
	Files   []string // absolute
	Imports []string // paths of other packages of the list
}

// library returns the packages of the standard library, each after those that
// it imports, as the go command lists them.
func library(ctx context.Context) ([]pkg, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,CgoFiles,Imports,ImportMap", "std")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd, err, stderr.Bytes())
	}
	return parse(bytes.NewReader(out))
}

// A listed is what the go command says of a package.
type listed struct {
	ImportPath        string
	Dir               string
	GoFiles, CgoFiles []string
	Imports           []string
	ImportMap         map[string]string // from what is written in a source to the path of what is meant
}

func parse(r io.Reader) ([]pkg, error) {
	var all []pkg
	seen := map[string]bool{}
	for d := json.NewDecoder(r); ; {
		var l listed
		err := d.Decode(&l)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if path := plain(l.ImportPath); !seen[path] {
			seen[path] = true
			all = append(all, l.pkg(path, seen))
		}
	}
}

// pkg drops from the imports what is no package, as "C", and says each once.
func (l *listed) pkg(path string, known map[string]bool) pkg {
	imports := map[string]bool{}
	for _, i := range l.Imports {
		if to, ok := l.ImportMap[i]; ok {
			i = to
		}
		if i = plain(i); known[i] && i != path {
			imports[i] = true
		}
	}
	p := pkg{Path: path, Imports: slices.Sorted(maps.Keys(imports))}
	for _, name := range slices.Concat(l.GoFiles, l.CgoFiles) {
		p.Files = append(p.Files, filepath.Join(l.Dir, name))
	}
	return p
}

// plain returns the path of a package without the place where a copy of it is
// kept, so that two copies are one package.
func plain(path string) string {
	if i := strings.LastIndex(path, "vendor/"); i == 0 || i > 0 && path[i-1] == '/' {
		return path[i+len("vendor/"):]
	}
	return path
}
