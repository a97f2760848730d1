package main

import (
	"context"
	"fmt"
	"go/build"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
)

// sources returns the files to count, absolute and in order: the files given,
// or the Go sources of the packages net and runtime.
func sources(given []string) ([]string, error) {
	files, err := absolute(given)
	if len(given) == 0 {
		files, err = library("net", "runtime")
	}
	switch {
	case err != nil:
		return nil, err
	case len(files) > maxFiles:
		return nil, fmt.Errorf("%d files, at most %d: %w", len(files), maxFiles, errTooMany)
	}
	return files, nil
}

func absolute(given []string) ([]string, error) {
	var files []string
	for _, name := range given {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		files = append(files, path)
	}
	return files, nil
}

// library returns every Go file below folders of the standard library.
func library(folders ...string) ([]string, error) {
	root, err := goroot()
	if err != nil {
		return nil, err
	}
	var files []string
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, "src", folder), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && filepath.Ext(path) == ".go" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("no sources of Go here, name files instead: %w", err)
		}
	}
	return files, nil
}

func goroot() (string, error) {
	if root := build.Default.GOROOT; root != "" {
		return root, nil
	}
	out, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
