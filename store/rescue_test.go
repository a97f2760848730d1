package store_test

import (
	"context"

	"github.com/pawl-run/pawl/rescue"
	"github.com/pawl-run/pawl/store"
)

func init() {
	store.Verify = func(path string) (store.Checked, error) {
		return checked(rescue.Verify(context.Background(), path, rescue.Options{}))
	}
	store.Repair = func(path, into string) (store.Checked, error) {
		return checked(rescue.Repair(context.Background(), path, into, rescue.Options{}))
	}
}

func checked(r *rescue.Report, err error) (store.Checked, error) {
	if err != nil {
		return store.Checked{}, err
	}
	out := store.Checked{Damage: r.Damage}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, f.String())
	}
	return out, nil
}
