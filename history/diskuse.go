package history

import "github.com/pawl-run/pawl/workflow"

// A DiskUse says how many bytes of an engine directory some of its runs, or another part of it, take.
type DiskUse struct {
	Part     string             `json:"part"`              // "runs": their files; "damaged": runs whose rows of the index are, of whose files nothing is known; "index": pawl.db with its logs, and what is not filed yet; "blobs", unless they are kept elsewhere
	Workflow string             `json:"workflow,omitzero"` // name of the definition; "" of another part
	Status   workflow.RunStatus `json:"status"`            // of the runs
	Tenant   string             `json:"tenant,omitzero"`   // on whose behalf; "" without
	Age      string             `json:"age,omitzero"`      // since the end of a run, else since its start: "hours" is less than a day, "days" less than 7, "weeks" less than 31, and "months"; "" of another part
	Runs     int64              `json:"runs,omitzero"`
	Bytes    int64              `json:"bytes"`
	Free     int64              `json:"free"` // of these, what Purge or an archive of runs that have ended frees
}
