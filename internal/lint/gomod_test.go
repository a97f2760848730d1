package lint

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A goMod is what the go command tells of a go.mod file.
type goMod struct {
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct{ Old, New struct{ Path string } }
}

// checkGoMod allows only what has a reason to be required, nothing replaced,
// and the C library only in the version that SQLite's translation was made
// with: another one has corrupted memory.
func checkGoMod(t *tree) error {
	mod, err := readGoMod(t.dir, "go.mod")
	if err != nil {
		return err
	}
	versions := map[string]string{}
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
		if _, ok := required[r.Path]; !ok && !r.Indirect {
			t.reportAt("go.mod", "require", "%s is not in the table of required modules", r.Path)
		}
	}
	for _, r := range mod.Replace {
		t.reportAt("go.mod", "require", "%s is replaced", r.Old.Path)
	}
	if versions["modernc.org/sqlite"] == "" {
		return nil
	}
	want, err := libcOfSQLite(t.dir)
	if got := versions["modernc.org/libc"]; err == nil && got != want {
		t.reportAt("go.mod", "require", "modernc.org/libc is %s, modernc.org/sqlite needs exactly %s", got, want)
	}
	return err
}

// checkFolderModules allows the modules in folders only what has a reason there: the server of NATS is for tests,
// and nothing but this checkout stands in place of another module.
func checkFolderModules(t *tree) error {
	for dir, allowed := range requiredInFolders {
		path := filepath.Join(dir, "go.mod")
		mod, err := readGoMod(t.dir, path)
		if err != nil {
			return err
		}
		for _, r := range mod.Require {
			if !r.Indirect && !slices.Contains(allowed, r.Path) {
				t.reportAt(path, "require", "%s is not in the table of modules required there", r.Path)
			}
		}
		for _, r := range mod.Replace {
			if !strings.HasPrefix(r.Old.Path, module) || !strings.HasPrefix(r.New.Path, "..") {
				t.reportAt(path, "require", "%s is replaced", r.Old.Path)
			}
		}
	}
	return nil
}

// libcOfSQLite returns the version of libc that the go.mod of SQLite names.
func libcOfSQLite(dir string) (string, error) {
	path, err := goCommand(dir, "list", "-m", "-f", "{{.GoMod}}", "modernc.org/sqlite")
	if err != nil {
		return "", err
	}
	mod, err := readGoMod(dir, strings.TrimSpace(path))
	if err != nil {
		return "", err
	}
	for _, r := range mod.Require {
		if r.Path == "modernc.org/libc" {
			return r.Version, nil
		}
	}
	return "", fmt.Errorf("%s does not name modernc.org/libc", path)
}

func readGoMod(dir, path string) (goMod, error) {
	var mod goMod
	out, err := goCommand(dir, "mod", "edit", "-json", path)
	if err != nil {
		return mod, err
	}
	err = json.Unmarshal([]byte(out), &mod)
	return mod, err
}

func goCommand(dir string, args ...string) (string, error) {
	return goCommandFor(dir, nil, args...)
}

// goCommandFor runs the go command with more variables.
func goCommandFor(dir string, env []string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
