package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sources are this program's own, to be compiled with another checkout.
//
//go:embed *.go
var sources embed.FS

// buildOther builds this program with the packages of another checkout, which stays
// as it is: its folder bench is replaced for the compiler only, see go help build,
// -overlay. With is a file that takes the place of version.go there, or "". It returns the binary, in folder.
func buildOther(ctx context.Context, checkout, with, folder string) (string, error) {
	checkout, err := filepath.Abs(checkout)
	if err != nil {
		return "", err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return "", err
	}
	overlay, err := writeOverlay(checkout, with, filepath.Join(folder, "other-source"))
	if err != nil {
		return "", err
	}
	binary := filepath.Join(folder, "other")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", binary, "./bench")
	cmd.Dir = checkout
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the bench with the packages of %s: %w\n%s", checkout, err, out)
	}
	return binary, nil
}

// writeOverlay writes the sources into a folder, and a file that has them in place of
// the files that the checkout has in its folder bench; with, if it is not "", is written as version.go.
func writeOverlay(checkout, with, folder string) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	place := filepath.Join(checkout, "bench")
	replace := map[string]string{}
	there, err := filepath.Glob(filepath.Join(place, "*.go"))
	if err != nil {
		return "", err
	}
	for _, path := range there {
		replace[path] = "" // deleted
	}
	entries, err := sources.ReadDir(".")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		text, err := sources.ReadFile(e.Name())
		if err != nil {
			return "", err
		}
		if strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		if with != "" && e.Name() == "version.go" {
			if text, err = os.ReadFile(with); err != nil {
				return "", err
			}
		}
		path := filepath.Join(folder, e.Name())
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(place, e.Name())] = path
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, text, 0o644)
}
