package pawltest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-run/pawl/internal/testing/harness"
	"github.com/pawl-run/pawl/internal/testing/harness/replays"
	"github.com/pawl-run/pawl/rescue"
)

// checked returns options with which every play must leave sound directories: each
// run's file, journal, events and rows agree, and its journal is planned again as it was. All plays of a scenario
// have more time than by default: there are many of them with crashes, and many scenarios side by side.
func checked(o Options) Options {
	o.Limit = time.Hour
	if !harness.Raced {
		o.inspect = verifyFolders
	}
	return o
}

func verifyFolders(folder string) error {
	lives, err := os.ReadDir(folder)
	for _, life := range lives {
		r, failed := rescue.Verify(context.Background(), filepath.Join(folder, life.Name()), rescue.Options{})
		err = errors.Join(err, failed)
		if failed != nil {
			continue
		}
		_, differs := replays.Check(filepath.Join(folder, life.Name()))
		err = errors.Join(err, differs)
		for _, f := range r.Findings {
			if f.Damage {
				err = errors.Join(err, errors.New(f.String()))
			}
		}
	}
	return err
}
