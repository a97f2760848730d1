package pawltest

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/pawl-run/pawl/internal/harness"
	"github.com/pawl-run/pawl/store"
)

// Every play of these tests leaves sound directories: each run's file, journal,
// events and rows agree.
func init() {
	if harness.Raced {
		return
	}
	inspect = func(folder string) error {
		lives, err := os.ReadDir(folder)
		for _, life := range lives {
			r, failed := store.Verify(filepath.Join(folder, life.Name()))
			err = errors.Join(err, failed)
			if failed != nil {
				continue
			}
			for _, f := range r.Findings {
				if f.Damage {
					err = errors.Join(err, errors.New(f.String()))
				}
			}
		}
		return err
	}
}
