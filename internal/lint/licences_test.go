package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-run/pawl/internal/testing/harness"
)

// permissive are the licences that a linked module may have, each by words of its text.
var permissive = []struct {
	name  string
	words *regexp.Regexp
}{
	{"Apache-2.0", regexp.MustCompile(`Apache License,? Version 2\.0`)},
	{"MIT", regexp.MustCompile(`Permission is hereby granted, free of charge, to any person obtaining a copy of this software`)},
	{"BSD", regexp.MustCompile(`Redistribution and use in source and binary forms, with or without modification, are permitted`)},
	{"public domain", regexp.MustCompile(`author disclaims copyright to this source code|SQLite Is Public Domain`)},
}

// reciprocal finds the licences that bind a program which links what they are for, and
// those that permit less than any use.
var reciprocal = regexp.MustCompile(`(?i)GNU (Lesser |Library |Affero )?General Public|Mozilla Public|Eclipse Public|Server Side Public|` +
	`Business Source License|Commons Clause|European Union Public|NonCommercial|Elastic License`)

// nameLicence returns the permissive licence that a text is, or why it is not one.
func nameLicence(text string) (string, error) {
	text = strings.Join(strings.Fields(text), " ")
	if found := reciprocal.FindString(text); found != "" {
		return "", fmt.Errorf("it names the licence %q", found)
	}
	for _, p := range permissive {
		if p.words.MatchString(text) {
			return p.name, nil
		}
	}
	return "", fmt.Errorf("it is not the text of a permissive licence: %.60q", text)
}

// linkedModules returns the directories of the modules that a program links on a system
// with all packages of dir that others may import, by path and version.
func linkedModules(dir, system string) (map[string]string, error) {
	env := []string{"GOOS=" + system, "GOARCH=amd64", "CGO_ENABLED=0"}
	out, err := goCommandFor(dir, env, "list", "./...")
	if err != nil {
		return nil, err
	}
	const format = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"
	args := []string{"list", "-deps", "-f", format}
	for _, p := range strings.Fields(out) {
		if !strings.Contains(p, "/internal/") { // what they import of those comes with them
			args = append(args, p)
		}
	}
	out, err = goCommandFor(dir, env, args...)
	if err != nil {
		return nil, err
	}
	modules := map[string]string{}
	for line := range strings.Lines(out) {
		if name, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			modules[name] = dir
		}
	}
	return modules, nil
}

// ofOthers finds files that tell of what is not linked: a logo, or the modules that the
// tests of a module require. Modules that are linked have a file of their own.
var ofOthers = regexp.MustCompile(`LOGO|3RD-PARTY`)

// licencesOf returns the licences of the module in dir, or what is wrong with them.
func licencesOf(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		upper := strings.ToUpper(e.Name())
		if !strings.HasPrefix(upper, "LICEN") && !strings.HasPrefix(upper, "COPYING") || ofOthers.MatchString(upper) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		name, err := nameLicence(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("it has no licence: no file LICENSE or COPYING")
	}
	return names, nil
}

// Every program may link the modules that pawl links, its tests left out. A quick run looks at
// those of this system.
func TestLicencesArePermissive(t *testing.T) {
	harness.InTurn(t, 4)
	systems := []string{"linux", "darwin", "windows"}
	for _, system := range harness.Figure([]string{runtime.GOOS}, systems, systems) {
		modules, err := linkedModules(filepath.Join("..", ".."), system)
		require.NoError(t, err)
		require.Greater(t, len(modules), 15, system)
		for module, dir := range modules {
			_, err := licencesOf(dir)
			assert.NoError(t, err, module)
		}
	}
}

func TestNameLicence(t *testing.T) {
	for text, want := range map[string]string{
		"                 Apache License\n           Version 2.0, January 2004":                              "Apache-2.0",
		"Permission is hereby granted, free of charge, to any person obtaining\na copy of this software and": "MIT",
		"Redistribution and use in source and binary forms, with or without\n modification, are permitted":   "BSD",
		"The author disclaims copyright to this source code.":                                                "public domain",
		"                    GNU GENERAL PUBLIC LICENSE\n":                                                   "",
		"Apache License, Version 2.0, with the Commons Clause":                                               "",
		"Mozilla Public License Version 2.0":                                                                 "",
		"All rights reserved.":                                                                               "",
		"":                                                                                                   "",
	} {
		got, err := nameLicence(text)
		assert.Equal(t, want, got, text)
		assert.Equal(t, want == "", err != nil, text)
	}
	_, err := licencesOf(t.TempDir())
	assert.ErrorContains(t, err, "it has no licence")
}
